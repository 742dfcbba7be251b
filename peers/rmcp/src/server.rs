//! Server on rmcp, which serves both eras.
//!
//! Tools that ask the client something answer `input_required` in the modern era and call the client in the legacy
//! one; the SDK leaves the choice to its user. Over stdio, or with `--http` over HTTP: where it listens goes to stdout.
// Sampling, roots and logging are deprecated in the modern era; the tools use them on purpose.
#![allow(deprecated)]

use std::collections::VecDeque;
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use rmcp::model::*;
use rmcp::service::{RequestContext, RoleServer, ServiceError, SubscriptionContext};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
};
use rmcp::{ErrorData, ServerHandler, ServiceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::broadcast;

/// What changed, for whoever listens.
static CHANGES: LazyLock<broadcast::Sender<String>> = LazyLock::new(|| broadcast::channel(64).0);

/// Listens that are accepted and have not begun. The SDK says yes to a client before it calls `listen`, and what changes in
/// between must reach the client too.
static ACCEPTED: Mutex<VecDeque<broadcast::Receiver<String>>> = Mutex::new(VecDeque::new());

#[derive(Clone)]
struct Peer;

type Context = RequestContext<RoleServer>;

/// The SDK's types are its own; the words of the protocol are everybody's.
fn of<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the words of the protocol")
}

fn text(said: impl Into<String>) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(said.into())]).into()
}

fn failed(error: ServiceError) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

fn tools() -> Value {
    let tool = |name: &str, properties: Value| json!({ "name": name, "inputSchema": { "type": "object", "properties": properties } });
    let (word, number) = (json!({ "type": "string" }), json!({ "type": "number" }));
    let mut add = tool("add", json!({ "a": number, "b": number }));
    add["outputSchema"] = json!({ "type": "object", "properties": { "sum": number }, "required": ["sum"] });
    json!([
        tool("echo", json!({ "message": word })),
        add,
        tool("slow", json!({ "steps": number, "delay_ms": number })),
        tool("fail", json!({ "message": word })),
        tool("ask", json!({ "question": word })),
        tool("sample", json!({ "prompt": word })),
        tool("roots", json!({})),
        tool("note", json!({ "level": word, "message": word })),
        tool("change", json!({ "what": word })),
    ])
}

impl Peer {
    async fn slow(&self, args: &Value, context: &Context) -> Result<CallToolResponse, ErrorData> {
        let steps = args["steps"].as_u64().unwrap_or_default();
        let delay = Duration::from_millis(args["delay_ms"].as_u64().unwrap_or_default());
        for step in 1..=steps {
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                () = context.ct.cancelled() => {
                    eprintln!("cancelled");
                    return Err(ErrorData::internal_error("cancelled", None));
                }
            }
            if let Some(token) = context.meta.get_progress_token() {
                let note = json!({ "progressToken": token, "progress": step, "total": steps });
                context.peer.notify_progress(of(note)).await.map_err(failed)?;
            }
        }
        Ok(text("done"))
    }

    /// Asks the client, and says what `read` finds in its answer.
    async fn ask(
        &self,
        request: &CallToolRequestParams,
        context: &Context,
        ask: Value,
        read: impl Fn(&Value) -> String,
    ) -> Result<CallToolResponse, ErrorData> {
        let modern =
            context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
        if modern {
            return Ok(match request.input_responses.as_ref().and_then(|answers| answers.get("it")) {
                Some(answer) => text(read(&serde_json::to_value(answer).unwrap_or_default())),
                None => {
                    let asks = of(json!({ "it": ask }));
                    InputRequiredResult::new(Some(asks), Some("asked".into())).into()
                }
            });
        }
        let params = ask["params"].clone();
        let answer = match ask["method"].as_str() {
            Some("elicitation/create") => {
                serde_json::to_value(context.peer.create_elicitation(of(params)).await.map_err(failed)?)
            }
            Some("sampling/createMessage") => {
                serde_json::to_value(context.peer.create_message(of(params)).await.map_err(failed)?)
            }
            _ => serde_json::to_value(context.peer.list_roots().await.map_err(failed)?),
        };
        Ok(text(read(&answer.unwrap_or_default())))
    }

    async fn change(&self, what: &str, context: &Context) -> Result<CallToolResponse, ErrorData> {
        // Whoever listens is told by its listen; legacy clients are told by their session.
        let _ = CHANGES.send(what.to_owned());
        let modern =
            context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
        if !modern {
            match what {
                "tools" => context.peer.notify_tool_list_changed().await,
                "resources" => context.peer.notify_resource_list_changed().await,
                "prompts" => context.peer.notify_prompt_list_changed().await,
                uri => context.peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await,
            }
            .map_err(failed)?;
        }
        Ok(text("changed"))
    }
}

