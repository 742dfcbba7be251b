//! server, under construction.
