//! Fault codes by the names of the specification, as far as the HTTP rules need them.

pub(super) const PARSE_ERROR: i32 = -32700;
pub(super) const INVALID_REQUEST: i32 = -32600;
pub(super) const METHOD_NOT_FOUND: i32 = -32601;
pub(super) const INVALID_PARAMS: i32 = -32602;
pub(super) const INTERNAL_ERROR: i32 = -32603;
pub(super) const HEADER_MISMATCH: i32 = -32020;
pub(super) const MISSING_REQUIRED_CLIENT_CAPABILITY: i32 = -32021;
pub(super) const UNSUPPORTED_PROTOCOL_VERSION: i32 = -32022;
