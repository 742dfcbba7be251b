//! runtime, under construction.
