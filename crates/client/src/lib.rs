//! client, under construction.
