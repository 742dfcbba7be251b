//! transport, under construction.
