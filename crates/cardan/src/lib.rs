//! cardan, under construction.
