//! Client on rmcp, which knows both eras. Runs the checks of `peers/script.mjs` and tells them the same way.
//!
//! `rmcp-client [--era legacy|modern] -- command args... | url`
// Log levels are deprecated in the modern era; the check uses them on purpose.
#![allow(deprecated)]

use std::collections::BTreeMap;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use rmcp::model::*;
use rmcp::service::{
    NotificationContext, RequestContext, RoleClient, RunningService, RxJsonRpcMessage, ServiceError,
    TxJsonRpcMessage,
};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess, Transport};
use rmcp::{ClientHandler, ClientServiceExt, ErrorData};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc};

const CHECK_TIMEOUT: Duration = Duration::from_secs(10);
const LARGE_BYTES: usize = 1 << 20;

const CHECKS: [&str; 19] = [
    "list",
    "call",
    "structured",
    "tool_error",
    "unknown_tool",
    "progress",
    "cancel",
    "elicit",
    "sample",
    "roots",
    "read",
    "prompt",
    "complete",
    "log",
    "changed",
    "updated",
    "fault",
    "ping",
    "large",
];

/// The SDK's types are its own; the words of the protocol are everybody's.
fn of<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the words of the protocol")
}

/// What a gateway puts before the names of the server that is meant, for tools and prompts; nothing without one.
fn prefix() -> String {
    std::env::var("PEER_PREFIX").unwrap_or_default()
}

/// A tool or prompt by the name that it has here.
fn within(name: &Value) -> String {
    prefix() + name.as_str().unwrap_or_default()
}

/// The names that are the server's own.
fn own(names: impl Iterator<Item = String>) -> Vec<String> {
    names.filter_map(|name| Some(name.strip_prefix(&prefix())?.to_owned())).collect()
}

/// What the server sends unasked.
enum Note {
    Progress(f64),
    Log(Value),
    Tools,
    Updated(String),
}

/// A transport that tells which progress notes come by it, in their order. The SDK handles each note in a task of its own:
/// there their order is lost before anybody sees it.
struct Overheard<T> {
    transport: T,
    progress: mpsc::UnboundedSender<f64>,
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Overheard<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.transport.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let message = self.transport.receive().await?;
        if let JsonRpcMessage::Notification(note) = &message
            && let ServerNotification::ProgressNotification(note) = &note.notification
        {
            let _ = self.progress.send(note.params.progress);
        }
        Some(message)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.transport.close().await
    }
}

struct Handler {
    notes: mpsc::UnboundedSender<Note>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let capabilities = of(json!({ "elicitation": {}, "sampling": {}, "roots": {} }));
        ClientConfig::new(capabilities, Implementation::new("peer-rmcp", "1.0.0"))
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let content = json!({ "type": "text", "text": "sampled" });
        Ok(of(json!({ "role": "assistant", "model": "peer", "content": content })))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(of(json!({ "roots": [{ "uri": "file:///workspace", "name": "workspace" }] })))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let asked = serde_json::to_value(&request).unwrap_or_default();
        let fields = &asked["requestedSchema"]["properties"];
        let field = ["answer", "name"].into_iter().find(|name| fields.get(name).is_some());
        let field = field.ok_or_else(|| ErrorData::invalid_params("the form has no field `answer`", None))?;
        Ok(of(json!({ "action": "accept", "content": { field: "blue" } })))
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let _ = self.notes.send(Note::Progress(params.progress));
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let _ = self.notes.send(Note::Log(serde_json::to_value(&params).unwrap_or_default()));
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        let _ = self.notes.send(Note::Tools);
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let _ = self.notes.send(Note::Updated(params.uri));
    }
}

/// Why a check was not passed.
enum Unmet {
    Failed(String),
    Skipped(&'static str),
}

impl From<ServiceError> for Unmet {
    fn from(error: ServiceError) -> Self {
        Self::Failed(error.to_string())
    }
}

type Checked = Result<(), Unmet>;

fn expect(holds: bool, why: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(Unmet::Failed(why())) }
}

fn text_of(result: &CallToolResult) -> String {
    let content = serde_json::to_value(&result.content).unwrap_or_default();
    let texts = content.as_array().into_iter().flatten().filter_map(|block| block["text"].as_str());
    texts.collect::<Vec<_>>().join("\n")
}

