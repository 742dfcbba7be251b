//! What a server offers: tools, resources, templates, prompts and completions, in a stable order.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::model::prompt::GetPromptResult;
use cardan_proto::model::resource::{ReadResourceResult, ResourceContents};
use cardan_proto::model::skill::SkillEntry;
use cardan_proto::model::uri_template::UriTemplate;
use cardan_proto::model::{Prompt, PromptMessage, Resource, ResourceTemplate};
use cardan_proto::session::event::Answer;
use cardan_runtime::service::Handler;

use crate::cx::{Cx, Failure};
use crate::lower;
use crate::output::ToolOutput;
use crate::stop::Stop;
use crate::tools::Registered;

/// Everything that was registered. Order is that of registration, so lists are stable.
#[derive(Default, Clone)]
pub(crate) struct Registry {
    pub(crate) tools: Shelf<Registered>,
    pub(crate) resources: Shelf<(Resource, Arc<dyn Read>)>,
    pub(crate) templates: Shelf<(ResourceTemplate, Arc<UriTemplate>, Arc<dyn ReadTemplate>)>,
    pub(crate) skills: Shelf<SkillEntry>,
    pub(crate) prompts: Shelf<(Prompt, Arc<dyn GetPrompt>)>,
    pub(crate) completions: BTreeMap<(String, String), Arc<dyn Complete>>,
}

/// Named things in order of registration.
#[derive(Clone)]
pub(crate) struct Shelf<T> {
    things: Vec<(Box<str>, T)>,
    index: std::collections::HashMap<Box<str>, usize>,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self { things: Vec::new(), index: std::collections::HashMap::new() }
    }
}

impl<T> Shelf<T> {
    /// Puts a thing in, in the place of one with the same name.
    pub(crate) fn put(&mut self, name: &str, thing: T) {
        match self.index.get(name) {
            Some(at) => self.things[*at].1 = thing,
            None => {
                self.index.insert(name.into(), self.things.len());
                self.things.push((name.into(), thing));
            }
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&T> {
        self.index.get(name).map(|at| &self.things[*at].1)
    }

    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let Some(at) = self.index.remove(name) else { return false };
        self.things.remove(at);
        for place in self.index.values_mut().filter(|place| **place > at) {
            *place -= 1;
        }
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.things.is_empty()
    }

    /// Up to `size` of the things that `shows`, after the one named `after`; nothing: there is no such
    /// thing to be seen.
    pub(crate) fn page(
        &self,
        after: Option<&str>,
        size: usize,
        shows: impl Fn(&str) -> bool,
    ) -> Option<(impl Iterator<Item = &T>, Option<&str>)> {
        let from = match after {
            None => 0,
            Some(name) => self.index.get(name).filter(|_| shows(name))? + 1,
        };
        let mut seen = self.things[from..].iter().filter(|(name, _)| shows(name));
        let page: Vec<_> = seen.by_ref().take(size).collect();
        let last = page.last().filter(|_| seen.next().is_some()).map(|(name, _)| &**name);
        Some((page.into_iter().map(|(_, thing)| thing), last))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.things.iter().map(|(_, thing)| thing)
    }
}

/// Reads a resource.
pub(crate) trait Read: Send + Sync {
    fn read(&self, cx: Cx) -> Handler<Answer>;
}

/// Reads a resource that a template describes.
pub(crate) trait ReadTemplate: Send + Sync {
    fn read(&self, uri: String, variables: BTreeMap<String, String>, cx: Cx) -> Handler<Answer>;
}

/// Fills in a prompt.
pub(crate) trait GetPrompt: Send + Sync {
    fn get(&self, arguments: BTreeMap<String, String>, cx: Cx) -> Handler<Answer>;
}

/// Completes an argument from what was typed so far and what is filled in already.
pub(crate) trait Complete: Send + Sync {
    fn complete(&self, typed: &str, filled: &BTreeMap<String, String>) -> Vec<String>;
}

impl<F, Fut> Read for F
where
    F: Fn(Cx) -> Fut + Send + Sync,
    Fut: Future<Output = Result<Vec<ResourceContents>, Stop>> + Send + 'static,
{
    fn read(&self, cx: Cx) -> Handler<Answer> {
        let reading = self(cx.clone());
        Box::pin(async move { cx.answer(contents(reading.await), Failure::IsFault) })
    }
}

impl<F, Fut> ReadTemplate for F
where
    F: Fn(String, BTreeMap<String, String>, Cx) -> Fut + Send + Sync,
    Fut: Future<Output = Result<Vec<ResourceContents>, Stop>> + Send + 'static,
{
    fn read(&self, uri: String, variables: BTreeMap<String, String>, cx: Cx) -> Handler<Answer> {
        let reading = self(uri.clone(), variables, cx.clone());
        Box::pin(async move {
            let read = reading.await.and_then(|read| match read.is_empty() {
                // A template matches more than there is: what has no contents does not exist.
                true => Err(Stop::Fault(Fault::resource_not_found(&uri))),
                false => Ok(read),
            });
            cx.answer(contents(read), Failure::IsFault)
        })
    }
}

fn contents(read: Result<Vec<ResourceContents>, Stop>) -> Result<Bytes, Stop> {
    let result = ReadResourceResult { contents: read?, ..ReadResourceResult::default() };
    Ok(Bytes::from(serde_json::to_vec(&result)?))
}

impl<F, Fut> GetPrompt for F
where
    F: Fn(BTreeMap<String, String>, Cx) -> Fut + Send + Sync,
    Fut: Future<Output = Result<Vec<PromptMessage>, Stop>> + Send + 'static,
{
    fn get(&self, arguments: BTreeMap<String, String>, cx: Cx) -> Handler<Answer> {
        let filling = self(arguments, cx.clone());
        Box::pin(async move {
            let messages = filling.await.and_then(|mut messages| {
                cx.may_embed(messages.iter().any(|message| message.content.embeds()))?;
                for message in &mut messages {
                    lower::content(std::slice::from_mut(&mut message.content), cx.revision());
                }
                let result = GetPromptResult::of(messages);
                if let Some(flaw) = result.check().first() {
                    return Err(Stop::Fault(Fault::internal(format!("the prompt is malformed: {flaw}"))));
                }
                Ok(Bytes::from(serde_json::to_vec(&result)?))
            });
            cx.answer(messages, Failure::IsFault)
        })
    }
}

impl<F> Complete for F
where
    F: Fn(&str, &BTreeMap<String, String>) -> Vec<String> + Send + Sync,
{
    fn complete(&self, typed: &str, filled: &BTreeMap<String, String>) -> Vec<String> {
        self(typed, filled)
    }
}
