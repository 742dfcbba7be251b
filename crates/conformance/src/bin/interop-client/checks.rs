//! What is asked of a server, check by check.

use std::collections::BTreeMap;

use cardan_client::{CallError, Client};
use cardan_proto::era::Era;
use cardan_proto::model::complete::{CompleteArgument, CompleteParams, Reference};
use cardan_proto::model::prompt::GetPromptParams;
use cardan_proto::model::tool::CallToolResult;
use cardan_proto::model::{Content, ResourceContents};
use cardan_proto::session::event::{CallOptions, Change, Interest, LogLevel, Wanted};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::terms::{Terms, Tool, own, prefix, within};

/// In the order of the script.
pub(crate) const ALL: [&str; 19] = [
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

const LARGE_BYTES: usize = 1 << 20;

/// Why a check was not passed.
#[derive(Debug)]
pub(crate) enum Unmet {
    /// The server did otherwise.
    Failed(String),
    /// There is nothing to check.
    Skipped(String),
}

impl From<CallError> for Unmet {
    fn from(error: CallError) -> Self {
        Self::Failed(error.to_string())
    }
}

type Checked = Result<Value, Unmet>;

/// The client and what it has learnt.
pub(crate) struct Peer<'a> {
    client: &'a Client,
    log: mpsc::UnboundedReceiver<Value>,
    terms: Terms,
}

impl<'a> Peer<'a> {
    pub(crate) fn new(client: &'a Client, log: mpsc::UnboundedReceiver<Value>) -> Self {
        Self { client, log, terms: Terms::demo() }
    }

    pub(crate) async fn check(&mut self, name: &str) -> Checked {
        match name {
            "list" => self.list().await,
            "call" => self.says(("echo", json!({ "message": "hello" })), "hello").await,
            "structured" => self.structured().await,
            "tool_error" => self.tool_error().await,
            "unknown_tool" => self.unknown_tool().await,
            "progress" => self.progress().await,
            "cancel" => self.cancel().await,
            "elicit" => self.says(self.terms.ask.clone(), "blue").await,
            "sample" => self.says(self.terms.sample.clone(), "sampled").await,
            "roots" => self.says(self.terms.roots.clone(), "file:///workspace").await,
            "read" => self.read().await,
            "prompt" => self.prompt().await,
            "complete" => self.complete().await,
            "log" => self.log().await,
            "changed" => self.changed().await,
            "updated" => self.updated().await,
            "large" => self.large().await,
            "fault" => self.fault().await,
            "ping" => self.ping().await,
            other => Err(Unmet::Failed(format!("no such check: {other}"))),
        }
    }

    async fn call(&self, (name, arguments): Tool) -> Result<CallToolResult, Unmet> {
        Ok(self.client.call_tool(&within(name), &arguments)?.await?)
    }

    /// Calls a tool whose text has this in it.
    async fn says(&self, tool: Tool, part: &str) -> Checked {
        let name = tool.0;
        let result = self.call(tool).await?;
        expect(text_of(&result).contains(part), || format!("{name} answered {result:?}"))
    }

    async fn list(&mut self) -> Checked {
        let names = own(self.client.all_tools().await?.into_iter().map(|tool| tool.name));
        self.terms = Terms::of(&names);
        for name in self.terms.tools {
            expect(names.iter().any(|tool| tool == name), || format!("tool {name} is not listed"))?;
        }
        Ok(json!({ "count": names.len() }))
    }

    async fn structured(&self) -> Checked {
        let (tool, member, wanted) = self.terms.structured.clone();
        let result = self.call(tool).await?;
        let data = result.structured_content.as_ref().and_then(|raw| raw.read::<Value>().ok());
        expect(data.is_some_and(|data| data[member] == wanted), || format!("answered {result:?}"))?;
        expect(text_of(&result).contains(&wanted.to_string()), || "no text beside the structure".to_owned())
    }

    async fn tool_error(&self) -> Checked {
        let (tool, says) = self.terms.fail.clone();
        let result = self.call(tool).await?;
        expect(result.failed(), || format!("no isError: {result:?}"))?;
        expect(text_of(&result).contains(says), || format!("the message is lost: {result:?}"))
    }

