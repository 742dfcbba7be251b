//! Bounds of configuration: fixed, because files are read before anyone can have said otherwise.

/// A file that values come from: variables, or one value. A larger one is a problem of its server. Keys, certificates and
/// long lists of variables fit; a log does not.
pub const VALUE_FILE_BYTES: u64 = 1 << 20;
