//! Lists in pages: followed to the end, never for ever.

use std::collections::HashSet;
use std::marker::PhantomData;

use cardan_proto::jsonrpc::fault::code;
use cardan_proto::method::Method;
use cardan_proto::model::content::keep_sound_icons;
use cardan_proto::model::skill::{ListSkillsResult, SkillEntry};
use cardan_proto::model::task::{ListTasksResult, Task};
use cardan_proto::model::{
    Cursor, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PageParams,
    Prompt, Resource, ResourceTemplate, Tool,
};
use cardan_proto::session::event::CallOptions;
use serde::de::DeserializeOwned;

use crate::caller::{Caller, decode, encode};
use crate::error::CallError;

/// One page of a list.
pub trait Page: DeserializeOwned {
    /// What is listed.
    type Entry;
    /// Where the next page begins. The empty string is a cursor like any other.
    fn next(&self) -> Option<&Cursor>;
    /// What this page lists.
    fn entries(self) -> Vec<Self::Entry>;
    /// Takes out addresses that nobody should follow, before the page is handed on.
    fn vet(&mut self) {}
}

macro_rules! page {
    ($page:ty, $entry:ty, $entries:ident $(, $icons:ident)?) => {
        impl Page for $page {
            type Entry = $entry;

            fn next(&self) -> Option<&Cursor> {
                self.next_cursor.as_ref()
            }

            fn entries(self) -> Vec<$entry> {
                self.$entries
            }

            $(fn vet(&mut self) {
                self.$entries.iter_mut().for_each(|entry| keep_sound_icons(&mut entry.$icons));
            })?
        }
    };
}

page!(ListToolsResult, Tool, tools, icons);
page!(ListResourcesResult, Resource, resources, icons);
page!(ListResourceTemplatesResult, ResourceTemplate, resource_templates, icons);
page!(ListPromptsResult, Prompt, prompts, icons);
page!(ListSkillsResult, SkillEntry, skills);
page!(ListTasksResult, Task, tasks);

/// The pages of one list, fetched one by one.
#[derive(Debug)]
pub struct Pages<'a, P> {
    client: &'a Caller,
    method: Method,
    at: At,
    seen: HashSet<String>,
    page: PhantomData<fn() -> P>,
}

/// Where a listing is.
#[derive(Debug)]
enum At {
    Start,
    Cursor(Cursor),
    End,
}

impl<'a, P: Page> Pages<'a, P> {
    pub(crate) fn new(client: &'a Caller, method: Method) -> Self {
        Self { client, method, at: At::Start, seen: HashSet::new(), page: PhantomData }
    }

    /// The next page; nothing: the list has ended.
    pub async fn next(&mut self) -> Option<Result<P, CallError>> {
        let cursor = match std::mem::replace(&mut self.at, At::End) {
            At::Start => None,
            At::Cursor(cursor) => Some(cursor),
            At::End => return None,
        };
        Some(self.fetch(cursor).await)
    }

    async fn fetch(&mut self, cursor: Option<Cursor>) -> Result<P, CallError> {
        let params =
            cursor.map(|cursor| encode(&PageParams { cursor: Some(cursor), meta: None })).transpose()?;
        let paged = params.is_some();
        let raw = self.client.raw(self.method.clone(), params, CallOptions::default()).await;
        if let Err(CallError::Fault(fault)) = &raw
            && paged
            && fault.code == code::INVALID_PARAMS
        {
            self.client.forget_list(&self.method);
        }
        let mut page: P = decode(&raw?)?;
        page.vet();
        if let Some(next) = page.next() {
            self.guard(next)?;
            self.at = At::Cursor(next.clone());
        }
        Ok(page)
    }

    /// A cursor that comes again, or too many of them, is a list without end.
    fn guard(&mut self, next: &Cursor) -> Result<(), CallError> {
        if !self.seen.insert(next.0.clone()) {
            return Err(CallError::Endless("the server gives a cursor that it gave before".into()));
        }
        if self.seen.len() >= self.client.max_pages() {
            return Err(CallError::Endless(format!("more than {} pages", self.client.max_pages())));
        }
        Ok(())
    }

    /// All entries of all pages.
    pub async fn all(mut self) -> Result<Vec<P::Entry>, CallError> {
        let mut entries = Vec::new();
        while let Some(page) = self.next().await {
            entries.extend(page?.entries());
        }
        Ok(entries)
    }
}
