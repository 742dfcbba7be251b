//! Headers that mirror what a body says: they grant nothing, and where nobody checks them they mean nothing.

use serde_json::json;

use crate::client::{Legacy, modern_with};
use crate::rig::{Running, World, demo};

fn serve(world: &World) -> Running {
    let gateway = world.serve(&[]);
    gateway.stands("ready");
    gateway
}

/// INT-4, INT-5: the policy goes by the body. In revisions that compare, a header that says otherwise is refused; in those that do not, it is
/// not looked at: it opens nothing that is denied, and closes nothing that is allowed.
#[test]
fn int_4_policy_goes_by_what_is_checked() {
    let policy = "[policy.'*']\ntools = { deny = ['alpha__echo'] }\n";
    let world = World::new("mirrored", &[&demo("alpha"), policy].concat());
    let gateway = serve(&world);
    let client = Legacy::open(&gateway);
    let call = |named: &str, tool: &str, arguments: serde_json::Value| {
        let params = json!({ "name": tool, "arguments": arguments });
        let message = json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params });
        let (session, name) = (format!("Mcp-Session-Id: {}", client.session), format!("Mcp-Name: {named}"));
        gateway.post("/mcp", &[&session, &name, "Mcp-Method: tools/call"], &message).answer()
    };
    let denied = call("alpha__add", "alpha__echo", json!({ "message": "x" }));
    assert!(denied.body.contains("unknown tool: alpha__echo"), "{denied:?}");
    let allowed = call("alpha__echo", "alpha__add", json!({ "a": 1, "b": 2 }));
    assert!(allowed.status == 200 && allowed.body.contains("\"sum\":3"), "{allowed:?}");

    // A second name beside the right one is no way around either.
    let twice = ["Mcp-Name: alpha__add"];
    let modern = modern_with(&gateway, &twice, "alpha__echo", &json!({ "message": "x" })).answer();
    assert_eq!(modern.status, 400, "{modern:?}");
    let unknown =
        modern_with(&gateway, &["Mcp-Param-Unheard-Of: 1"], "alpha__add", &json!({ "a": 1, "b": 2 }));
    let unknown = unknown.answer();
    assert!(
        unknown.status == 200 && unknown.body.contains("\"sum\":3"),
        "what nobody asked for is ignored: {unknown:?}"
    );
}
