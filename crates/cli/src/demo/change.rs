//! The tool that changes what the server offers, so that change notes can be seen.

use cardan_proto::model::{Prompt, PromptMessage, Resource, ResourceContents};
use cardan_proto::session::event::Change;
use cardan_server::builder::Builder;
use cardan_server::{Cx, Server, Stop};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct What {
    /// tools, resources, prompts, or the address of a resource.
    what: String,
}

const EXTRA_URI: &str = "demo://extra";

pub(super) fn add_to(builder: Builder) -> Builder {
    builder.tool(
        "change",
        "Changes a list or announces a resource as changed.",
        async |args: What, cx: Cx| change(&args.what, &cx),
    )
}

/// Lists gain an extra entry, and lose it the next time.
fn change(what: &str, cx: &Cx) -> Result<String, Stop> {
    let server = cx.server();
    let gained = match what {
        "tools" => toggle(
            server,
            |server| server.remove_tool("extra"),
            |server| {
                server.add_tool("extra", "Came later.", async || "extra");
            },
        ),
        "resources" => toggle(
            server,
            |server| server.remove_resource(EXTRA_URI),
            |server| {
                server.add_resource(Resource::new(EXTRA_URI, "extra"), async |_| {
                    Ok(vec![ResourceContents::text(EXTRA_URI, "This came later.")])
                });
            },
        ),
        "prompts" => toggle(
            server,
            |server| server.remove_prompt("extra"),
            |server| {
                let prompt = Prompt::new("extra").with_description("Came later.");
                server.add_prompt(prompt, async |_, _| Ok(vec![PromptMessage::user("This came later.")]));
            },
        ),
        uri if uri.contains(':') => {
            cx.changed(&Change::Resource(uri.into()));
            return Ok(format!("announced {uri}"));
        }
        other => {
            let wanted = "tools, resources, prompts or the address of a resource";
            return Err(Stop::failed(format_args!("{other:?} cannot change; use {wanted}")));
        }
    };
    Ok(match gained {
        Gained::Yes => format!("{what} gained an extra entry"),
        Gained::No => format!("{what} lost the extra entry"),
    })
}

enum Gained {
    Yes,
    No,
}

fn toggle(server: &Server, remove: impl Fn(&Server) -> bool, add: impl Fn(&Server)) -> Gained {
    if remove(server) {
        return Gained::No;
    }
    add(server);
    Gained::Yes
}