    async fn unknown_tool(&self) -> Checked {
        match self.client.call_tool(&within("no_such_tool"), &json!({}))?.await {
            Ok(result) => expect(result.failed(), || format!("answered {result:?}")),
            Err(CallError::Fault(fault)) => {
                expect(fault.code == -32602, || format!("failed with {}: {}", fault.code, fault.message))
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn progress(&self) -> Checked {
        let (name, arguments) = self.terms.slow(3, 10);
        let options = CallOptions { progress: Wanted::Yes, ..CallOptions::default() };
        let mut call = self.client.call_tool_with(&within(name), &arguments, options)?;
        let mut seen = Vec::new();
        while let Some(note) = call.progress().await {
            seen.push(note.progress);
        }
        let result = call.await?;
        expect(text_of(&result).contains(self.terms.done), || format!("answered {result:?}"))?;
        expect(seen == [1.0, 2.0, 3.0], || format!("expected 3 progress notes, got {seen:?}"))
    }

    async fn cancel(&self) -> Checked {
        let (name, arguments) = self.terms.slow(1000, 20);
        let options = CallOptions { progress: Wanted::Yes, ..CallOptions::default() };
        let mut call = self.client.call_tool_with(&within(name), &arguments, options)?;
        expect(call.progress().await.is_some(), || "it ended before its first progress note".to_owned())?;
        call.cancel("enough");
        let outcome = call.await;
        expect(outcome.is_err(), || format!("the cancelled call still answered {outcome:?}"))?;
        self.says(("echo", json!({ "message": "still here" })), "still here").await
    }

    async fn read(&self) -> Checked {
        let listed = self.client.all_resources().await?;
        let wanted = self.terms.read[0];
        expect(listed.iter().any(|item| item.uri == wanted), || format!("{wanted} is not listed"))?;
        let templates = self.client.all_templates().await?;
        let wanted = self.terms.template;
        expect(templates.iter().any(|item| item.uri_template == wanted), || {
            format!("{wanted} is not listed")
        })?;
        for uri in self.terms.read {
            let contents = self.client.read(uri).await?.contents;
            let text = contents.first().map(text_in).unwrap_or_default();
            expect(!text.is_empty(), || format!("{uri} read as {contents:?}"))?;
        }
        Ok(json!({}))
    }

    async fn prompt(&self) -> Checked {
        let (name, argument, value) = self.terms.prompt;
        let listed = own(self.client.all_prompts().await?.into_iter().map(|item| item.name));
        expect(listed.iter().any(|item| item == name), || format!("{name} is not listed"))?;
        let params = GetPromptParams {
            name: within(name),
            arguments: Some(BTreeMap::from([(argument.to_owned(), value.to_owned())])),
            input_responses: None,
            request_state: None,
            meta: None,
        };
        let filled = self.client.prompt(&params).await?;
        let said = filled.messages.iter().filter_map(|message| message.content.as_text());
        expect(said.into_iter().any(|text| text.contains(value)), || format!("{name} gave {filled:?}"))
    }

    async fn complete(&self) -> Checked {
        let (name, argument, typed) = self.terms.complete;
        let params = CompleteParams {
            reference: Reference::Prompt { name: within(name), title: None },
            argument: CompleteArgument { name: argument.to_owned(), value: typed.to_owned() },
            context: None,
            meta: None,
        };
        let values = self.client.complete(&params).await?.completion.values;
        expect(!values.is_empty(), || format!("no completion for {typed}"))
    }

    async fn log(&mut self) -> Checked {
        let (tool, says) = self.terms.log.clone();
        self.client.set_level(LogLevel::Debug);
        while self.log.try_recv().is_ok() {}
        self.call(tool).await?;
        let note = self.log.recv().await.unwrap_or_default();
        expect(note["data"].to_string().contains(says), || format!("the log note was {note}"))
    }

    async fn changed(&self) -> Checked {
        let Some(tool) = self.terms.changed.clone() else {
            return Err(Unmet::Skipped("server: no tool changes its lists".to_owned()));
        };
        if !prefix().is_empty() {
            let why = "gateway: a list is told as changed when it is another, and here none is";
            return Err(Unmet::Skipped(why.to_owned()));
        }
        let mut listen = self.client.listen(Interest { tools: true, ..Interest::default() });
        listen.ready().await?;
        self.call(tool).await?;
        let change = listen.next().await;
        expect(matches!(change, Some(Change::Tools)), || format!("told of {change:?}"))
    }

    async fn updated(&self) -> Checked {
        let (uri, tool) = self.terms.updated.clone();
        let mut listen = self.client.listen(Interest { uris: vec![uri.into()], ..Interest::default() });
        listen.ready().await?;
        self.call(tool).await?;
        let change = listen.next().await;
        let fits = matches!(&change, Some(Change::Resource(told)) if **told == *uri);
        expect(fits, || format!("told of {change:?}"))
    }

    async fn large(&self) -> Checked {
        let message = "0123456789abcdef".repeat(LARGE_BYTES / 16);
        let result = self.call(("echo", json!({ "message": message }))).await?;
        let text = text_of(&result);
        expect(text.ends_with(&message), || {
            format!("of {LARGE_BYTES} characters {} came back, or others", text.len())
        })
    }

    async fn fault(&self) -> Checked {
        let (uri, code, data) = self.terms.fault.clone();
        match self.client.read(uri).await {
            Err(CallError::Fault(fault)) => {
                expect(fault.code == code, || format!("failed with {}: {}", fault.code, fault.message))?;
                let told = fault.data.as_deref().and_then(|raw| serde_json::from_slice::<Value>(raw).ok());
                expect(told == data, || format!("failed with data {told:?}"))
            }
            Err(error) => Err(error.into()),
            Ok(contents) => Err(Unmet::Failed(format!("{uri} read as {contents:?}"))),
        }
    }

    async fn ping(&self) -> Checked {
        if self.client.settled().revision.era() == Era::Modern {
            return Err(Unmet::Skipped("ping is not part of this era".to_owned()));
        }
        self.client.ping().await?;
        Ok(json!({}))
    }
}

fn text_of(result: &CallToolResult) -> String {
    result.content.iter().filter_map(Content::as_text).collect::<Vec<_>>().join("\n")
}

fn text_in(contents: &ResourceContents) -> &str {
    match contents {
        ResourceContents::Text(text) => &text.text,
        ResourceContents::Blob(_) => "",
    }
}

fn expect(holds: bool, why: impl FnOnce() -> String) -> Checked {
    if holds { Ok(json!({})) } else { Err(Unmet::Failed(why())) }
}
