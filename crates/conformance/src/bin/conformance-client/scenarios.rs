//! What the client does in each scenario. Most want what a host does anyway: list the tools and call them.

use std::collections::BTreeMap;
use std::error::Error;

use cardan_client::Client;
use cardan_proto::model::skill::SkillFiles;
use cardan_proto::model::{GetPromptParams, Prompt, Tool};
use serde_json::{Map, Value, json};

/// Plays a scenario through.
pub(crate) async fn play(scenario: &str, context: &Value, client: &Client) -> Result<(), Box<dyn Error>> {
    match scenario {
        "initialize" | "json-schema-ref-no-deref" => drop(client.all_tools().await?),
        "sep-2640-client-no-prefetch" => drop(client.all_skills().await?),
        _ if scenario.starts_with("sep-2640-") => use_skills(client).await?,
        "json-schema-2020-12-preservation" => echo_schema(client).await?,
        "http-standard-headers" => {
            call_all(client).await?;
            read_all(client).await?;
            fill_all(client).await?;
        }
        _ => match context.get("toolCalls").and_then(Value::as_array) {
            Some(calls) => replay(calls, client).await?,
            None => call_all(client).await?,
        },
    }
    Ok(())
}

/// Calls every tool with arguments that its schema requires.
async fn call_all(client: &Client) -> Result<(), Box<dyn Error>> {
    for tool in client.all_tools().await? {
        client.call_tool(&tool.name, &arguments(&tool))?.await?;
    }
    Ok(())
}

/// Makes the calls that the suite wants to see.
async fn replay(calls: &[Value], client: &Client) -> Result<(), Box<dyn Error>> {
    client.all_tools().await?;
    for call in calls {
        let name = call["name"].as_str().ok_or("a call in the context has no name")?;
        client.call_tool(name, &call["arguments"])?.await?;
    }
    Ok(())
}

async fn read_all(client: &Client) -> Result<(), Box<dyn Error>> {
    for resource in client.all_resources().await? {
        client.read(&resource.uri).await?;
    }
    Ok(())
}

async fn fill_all(client: &Client) -> Result<(), Box<dyn Error>> {
    for prompt in client.all_prompts().await? {
        client.prompt(&filled_in(&prompt)).await?;
    }
    Ok(())
}

/// Reads every skill as its entry describes it, and stops at the first that is not as described.
async fn use_skills(client: &Client) -> Result<(), Box<dyn Error>> {
    for skill in client.all_skills().await? {
        client.load_skill(&skill).await?;
        let SkillFiles::Listed(files) = &skill.resources else { continue };
        for file in files.iter().filter(|file| file.uri != skill.uri) {
            client.read_skill_file(&skill, &file.uri).await?;
        }
    }
    Ok(())
}

/// Sends a schema back as it came.
async fn echo_schema(client: &Client) -> Result<(), Box<dyn Error>> {
    let tools = client.all_tools().await?;
    let tool = tools.iter().find(|tool| tool.name == "json_schema_2020_12_tool");
    let schema = &tool.ok_or("the tool with the schema is not listed")?.input_schema;
    client.call_tool("json_schema_echo", &json!({ "schema": schema }))?.await?;
    Ok(())
}

fn filled_in(prompt: &Prompt) -> GetPromptParams {
    let named = prompt.arguments.iter().flatten();
    let arguments: BTreeMap<_, _> =
        named.map(|argument| (argument.name.clone(), "test".to_owned())).collect();
    let arguments = (!arguments.is_empty()).then_some(arguments);
    GetPromptParams {
        name: prompt.name.clone(),
        arguments,
        input_responses: None,
        request_state: None,
        meta: None,
    }
}

/// A value of its type for every property that is required.
fn arguments(tool: &Tool) -> Map<String, Value> {
    let schema: Value = tool.input_schema.raw().value();
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    required.map(|name| (name.to_owned(), sample(&schema["properties"][name]))).collect()
}

fn sample(schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("number" | "integer") => json!(1),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!("test"),
    }
}
