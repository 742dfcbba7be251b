//! What clients see of the upstream: its name, its capabilities, its instructions, as it told them.

use bytes::Bytes;
use cardan_client::Settled;
use cardan_proto::jsonrpc::splice::member_of;
use cardan_proto::limits::Limits;
use cardan_proto::session::config::{Config, Interests, Role};
use cardan_proto::task::cross;

/// Where a modern server names itself.
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// The configuration of the sessions with clients. Each era drops on its own what it does not have.
pub(crate) fn config(settled: &Settled, limits: &Limits) -> Config {
    let greeting = settled.greeting.clone().unwrap_or_else(|| Bytes::from_static(b"{}"));
    let member = |object: &Bytes, name: &str, opening: u8| {
        let member = member_of(object, name).ok().flatten();
        member.filter(|raw| raw.first() == Some(&opening))
    };
    let meta = member(&greeting, "_meta", b'{');
    let identity = member(&greeting, "serverInfo", b'{')
        .or_else(|| member(&meta?, SERVER_INFO, b'{'))
        .unwrap_or_else(|| Bytes::from_static(b"{\"name\":\"unnamed\",\"version\":\"0\"}"));
    let capabilities = member(&greeting, "capabilities", b'{').unwrap_or_else(|| Bytes::from_static(b"{}"));
    // Tasks cross, so either side finds its own design.
    let capabilities = match cross::offered(settled.revision, &capabilities) {
        Some(design) => cross::both(design, &capabilities),
        None => capabilities,
    };
    let mut config = Config::new(Role::Server, identity, capabilities);
    config.instructions = member(&greeting, "instructions", b'"');
    config.interests = Interests::Handed;
    config.limits = limits.clone();
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use cardan_proto::era::Revision;

    /// Either era puts these at a place of its own; what is not there is not made up.
    #[test]
    fn both_greetings_are_read() {
        let legacy = r#"{"protocolVersion":"x","capabilities":{"tools":{}},"serverInfo":{"name":"a","n":1.50},"instructions":"do\n"}"#;
        let modern = r#"{"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"a","n":1.50}},"instructions":"do\n"}"#;
        for (revision, text) in [(Revision::LATEST_LEGACY, legacy), (Revision::LATEST_MODERN, modern)] {
            let greeting = Some(Bytes::copy_from_slice(text.as_bytes()));
            let config = config(&Settled { revision, greeting }, &Limits::DEFAULT);
            assert_eq!(config.identity, r#"{"name":"a","n":1.50}"#);
            assert_eq!(config.capabilities, r#"{"tools":{}}"#);
            assert_eq!(config.instructions.as_deref(), Some(br#""do\n""#.as_slice()));
        }
        let bare = config(&Settled { revision: Revision::LATEST_MODERN, greeting: None }, &Limits::DEFAULT);
        assert_eq!((bare.capabilities, bare.instructions), (Bytes::from_static(b"{}"), None));
    }
}
