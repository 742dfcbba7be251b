//! What our clients say, as text.

use cardan_proto::era::Revision;

use super::http::request;

pub(crate) const BOTH: &str = "application/json, text/event-stream";
pub(crate) const EVENTS: &str = "text/event-stream";

pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// The call that opens a legacy session, with the id 0.
pub(crate) fn initialize(revision: Revision) -> String {
    let date = revision.date();
    format!(
        r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{date}","capabilities":{{}},"clientInfo":{{"name":"raw","version":"1"}}}}}}"#
    )
}

/// A call of the legacy era.
pub(crate) fn call(id: u64, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}}}}}"#)
}

/// The same in the modern era.
pub(crate) fn modern_call(id: u64, method: &str, params: &str) -> String {
    let date = Revision::LATEST_MODERN.date();
    let meta = format!(
        r#""_meta":{{"progressToken":{id},"io.modelcontextprotocol/protocolVersion":"{date}","io.modelcontextprotocol/clientCapabilities":{{}},"io.modelcontextprotocol/clientInfo":{{"name":"raw","version":"1"}}}}"#
    );
    call(id, method, &format!("{params},{meta}"))
}

/// A message to a legacy session over Streamable HTTP.
pub(crate) fn legacy_post(session: &str, revision: Revision, accept: &str, body: &str) -> String {
    let date = revision.date();
    let headers = [("Accept", accept), ("Mcp-Session-Id", session), ("MCP-Protocol-Version", date)];
    request("POST", "/mcp", &headers, body)
}

/// A modern call over Streamable HTTP.
pub(crate) fn modern_post(method: &str, name: Option<&str>, body: &str) -> String {
    let date = Revision::LATEST_MODERN.date();
    let mut headers = vec![("Accept", BOTH), ("MCP-Protocol-Version", date), ("Mcp-Method", method)];
    headers.extend(name.map(|name| ("Mcp-Name", name)));
    request("POST", "/mcp", &headers, body)
}
