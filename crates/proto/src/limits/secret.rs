//! Bounds of what is kept out of sight.

/// Values that are shorter are not looked for in free text: `http`, `true` and `prod` are values of many a header and words of
/// most errors. Behind a name that tells of a secret they are hidden all the same.
pub const MIN_BYTES: usize = 6;

/// Values that are shorter are looked for as whole words only, so that a word which contains one is not torn apart.
pub const WORD_BYTES: usize = 8;

/// Values that were learned after the start, as they are and as JSON writes them. The oldest is forgotten: a helper that brings
/// another token with every connection does not fill the memory, and old tokens are worth little.
pub const LEARNED: usize = 256;

const _: () = assert!(MIN_BYTES <= WORD_BYTES, "what is looked for as a word is looked for");
