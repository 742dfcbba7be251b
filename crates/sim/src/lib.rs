//! sim, under construction.
