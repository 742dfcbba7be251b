//! Lines that an evil or sloppy peer writes out of the blue. None of them names a call of ours that
//! may be running by a well-formed reply: such a lie could not be told from the truth.

use cardan_proto::session::config::Role;

use crate::rng::Rng;

/// Some line, with its newline, as written by `from`.
pub(crate) fn line(from: Role, salt: u64, rng: &mut Rng) -> Vec<u8> {
    let mut line = match rng.below(12) {
        0 => rng
            .pick(&["Server listening on stdio...", "", "\t \r", "\u{feff}{}", "null", "[]", "[[]]"])
            .into(),
        1 => "x".repeat(rng.within(4000, 9000) as usize).into_bytes(),
        2 => (0..rng.within(1, 40)).map(|_| rng.below(256) as u8).filter(|byte| *byte != b'\n').collect(),
        3 | 4 => foreign_reply(rng).into_bytes(),
        5 | 6 => foreign_call(from, salt, rng).into_bytes(),
        7 | 8 => foreign_note(rng).into_bytes(),
        9 => malformed(rng).into_bytes(),
        10 => {
            let entries = [foreign_call(from, salt, rng), foreign_note(rng), foreign_reply(rng), "1".into()];
            let count = rng.within(1, 4) as usize;
            format!("[{}]", entries[..count].join(",")).into_bytes()
        }
        _ => format!("{{\"a\":{}1{}}}", "[".repeat(200), "]".repeat(200)).into_bytes(),
    };
    line.push(b'\n');
    line
}

/// The same frame with its id turned from a number into a string.
pub(crate) fn retyped(frame: &[u8]) -> Vec<u8> {
    const MEMBER: &[u8] = b"\"id\":";
    let Some(at) = frame.windows(MEMBER.len()).position(|window| window == MEMBER) else {
        return frame.to_vec();
    };
    let from = at + MEMBER.len();
    let digits = frame[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    [&frame[..from], b"\"", &frame[from..from + digits], b"\"", &frame[from + digits..]].concat()
}

fn foreign_reply(rng: &mut Rng) -> String {
    let id = rng.pick(&["1000001", "-1", "\"ghost\"", "1.5", "9e9", "123456789012345678901"]);
    match rng.below(3) {
        0 => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"nonce\":-1}}}}"),
        1 => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":1,\"message\":\"ghost\"}}}}"),
        _ => r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"ghost"}}"#.into(),
    }
}

fn foreign_call(from: Role, salt: u64, rng: &mut Rng) -> String {
    let id = rng.below(4);
    let modern = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let (method, params) = match from {
        Role::Client => rng.pick(&[
            ("ping", "{}".to_owned()),
            ("tools/call", "{\"name\":\"ghost\"}".to_owned()),
            ("tools/call", format!("{{\"name\":\"ghost\",{modern}}}")),
            ("tools/call", format!("{{\"name\":\"ghost\",\"inputResponses\":[],{modern}}}")),
            ("initialize", "{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{}}".to_owned()),
            ("subscriptions/listen", format!("{{\"notifications\":{{\"toolsListChanged\":true}},{modern}}}")),
            ("resources/subscribe", "{\"uri\":\"a:b\"}".to_owned()),
            ("logging/setLevel", "{\"level\":\"loud\"}".to_owned()),
            ("no/such", "{}".to_owned()),
        ]),
        Role::Server => rng.pick(&[
            ("ping", "{}".to_owned()),
            ("roots/list", "{}".to_owned()),
            ("elicitation/create", "{\"message\":\"ghost\"}".to_owned()),
            ("elicitation/create", "{\"mode\":\"url\"}".to_owned()),
            ("sampling/createMessage", "{}".to_owned()),
            ("no/such", "{}".to_owned()),
        ]),
    };
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":\"ghost-{salt}-{id}\",\"method\":\"{method}\",\"params\":{params}}}"
    )
}

fn foreign_note(rng: &mut Rng) -> String {
    let id = rng.within(1, 12);
    match rng.below(7) {
        // The one lie that may name a running call: it is the peer's right to say so.
        0 => note("cancelled", &format!("{{\"requestId\":{id},\"reason\":\"ghost\"}}")),
        1 => note("cancelled", "{}"),
        2 => note("progress", &format!("{{\"progressToken\":{id},\"progress\":{}}}", rng.below(5))),
        3 => note("progress", "{\"progressToken\":null}"),
        4 => note("tools/list_changed", "{}"),
        5 => note("resources/updated", "{\"uri\":\"a:b/c\"}"),
        _ => note(rng.pick(&["initialized", "message", "subscriptions/acknowledged", "no/such"]), "{}"),
    }
}

fn note(method: &str, params: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/{method}\",\"params\":{params}}}")
}

/// JSON, and yet no message.
fn malformed(rng: &mut Rng) -> String {
    let id = rng.within(1, 12);
    match rng.below(6) {
        0 => format!("{{\"id\":{id},\"error\":{{}}}}"),
        1 => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}},\"error\":{{}}}}"),
        2 => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":[]}}"),
        3 => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"id\":{id},\"method\":\"ping\"}}"),
        4 => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id}}}"),
        _ => "{\"jsonrpc\":\"2.0\",\"method\":3}".into(),
    }
}