struct Peer {
    service: RunningService<RoleClient, Handler>,
    notes: Mutex<mpsc::UnboundedReceiver<Note>>,
    /// The progress notes that came by the transport.
    progress: mpsc::UnboundedReceiver<f64>,
    era: String,
    /// What the server calls things.
    terms: Value,
}

/// What servers call things: the peers and the demo one way, the reference server another.
fn terms(everything: bool) -> Value {
    let document = "demo://resource/static/document/architecture.md";
    if everything {
        return json!({
            "tools": ["echo", "get-sum", "trigger-long-running-operation"],
            "structured": [["get-structured-content", { "location": "New York" }], "temperature", 33],
            "fail": [["get-resource-reference", { "resourceType": "Text", "resourceId": -1 }], "resourceId"],
            "slow": "trigger-long-running-operation", "done": "completed",
            "ask": ["trigger-elicitation-request", {}],
            "sample": ["trigger-sampling-request", { "prompt": "say something" }],
            "roots": ["get-roots-list", {}],
            "template": "demo://resource/dynamic/text/{resourceId}",
            "read": [document, "demo://resource/dynamic/text/1"],
            "prompt": ["args-prompt", { "city": "Ada" }],
            "complete": ["completable-prompt", "department", "E"],
            "log": [["toggle-simulated-logging", {}], ""],
            "updated": [document, ["toggle-subscriber-updates", {}]],
            "fault": ["demo://resource/dynamic/text/0", -32603, null],
        });
    }
    json!({
        "tools": ["echo", "add", "slow"],
        "structured": [["add", { "a": 2, "b": 3 }], "sum", 5],
        "fail": [["fail", { "message": "out of luck" }], "out of luck"],
        "slow": "slow", "done": "done",
        "ask": ["ask", { "question": "favourite colour?" }],
        "sample": ["sample", { "prompt": "say something" }],
        "roots": ["roots", {}],
        "template": "demo://file/{name}",
        "read": ["demo://clock", "demo://file/readme"],
        "prompt": ["greet", { "name": "Ada" }],
        "complete": ["greet", "name", "A"],
        "log": [["note", { "level": "warning", "message": "hi" }], "hi"],
        "changed": ["change", { "what": "tools" }],
        "updated": ["demo://clock", ["change", { "what": "demo://clock" }]],
        "fault": ["demo://file/broken", 7001, { "part": "shaft", "tries": 3 }],
    })
}

impl Peer {
    fn modern(&self) -> bool {
        self.era == "modern"
    }

    fn params(tool: &Value) -> CallToolRequestParams {
        of(json!({ "name": within(&tool[0]), "arguments": tool[1] }))
    }

    async fn call(&self, tool: &Value) -> Result<CallToolResult, Unmet> {
        Ok(self.service.call_tool(Self::params(tool)).await?)
    }

    async fn says(&self, tool: &Value, part: &str) -> Checked {
        let result = self.call(tool).await?;
        expect(text_of(&result).contains(part), || format!("{} answered {result:?}", tool[0]))
    }

    fn slow(&self, steps: u32, delay_ms: u32) -> Value {
        match self.terms["slow"].as_str() {
            Some("slow") => json!(["slow", { "steps": steps, "delay_ms": delay_ms }]),
            other => json!([other, { "steps": steps, "duration": f64::from(steps * delay_ms) / 1000.0 }]),
        }
    }

    /// Waits for a note that is wanted; others are passed over.
    async fn note<T>(&self, wanted: impl Fn(Note) -> Option<T>) -> Result<T, Unmet> {
        let mut notes = self.notes.lock().await;
        while let Some(note) = notes.recv().await {
            if let Some(found) = wanted(note) {
                return Ok(found);
            }
        }
        Err(Unmet::Failed("the session ended".into()))
    }

    async fn forget_notes(&self) {
        let mut notes = self.notes.lock().await;
        while notes.try_recv().is_ok() {}
    }

