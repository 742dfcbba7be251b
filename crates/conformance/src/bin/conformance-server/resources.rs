//! Resources: text, bytes, a template, and one to listen to.

use cardan_proto::model::{Resource, ResourceContents, ResourceTemplate};
use cardan_server::Stop;
use cardan_server::builder::Builder;
use serde_json::json;

use crate::content::PICTURE;

const TEXT: &str = "test://static-text";
const BINARY: &str = "test://static-binary";
const WATCHED: &str = "test://watched-resource";
const TEMPLATE: &str = "test://template/{id}/data";

pub(crate) fn add_to(builder: Builder) -> Builder {
    let mut template = ResourceTemplate::new(TEMPLATE, "template");
    template.mime_type = Some("application/json".to_owned());
    builder
        .resource(resource(TEXT, "static-text", "text/plain"), async |_| {
            read(
                ResourceContents::text(TEXT, "This is the content of the static text resource."),
                "text/plain",
            )
        })
        .resource(resource(BINARY, "static-binary", "image/png"), async |_| {
            read(ResourceContents::blob(BINARY, &PICTURE), "image/png")
        })
        .resource(resource(WATCHED, "watched-resource", "text/plain"), async |_| {
            read(ResourceContents::text(WATCHED, "Watched content."), "text/plain")
        })
        .template(template, async |uri: String, variables, _| {
            let id = variables.get("id").map(String::as_str).unwrap_or_default();
            let data = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
            read(ResourceContents::text(uri, data.to_string()), "application/json")
        })
}

fn resource(uri: &str, name: &str, mime_type: &str) -> Resource {
    let mut resource = Resource::new(uri, name);
    resource.mime_type = Some(mime_type.to_owned());
    resource
}

fn read(contents: ResourceContents, mime_type: &str) -> Result<Vec<ResourceContents>, Stop> {
    Ok(vec![contents.with_mime_type(mime_type)])
}
