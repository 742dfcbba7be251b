//! Tools described by schemas: one that must reach the client as it is, one with a mirrored argument.

use cardan_proto::model::{Schema, Tool};
use cardan_server::builder::Builder;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// Keywords of JSON Schema 2020-12 that a careless server would lose.
const SCHEMA: &str = r##"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},"contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},"then":{"required":["phone"]},"else":{"required":["email"]},"additionalProperties":false}"##;

#[derive(Deserialize, JsonSchema)]
struct Routed {
    /// Where to run. Mirrored in a header, so that servers on the way can route by it.
    #[serde(default)]
    #[schemars(extend("x-mcp-header" = "Region"))]
    region: String,
}

pub(crate) fn add_to(builder: Builder) -> Result<Builder, Box<dyn std::error::Error>> {
    let schema: Schema = serde_json::from_str(SCHEMA)?;
    let tool =
        Tool::new("json_schema_2020_12_tool", schema).with_description("Takes what a rich schema allows.");
    let builder = builder
        .dynamic_tool(tool, async |arguments: Value, _| format!("The arguments fit: {arguments}"))?
        .tool("test_custom_header", "Runs in a region.", async |args: Routed| {
            format!("Ran in {:?}.", args.region)
        });
    Ok(builder)
}
