//! Clients of both eras, each with a connection of its own and ids of its own choice.

use serde_json::{Value, json};

use crate::wire::Wire;

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// What a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

/// A call of a tool, as this era writes it, by someone who can be asked this.
fn call(era: Era, id: usize, tool: &str, arguments: &Value, declared: &Value) -> String {
    let mut params = json!({ "name": tool, "arguments": arguments });
    if era == Era::Modern {
        params["_meta"] = meta(declared);
    }
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string()
}

/// What every modern call says of its client.
pub(crate) fn meta(declared: &Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": declared,
        "io.modelcontextprotocol/clientInfo": { "name": "load", "version": "1" },
    })
}

fn initialize() -> String {
    let info = json!({ "name": "load", "version": "1" });
    let params = json!({ "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": info });
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }).to_string()
}

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// A client over Streamable HTTP. It makes one call at a time.
pub(crate) struct Posting {
    era: Era,
    wire: Wire,
    session: String,
    /// What it can be asked, where each call says so.
    declared: Value,
}

impl Posting {
    pub(crate) async fn open(address: &str, era: Era) -> Self {
        Self::open_as(address, era, None).await
    }

    /// The same for whoever has this token.
    pub(crate) async fn open_as(address: &str, era: Era, token: Option<&str>) -> Self {
        let (wire, session) = (Wire::open_as(address, token).await, String::new());
        let mut client = Self { era, wire, session, declared: json!({}) };
        if era == Era::Legacy {
            let opened = client.wire.post(&[], &initialize()).await;
            client.session = opened.session.unwrap_or_else(|| panic!("no session: {:?}", opened.messages));
            let headers = [("Mcp-Session-Id", client.session.as_str())];
            assert_eq!(client.wire.post(&headers, INITIALIZED).await.status, 202);
        }
        client
    }

    /// The same client, which can be asked this.
    pub(crate) fn declaring(self, declared: Value) -> Self {
        Self { declared, ..self }
    }

    /// The one reply.
    pub(crate) async fn call(&mut self, id: usize, tool: &str, arguments: &Value) -> Value {
        self.begin(id, tool, arguments).await;
        self.reply().await
    }

    /// Calls, and reads nothing of what comes, though something does.
    pub(crate) async fn stall(&mut self, id: usize, tool: &str, arguments: &Value) {
        self.begin(id, tool, arguments).await;
        self.wire.is_answered().await;
    }

    /// Calls, and waits for nothing.
    pub(crate) async fn begin(&mut self, id: usize, tool: &str, arguments: &Value) {
        let body = call(self.era, id, tool, arguments, &self.declared);
        match self.era {
            Era::Legacy => self.wire.begin(&[("Mcp-Session-Id", &self.session)], &body).await,
            Era::Modern => {
                let headers =
                    [("MCP-Protocol-Version", MODERN), ("Mcp-Method", "tools/call"), ("Mcp-Name", tool)];
                self.wire.begin(&headers, &body).await;
            }
        }
    }

    /// The one reply to what was called.
    pub(crate) async fn reply(&mut self) -> Value {
        let got = self.wire.answer().await;
        let [reply] = &got.messages[..] else {
            panic!("not one reply but {}: {:?}", got.status, got.messages)
        };
        serde_json::from_str(reply).unwrap()
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.wire.is_quiet()
    }
}

/// A client on a WebSocket, for many calls at a time.
pub(crate) struct Talking {
    era: Era,
    wire: Wire,
}

impl Talking {
    pub(crate) async fn open_as(address: &str, era: Era, token: Option<&str>) -> Self {
        let mut wire = Wire::open_as(address, token).await.upgrade().await;
        if era == Era::Legacy {
            wire.say(&initialize()).await;
            let opened: Value = serde_json::from_str(&wire.hear().await).unwrap();
            assert!(opened["result"]["capabilities"].is_object(), "{opened}");
            wire.say(INITIALIZED).await;
        }
        Self { era, wire }
    }

    pub(crate) async fn send(&mut self, id: usize, tool: &str, arguments: &Value) {
        let text = call(self.era, id, tool, arguments, &json!({}));
        self.wire.say(&text).await;
    }

    pub(crate) async fn hear(&mut self) -> Value {
        serde_json::from_str(&self.wire.hear().await).unwrap()
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.wire.is_quiet()
    }
}