    async fn check(&mut self, name: &str) -> Checked {
        match name {
            "list" => self.list().await,
            "call" => self.says(&json!(["echo", { "message": "hello" }]), "hello").await,
            "structured" => self.structured().await,
            "tool_error" => {
                let result = self.call(&self.terms["fail"][0]).await?;
                let says = self.terms["fail"][1].as_str().unwrap_or_default();
                expect(result.is_error == Some(true), || format!("no isError: {result:?}"))?;
                expect(text_of(&result).contains(says), || format!("the message is lost: {result:?}"))
            }
            "unknown_tool" => {
                match self.service.call_tool(Self::params(&json!(["no_such_tool", {}]))).await {
                    Ok(result) => expect(result.is_error == Some(true), || format!("answered {result:?}")),
                    Err(ServiceError::McpError(error)) => expect(error.code.0 == -32602, || {
                        format!("failed with {}: {}", error.code.0, error.message)
                    }),
                    Err(error) => Err(error.into()),
                }
            }
            "progress" => self.progress().await,
            "cancel" => self.cancel().await,
            "elicit" => self.says(&self.terms["ask"], "blue").await,
            "sample" => self.says(&self.terms["sample"], "sampled").await,
            "roots" => self.says(&self.terms["roots"], "file:///workspace").await,
            "read" => self.read().await,
            "prompt" => self.prompt().await,
            "complete" => {
                let word = |at: usize| self.terms["complete"][at].as_str().unwrap_or_default().to_owned();
                let prompt = within(&self.terms["complete"][0]);
                let values = self.service.complete_prompt_simple(prompt, word(1), word(2)).await?;
                expect(!values.is_empty(), || "no completion".into())
            }
            "log" => self.log().await,
            "changed" => self.changed().await,
            "updated" => self.updated().await,
            "large" => {
                let message = "0123456789abcdef".repeat(LARGE_BYTES / 16);
                let text = text_of(&self.call(&json!(["echo", { "message": message }])).await?);
                expect(text.ends_with(&message), || format!("{} characters came back, or others", text.len()))
            }
            "fault" => self.fault().await,
            _ if self.modern() => Err(Unmet::Skipped("ping is not part of this era")),
            _ => {
                let ping = ClientRequest::PingRequest(PingRequest::default());
                self.service.send_request(ping).await?;
                Ok(())
            }
        }
    }

    async fn list(&mut self) -> Checked {
        let listed = self.service.list_all_tools().await?;
        let names = own(listed.into_iter().map(|tool| tool.name.into_owned()));
        self.terms = terms(names.iter().any(|name| name == "get-sum"));
        for wanted in self.terms["tools"].as_array().into_iter().flatten() {
            expect(names.iter().any(|name| *wanted == **name), || format!("tool {wanted} is not listed"))?;
        }
        Ok(())
    }

    async fn structured(&self) -> Checked {
        let terms = &self.terms["structured"];
        let result = self.call(&terms[0]).await?;
        let member = terms[1].as_str().unwrap_or_default();
        let data = result.structured_content.clone().unwrap_or_default();
        expect(data[member].as_f64() == terms[2].as_f64(), || format!("answered {result:?}"))?;
        expect(text_of(&result).contains(&terms[2].to_string()), || "no text beside the structure".into())
    }

    async fn progress(&mut self) -> Checked {
        self.forget_notes().await;
        while self.progress.try_recv().is_ok() {}
        let result = self.call(&self.slow(3, 10)).await?;
        let done = self.terms["done"].as_str().unwrap_or_default();
        expect(text_of(&result).contains(done), || format!("answered {result:?}"))?;
        let sent: Vec<f64> = std::iter::from_fn(|| self.progress.try_recv().ok()).collect();
        expect(sent == [1.0, 2.0, 3.0], || {
            format!("expected 3 progress notes before the result, got {sent:?}")
        })?;
        let mut delivered = Vec::new();
        // To its user the SDK may hand the last after the result, and all of them in any order.
        while delivered.len() < 3 {
            let note = self.note(|note| if let Note::Progress(at) = note { Some(at) } else { None });
            match tokio::time::timeout(Duration::from_secs(1), note).await {
                Ok(at) => delivered.push(at?),
                Err(_) => break,
            }
        }
        delivered.sort_by(f64::total_cmp);
        expect(delivered == sent, || format!("of {sent:?} the SDK delivered {delivered:?}"))
    }

