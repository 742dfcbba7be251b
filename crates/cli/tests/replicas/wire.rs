//! HTTP by hand, one request for each connection, so that each may go to another replica.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::rig::LONG;

/// An answer.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: u16,
    /// In small letters.
    pub(crate) head: String,
    /// The session that is named, as it is spelled.
    pub(crate) session: Option<String>,
    /// The messages in it, whichever form it has.
    pub(crate) messages: Vec<Value>,
}

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// Sends a request and reads all of its answer.
pub(crate) fn ask(address: &str, method: &str, headers: &[String], body: &str) -> io::Result<Got> {
    read(send(address, method, headers, body)?, &[])
}

/// Reads until this has come.
#[track_caller]
pub(crate) fn read_until(stream: &mut TcpStream, what: &str) -> Vec<u8> {
    let mut told = Vec::new();
    while !String::from_utf8_lossy(&told).contains(what) {
        let mut bytes = [0; 1024];
        let count = stream.read(&mut bytes).unwrap();
        assert!(count > 0, "{what:?} never came: {}", String::from_utf8_lossy(&told));
        told.extend_from_slice(&bytes[..count]);
    }
    told
}

/// Reads the rest of an answer that began so.
pub(crate) fn read(mut stream: TcpStream, first: &[u8]) -> io::Result<Got> {
    let mut bytes = first.to_vec();
    stream.read_to_end(&mut bytes)?;
    let text = String::from_utf8(bytes).map_err(io::Error::other)?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| io::Error::other("no answer"))?;
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    let named = head.lines().find(|line| line.to_lowercase().starts_with("mcp-session-id: "));
    let session = named.and_then(|line| line.split_once(": ")).map(|(_, id)| id.to_owned());
    let head = head.to_lowercase();
    let body = if head.contains("transfer-encoding: chunked") { joined(body) } else { body.to_owned() };
    let data: Vec<&str> = match head.contains("text/event-stream") {
        true => body.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim).collect(),
        false => vec![&body],
    };
    let messages = data.into_iter().filter_map(|data| serde_json::from_str(data).ok()).collect();
    Ok(Got { status: status.ok_or_else(|| io::Error::other("no status"))?, head, session, messages })
}

/// Sends a request whose answer may have any form.
pub(crate) fn send(address: &str, method: &str, headers: &[String], body: &str) -> io::Result<TcpStream> {
    request(address, method, "application/json, text/event-stream", headers, body)
}

/// Posts a message whose answer is to have this form.
pub(crate) fn send_for(address: &str, form: &str, headers: &[String], body: &str) -> io::Result<TcpStream> {
    request(address, "POST", form, headers, body)
}

fn request(
    address: &str,
    method: &str,
    accept: &str,
    headers: &[String],
    body: &str,
) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LONG))?;
    let mut head = format!("{method} /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    head += &format!("Content-Type: application/json\r\nAccept: {accept}\r\n");
    for header in headers {
        head += &format!("{header}\r\n");
    }
    head += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(head.as_bytes())?;
    Ok(stream)
}

fn joined(chunks: &str) -> String {
    let (mut rest, mut out) = (chunks, String::new());
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap_or(0).min(after.len());
        out += &after[..size];
        rest = after[size..].trim_start_matches("\r\n");
        if size == 0 {
            break;
        }
    }
    out
}

/// A legacy session, as its client knows it.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub(crate) id: String,
    token: Option<String>,
}

impl Session {
    /// Asks for one; an answer without one is returned.
    pub(crate) fn open(address: &str, token: Option<&str>) -> Result<Self, Got> {
        let token = token.map(str::to_owned);
        let params = json!({
            "protocolVersion": LEGACY,
            "capabilities": {},
            "clientInfo": { "name": "canary-client", "version": "1" },
        });
        let call = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let mut session = Self { id: String::new(), token };
        let got = ask(address, "POST", &session.headers(), &call.to_string()).unwrap();
        let Some(id) = got.session.clone().filter(|_| got.status == 200) else { return Err(got) };
        session.id = id;
        let note = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(session.post(address, &note).unwrap().status, 202);
        Ok(session)
    }

    pub(crate) fn headers(&self) -> Vec<String> {
        let mut headers = Vec::new();
        if !self.id.is_empty() {
            headers.push(format!("Mcp-Session-Id: {}", self.id));
        }
        headers.extend(self.token.as_ref().map(|token| format!("Authorization: Bearer {token}")));
        headers
    }

    pub(crate) fn as_other(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    /// The same client with another id.
    pub(crate) fn with_id(&self, id: &str) -> Self {
        Self { id: id.to_owned(), ..self.clone() }
    }

    /// Sends any message.
    pub(crate) fn post(&self, address: &str, message: &Value) -> io::Result<Got> {
        ask(address, "POST", &self.headers(), &message.to_string())
    }

    /// Calls `echo`.
    pub(crate) fn echo(&self, address: &str, id: usize, text: &str) -> io::Result<Got> {
        let params = json!({ "name": "echo", "arguments": { "message": text } });
        self.post(address, &json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }))
    }

    /// The same, and it must work.
    #[track_caller]
    pub(crate) fn echoes(&self, address: &str, id: usize, text: &str) {
        let got = self.echo(address, id, text).unwrap();
        assert!(is_echo(&got, id, text), "{got:?}");
    }

    pub(crate) fn delete(&self, address: &str) -> u16 {
        ask(address, "DELETE", &self.headers(), "").unwrap().status
    }
}

/// One answer, and it is that of this call.
pub(crate) fn is_echo(got: &Got, id: usize, text: &str) -> bool {
    let replies: Vec<_> = got.messages.iter().filter(|message| message.get("id").is_some()).collect();
    let [reply] = replies[..] else { return false };
    got.status == 200 && reply["id"] == id && reply["result"]["content"][0]["text"] == text
}

/// A modern call of `echo`, which must work.
pub(crate) fn modern(address: &str, text: &str) -> Got {
    try_modern(address, text).unwrap()
}

/// A modern call of `echo`.
pub(crate) fn try_modern(address: &str, text: &str) -> io::Result<Got> {
    let (headers, body) = modern_call("echo", &json!({ "message": text }), json!({}));
    ask(address, "POST", &headers, &body)
}

/// The headers and the body of a modern call of a tool, with more in its `_meta`.
pub(crate) fn modern_call(tool: &str, arguments: &Value, meta: Value) -> (Vec<String>, String) {
    let (mut headers, body) =
        modern_message("tools/call", json!({ "name": tool, "arguments": arguments }), meta);
    headers.push(format!("Mcp-Name: {tool}"));
    (headers, body)
}

/// The same of an interest in changes of the tools.
pub(crate) fn modern_listen() -> (Vec<String>, String) {
    modern_message(
        "subscriptions/listen",
        json!({ "notifications": { "toolsListChanged": true } }),
        json!({}),
    )
}

fn modern_message(method: &str, mut params: Value, mut meta: Value) -> (Vec<String>, String) {
    meta["io.modelcontextprotocol/protocolVersion"] = json!(MODERN);
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
    meta["io.modelcontextprotocol/clientInfo"] = json!({ "name": "m", "version": "1" });
    params["_meta"] = meta;
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    (vec![format!("MCP-Protocol-Version: {MODERN}"), format!("Mcp-Method: {method}")], call.to_string())
}
