//! Bounds of what is kept out of sight.

/// Values that were learned after the start, as they are and as JSON writes them. The oldest is forgotten: a helper that brings
/// another token with every connection does not fill the memory, and old tokens are worth little.
pub const LEARNED: usize = 256;