    async fn cancel(&self) -> Checked {
        self.forget_notes().await;
        let slow = self.slow(1000, 20);
        // A call that is dropped is cancelled on the wire.
        tokio::select! {
            result = self.call(&slow) => {
                return Err(Unmet::Failed(format!("it ended by itself: {:?}", result.is_ok())));
            }
            at = self.note(|note| if let Note::Progress(at) = note { Some(at) } else { None }) => at?,
        };
        self.says(&json!(["echo", { "message": "still here" }]), "still here").await
    }

    async fn read(&self) -> Checked {
        let uris: Vec<String> =
            self.service.list_all_resources().await?.into_iter().map(|item| item.uri.clone()).collect();
        let wanted = &self.terms["read"][0];
        expect(uris.iter().any(|uri| *wanted == **uri), || format!("{wanted} is not listed"))?;
        let templates = self.service.list_all_resource_templates().await?;
        let wanted = &self.terms["template"];
        expect(templates.iter().any(|item| *wanted == *item.uri_template), || {
            format!("{wanted} is not listed")
        })?;
        for uri in self.terms["read"].as_array().into_iter().flatten() {
            let result = self.service.read_resource(of(json!({ "uri": uri }))).await?;
            let contents = serde_json::to_value(&result.contents).unwrap_or_default();
            expect(contents[0]["text"].is_string(), || format!("{uri} read as {contents}"))?;
        }
        Ok(())
    }

    async fn prompt(&self) -> Checked {
        let terms = &self.terms["prompt"];
        let listed = own(self.service.list_all_prompts().await?.into_iter().map(|item| item.name));
        expect(listed.iter().any(|name| terms[0] == **name), || format!("{} is not listed", terms[0]))?;
        let params = json!({ "name": within(&terms[0]), "arguments": terms[1] });
        let filled = self.service.get_prompt(of(params)).await?;
        let said = serde_json::to_string(&filled.messages).unwrap_or_default();
        expect(said.contains("Ada"), || format!("gave {said}"))
    }

    async fn log(&self) -> Checked {
        let terms = &self.terms["log"];
        let mut params = json!({ "name": within(&terms[0][0]), "arguments": terms[0][1] });
        if self.modern() {
            params["_meta"] = json!({ "io.modelcontextprotocol/logLevel": "debug" });
        } else if self.service.peer_info().is_some_and(|info| info.capabilities.logging.is_some()) {
            self.service.set_level(of(json!({ "level": "debug" }))).await?;
        }
        self.forget_notes().await;
        self.service.call_tool(of(params)).await?;
        let note = self.note(|note| if let Note::Log(params) = note { Some(params) } else { None }).await?;
        let says = terms[1].as_str().unwrap_or_default();
        expect(note["data"].to_string().contains(says), || format!("the log note was {note}"))
    }

    async fn changed(&self) -> Checked {
        let Some(tool) = self.terms.get("changed") else {
            return Err(Unmet::Skipped("server: no tool changes its lists"));
        };
        if !prefix().is_empty() {
            return Err(Unmet::Skipped(
                "gateway: a list is told as changed when it is another, and here none is",
            ));
        }
        self.forget_notes().await;
        if !self.modern() {
            self.call(tool).await?;
            return self.note(|note| matches!(note, Note::Tools).then_some(())).await;
        }
        let mut listen = self.service.listen(of(json!({ "toolsListChanged": true }))).await?;
        self.call(tool).await?;
        let told = listen.next().await?;
        expect(matches!(told, Some(ServerNotification::ToolListChangedNotification(_))), || {
            format!("told {told:?}")
        })?;
        Ok(listen.cancel().await?)
    }

    async fn updated(&self) -> Checked {
        let (uri, tool) = (&self.terms["updated"][0], &self.terms["updated"][1]);
        self.forget_notes().await;
        if !self.modern() {
            self.service.subscribe(of(json!({ "uri": uri }))).await?;
            self.call(tool).await?;
            let told = self.note(|note| if let Note::Updated(uri) = note { Some(uri) } else { None }).await?;
            expect(*uri == *told, || format!("told of {told}"))?;
            return Ok(self.service.unsubscribe(of(json!({ "uri": uri }))).await?);
        }
        let mut listen = self.service.listen(of(json!({ "resourceSubscriptions": [uri] }))).await?;
        self.call(tool).await?;
        let told = listen.next().await?;
        let fits = matches!(&told, Some(ServerNotification::ResourceUpdatedNotification(note)) if *uri == *note.params.uri);
        expect(fits, || format!("told {told:?}"))?;
        Ok(listen.cancel().await?)
    }