impl ServerHandler for Peer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = of(json!({
            "tools": { "listChanged": true },
            "resources": { "subscribe": true, "listChanged": true },
            "prompts": { "listChanged": true },
            "logging": {},
            "completions": {},
        }));
        ServerConfig::new(capabilities).with_server_info(Implementation::new("peer-rmcp", "1.0.0"))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(of(tools())))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: Context,
    ) -> Result<CallToolResponse, ErrorData> {
        let args = Value::Object(request.arguments.clone().unwrap_or_default());
        let word = |name: &str| args[name].as_str().unwrap_or_default().to_owned();
        match request.name.as_ref() {
            "echo" => Ok(text(word("message"))),
            "add" => {
                let sum = args["a"].as_f64().unwrap_or_default() + args["b"].as_f64().unwrap_or_default();
                Ok(CallToolResult::structured(json!({ "sum": sum as i64 })).into())
            }
            "slow" => self.slow(&args, &context).await,
            "fail" => Ok(CallToolResult::error(vec![ContentBlock::text(word("message"))]).into()),
            "ask" => {
                let schema = json!({
                    "type": "object", "properties": { "answer": { "type": "string" } }, "required": ["answer"],
                });
                let params =
                    json!({ "mode": "form", "message": word("question"), "requestedSchema": schema });
                let ask = json!({ "method": "elicitation/create", "params": params });
                let read =
                    |answer: &Value| answer["content"]["answer"].as_str().unwrap_or("declined").to_owned();
                self.ask(&request, &context, ask, read).await
            }
            "sample" => {
                let message =
                    json!({ "role": "user", "content": { "type": "text", "text": word("prompt") } });
                let params = json!({ "messages": [message], "maxTokens": 100 });
                let ask = json!({ "method": "sampling/createMessage", "params": params });
                self.ask(&request, &context, ask, |answer| answer["content"].to_string()).await
            }
            "roots" => {
                let ask = json!({ "method": "roots/list" });
                self.ask(&request, &context, ask, |answer| answer["roots"].to_string()).await
            }
            "note" => {
                let note = json!({ "level": args["level"], "logger": "demo", "data": args["message"] });
                context.peer.notify_logging_message(of(note)).await.map_err(failed)?;
                Ok(text("noted"))
            }
            "change" => self.change(&word("what"), &context).await,
            other => Err(ErrorData::invalid_params(format!("unknown tool {other}"), None)),
        }
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        let clock = json!({ "uri": "demo://clock", "name": "clock", "mimeType": "text/plain" });
        Ok(ListResourcesResult::with_all_items(of(json!([clock]))))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let file = json!({ "uriTemplate": "demo://file/{name}", "name": "file", "mimeType": "text/plain" });
        Ok(ListResourceTemplatesResult::with_all_items(of(json!([file]))))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let said = match request.uri.as_str() {
            "demo://clock" => format!("{:?}", std::time::SystemTime::now()),
            "demo://file/broken" => {
                let data = json!({ "part": "shaft", "tries": 3 });
                return Err(ErrorData::new(ErrorCode(7001), "the file is broken", Some(data)));
            }
            uri if uri.starts_with("demo://file/") => format!("file {uri}"),
            uri => {
                return Err(ErrorData::resource_not_found("no such resource", Some(json!({ "uri": uri }))));
            }
        };
        Ok(ReadResourceResult::new(vec![ResourceContents::text(said, request.uri)]).into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListPromptsResult, ErrorData> {
        let greet = json!({ "name": "greet", "arguments": [{ "name": "name", "required": true }] });
        Ok(ListPromptsResult::with_all_items(of(json!([greet]))))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: Context,
    ) -> Result<GetPromptResponse, ErrorData> {
        let args = serde_json::to_value(&request.arguments).unwrap_or_default();
        let said = format!("Please greet {}.", args["name"].as_str().unwrap_or_default());
        let message = json!({ "role": "user", "content": { "type": "text", "text": said } });
        let result: GetPromptResult = of(json!({ "messages": [message] }));
        Ok(result.into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: Context,
    ) -> Result<CompleteResult, ErrorData> {
        let known =
            ["Ada", "Alan", "Grace"].into_iter().filter(|name| name.starts_with(&request.argument.value));
        Ok(of(json!({ "completion": { "values": known.collect::<Vec<_>>() } })))
    }

    async fn set_level(&self, _: SetLevelRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn subscribe(&self, _: SubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        ACCEPTED.lock().expect("nobody panics with it").push_back(CHANGES.subscribe());
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let accepted = ACCEPTED.lock().expect("nobody panics with it").pop_front();
        let mut changes = accepted.unwrap_or_else(|| CHANGES.subscribe());
        loop {
            let what = tokio::select! {
                () = context.cancelled() => return Ok(()),
                what = changes.recv() => what.unwrap_or_default(),
            };
            // What it did not ask for is refused by the sink.
            let sink = context.sink();
            let _ = match what.as_str() {
                "tools" => sink.notify_tool_list_changed().await,
                "resources" => sink.notify_resource_list_changed().await,
                "prompts" => sink.notify_prompt_list_changed().await,
                uri => sink.notify_resource_updated(uri).await,
            };
        }
    }
}

#[tokio::main]
async fn main() {
    if std::env::args().nth(1).as_deref() != Some("--http") {
        let serving = Peer.serve(rmcp::transport::stdio()).await.expect("a session");
        let _ = serving.waiting().await;
        return;
    }
    let sessions = LocalSessionManager::default().into();
    let service: StreamableHttpService<Peer, LocalSessionManager> =
        StreamableHttpService::new(|| Ok(Peer), sessions, StreamableHttpServerConfig::default());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    println!("http://{}/mcp", listener.local_addr().expect("an address"));
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await.expect("it serves");
}