    async fn fault(&self) -> Checked {
        let terms = &self.terms["fault"];
        match self.service.read_resource(of(json!({ "uri": terms[0] }))).await {
            Err(ServiceError::McpError(error)) => {
                let code = json!(error.code.0);
                expect(code == terms[1], || format!("failed with {code}: {}", error.message))?;
                let data = error.data.clone().unwrap_or_default();
                expect(data == terms[2], || format!("failed with data {data}"))
            }
            Err(error) => Err(error.into()),
            Ok(_) => Err(Unmet::Failed("it was read".into())),
        }
    }
}

async fn connect(
    era: &str,
    target: &[String],
    handler: Handler,
    progress: mpsc::UnboundedSender<f64>,
) -> Result<RunningService<RoleClient, Handler>, String> {
    let mode = match era {
        "modern" => rmcp::service::ClientLifecycleMode::Discover {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        },
        _ => rmcp::service::ClientLifecycleMode::Initialize,
    };
    let first = &target[0];
    let served = if first.starts_with("http") {
        let transport = StreamableHttpClientTransport::from_uri(first.clone());
        handler.serve_with_lifecycle(Overheard { transport, progress }, mode).await
    } else {
        let mut command = tokio::process::Command::new(first);
        command.args(&target[1..]).stderr(Stdio::inherit());
        let child = TokioChildProcess::builder(command).stderr(Stdio::inherit()).spawn();
        let (transport, _) = child.map_err(|error| error.to_string())?;
        handler.serve_with_lifecycle(Overheard { transport, progress }, mode).await
    };
    served.map_err(|error| error.to_string())
}

fn tell(check: &str, outcome: &Checked, more: BTreeMap<&str, Value>) {
    let (ok, why) = match outcome {
        Ok(()) => (json!(true), None),
        Err(Unmet::Failed(why)) => (json!(false), Some(why.clone())),
        Err(Unmet::Skipped(why)) => (Value::Null, Some((*why).to_owned())),
    };
    let mut line = json!({ "check": check, "ok": ok });
    for (name, value) in why.map(|why| ("why", json!(why))).into_iter().chain(more) {
        line[name] = value;
    }
    println!("{line}");
}

#[tokio::main]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let split =
        words.iter().position(|word| word == "--").expect("usage: rmcp-client [--era ERA] -- command | url");
    let era = if words[0] == "--era" { words[1].clone() } else { "legacy".into() };
    let (notes, heard) = mpsc::unbounded_channel();
    let (told, progress) = mpsc::unbounded_channel();
    let connecting = connect(&era, &words[split + 1..], Handler { notes }, told);
    let opened = tokio::time::timeout(CHECK_TIMEOUT, connecting).await;
    let service = match opened.unwrap_or_else(|_| Err("no session in time".into())) {
        Ok(service) => service,
        Err(why) => {
            tell("connect", &Err(Unmet::Failed(why)), BTreeMap::new());
            println!("{}", json!({ "check": "end", "passed": 0, "failed": 1, "skipped": 0 }));
            return ExitCode::FAILURE;
        }
    };
    tell("connect", &Ok(()), BTreeMap::from([("era", json!(era))]));
    let mut peer = Peer { service, notes: Mutex::new(heard), progress, era, terms: terms(false) };
    let mut counts = [1, 0, 0];
    for check in CHECKS {
        let outcome = tokio::time::timeout(CHECK_TIMEOUT, peer.check(check)).await;
        let outcome =
            outcome.unwrap_or_else(|_| Err(Unmet::Failed(format!("no answer within {CHECK_TIMEOUT:?}"))));
        counts[match outcome {
            Ok(()) => 0,
            Err(Unmet::Failed(_)) => 1,
            Err(Unmet::Skipped(_)) => 2,
        }] += 1;
        tell(check, &outcome, BTreeMap::new());
    }
    println!("{}", json!({ "check": "end", "passed": counts[0], "failed": counts[1], "skipped": counts[2] }));
    let _ = tokio::time::timeout(CHECK_TIMEOUT, peer.service.cancel()).await;
    if counts[1] == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
