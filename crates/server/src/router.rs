//! From a method to what was registered for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use cardan_proto::jsonrpc::envelope::{Call, Note, Param};
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::method::Method;
use cardan_proto::model::complete::{CompleteParams, CompleteResult, Reference};
use cardan_proto::model::skill::ListSkillsResult;
use cardan_proto::model::uri;
use cardan_proto::model::{
    Cursor, Flaw, GetPromptParams, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PageParams,
};
use cardan_proto::session::event::{Answer, Called, Event};
use cardan_runtime::cx::CallCx;
use cardan_runtime::service::{Handler, Service};
use serde::Serialize;

use crate::access::Action;
use crate::cx::Cx;
use crate::lower;
use crate::registry::{Registry, Shelf};
use crate::server::Server;
use crate::skill;
use crate::tasks::{Counter, Job, Way, way};

/// A server at one link, for one principal.
#[derive(Debug)]
pub struct Router {
    server: Server,
    principal: Option<Arc<str>>,
}

impl Router {
    pub(crate) fn new(server: Server, principal: Option<Arc<str>>) -> Self {
        Self { server, principal }
    }

    fn cx(&self, run: CallCx, called: Called) -> Result<Cx, Fault> {
        Cx::new(run, self.server.clone(), called, self.principal.clone())
    }

    /// May who is served here do that? Asked before anything is looked up or run.
    fn may(&self, action: Action<'_>) -> bool {
        self.server.grants(self.principal.as_deref(), action)
    }

    fn tool(&self, run: CallCx, called: Called) -> Result<Handler<Answer>, Fault> {
        let params = &called.call.params;
        let name = params
            .text(Param::Name)
            .ok_or_else(|| Fault::invalid_params("params.name: the tool's name, a string"))?;
        let allowed = self.may(Action::Call(&name));
        let registry = self.server.registry();
        let tool = registry.tools.get(&name).filter(|_| allowed);
        let tool = tool.map(|tool| (Arc::clone(&tool.run), tool.support()));
        drop(registry);
        let (tool, support) =
            tool.ok_or_else(|| Fault::invalid_params(format!("unknown tool: {name}; see tools/list")))?;
        let arguments = params.get(Param::Arguments);
        if arguments.as_ref().is_some_and(|raw| raw.first() != Some(&b'{')) {
            return Err(Fault::invalid_params("params.arguments: not an object"));
        }
        let way = if self.server.offers_tasks() { way(&called, support)? } else { Way::Plain };
        let cx = self.cx(run, called)?;
        match way {
            Way::Plain => Ok(tool.run(arguments, cx)),
            Way::Core(ttl) => {
                let answer = Job { tool, arguments, cx: cx.seated() }.into_core_task(ttl)?;
                Ok(Box::pin(std::future::ready(answer)))
            }
            Way::Extension(support) => {
                let job = Job { tool, arguments, cx: cx.seated() };
                Ok(Box::pin(job.into_extension_task(support)))
            }
        }
    }

    fn read(&self, run: CallCx, called: Called) -> Result<Handler<Answer>, Fault> {
        let uri = called.call.params.text(Param::Uri).map(|uri| uri.into_owned());
        let uri = uri.ok_or_else(|| Fault::invalid_params("params.uri: the resource's address, a string"))?;
        let refused = |flaw| Fault::invalid_params(format!("params.uri: {flaw}"));
        uri::check(&uri).map_err(refused)?;
        if climbs(&uri) {
            return Err(refused(Flaw::here("a file address may not hold . or .. as a step")));
        }
        if !self.may(Action::Read(&uri)) {
            return Err(Fault::resource_not_found(&uri));
        }
        let registry = self.server.registry();
        if let Some((_, resource)) = registry.resources.get(&uri) {
            let resource = Arc::clone(resource);
            drop(registry);
            return Ok(resource.read(self.cx(run, called)?));
        }
        let open = registry.templates.iter().filter(|(t, ..)| self.may(Action::Template(&t.uri_template)));
        let mut matching = open.filter_map(|(_, template, reader)| match template.matches(&uri) {
            Ok(variables) => variables.map(|variables| Ok((variables, Arc::clone(reader)))),
            Err(flaw) => Some(Err(refused(flaw))),
        });
        let found = matching.next();
        drop(matching);
        drop(registry);
        let (variables, reader) = found.unwrap_or_else(|| Err(Fault::resource_not_found(&uri)))?;
        Ok(reader.read(uri, variables, self.cx(run, called)?))
    }

    fn prompt(&self, run: CallCx, called: Called) -> Result<Handler<Answer>, Fault> {
        let params: GetPromptParams = decode(&called.call)?;
        let registry = self.server.registry();
        let found = registry.prompts.get(&params.name).filter(|_| self.may(Action::Prompt(&params.name)));
        let Some((prompt, handler)) = found else {
            return Err(Fault::invalid_params(format!("unknown prompt: {}; see prompts/list", params.name)));
        };
        if let Some(missing) = prompt.missing(params.arguments.as_ref()) {
            return Err(Fault::invalid_params(format!("params.arguments/{missing}: required and missing")));
        }
        let handler = Arc::clone(handler);
        drop(registry);
        let arguments = params.arguments.unwrap_or_default();
        Ok(handler.get(arguments, self.cx(run, called)?))
    }

    fn complete(&self, call: &Call) -> Result<Bytes, Fault> {
        let params: CompleteParams = decode(call)?;
        let registry = self.server.registry();
        let target = match &params.reference {
            Reference::Prompt { name, .. }
                if registry.prompts.get(name).is_some() && self.may(Action::Prompt(name)) =>
            {
                name
            }
            Reference::Resource { uri } if self.shows_address(&registry, uri) => uri,
            Reference::Prompt { name, .. } => {
                return Err(Fault::invalid_params(format!("unknown prompt: {name}")));
            }
            Reference::Resource { uri } => {
                return Err(Fault::invalid_params(format!("unknown resource: {uri}")));
            }
        };
        let completer = registry.completions.get(&(target.clone(), params.argument.name.clone())).cloned();
        drop(registry);
        let filled = params.context.and_then(|context| context.arguments).unwrap_or_default();
        let values =
            completer.map_or_else(Vec::new, |completer| completer.complete(&params.argument.value, &filled));
        encode(&CompleteResult::of(values))
    }

    /// Is there a template of this text or a resource at this address, for who is served here?
    fn shows_address(&self, registry: &Registry, uri: &str) -> bool {
        (registry.templates.get(uri).is_some() && self.may(Action::Template(uri)))
            || (registry.resources.get(uri).is_some() && self.may(Action::Read(uri)))
    }

    fn list(&self, called: &Called) -> Result<Bytes, Fault> {
        let after = after(&called.call)?;
        let (after, size, revision) = (after.as_deref(), self.server.page_size(), called.revision);
        let registry = self.server.registry();
        match called.call.method {
            Method::ToolsList => {
                let (tools, next) = page(&registry.tools, after, size, |name| self.may(Action::Call(name)))?;
                let tools = tools.map(|tool| lower::tool((*tool.tool).clone(), revision)).collect();
                encode(&ListToolsResult { tools, next_cursor: next.map(cursor), ..Default::default() })
            }
            Method::ResourcesList => {
                let (resources, next) =
                    page(&registry.resources, after, size, |uri| self.may(Action::Read(uri)))?;
                let resources =
                    resources.map(|(resource, _)| lower::resource(resource.clone(), revision)).collect();
                encode(&ListResourcesResult {
                    resources,
                    next_cursor: next.map(cursor),
                    ..Default::default()
                })
            }
            Method::ResourcesTemplatesList => {
                let (templates, next) =
                    page(&registry.templates, after, size, |text| self.may(Action::Template(text)))?;
                let resource_templates =
                    templates.map(|(template, ..)| lower::template(template.clone(), revision)).collect();
                let next_cursor = next.map(cursor);
                encode(&ListResourceTemplatesResult { resource_templates, next_cursor, ..Default::default() })
            }
            Method::SkillsList => {
                let (skills, next) = page(&registry.skills, after, size, |uri| self.may(Action::Read(uri)))?;
                let (skills, next_cursor) = (skills.cloned().collect(), next.map(cursor));
                encode(&ListSkillsResult { skills, next_cursor, ..Default::default() })
            }
            _ => {
                let (prompts, next) =
                    page(&registry.prompts, after, size, |name| self.may(Action::Prompt(name)))?;
                let prompts = prompts.map(|(prompt, _)| lower::prompt(prompt.clone(), revision)).collect();
                encode(&ListPromptsResult { prompts, next_cursor: next.map(cursor), ..Default::default() })
            }
        }
    }
}

impl Service for Router {
    fn call(&self, run: CallCx, called: Called) -> Handler<Answer> {
        let may_read = |uri: &str| self.may(Action::Read(uri));
        let handled = match called.call.method {
            Method::ToolsCall => self.tool(run, called),
            Method::ResourcesRead => self.read(run, called),
            Method::PromptsGet => self.prompt(run, called),
            Method::CompletionComplete => self.complete(&called.call).map(done),
            Method::ToolsList
            | Method::ResourcesList
            | Method::ResourcesTemplatesList
            | Method::SkillsList
            | Method::PromptsList => self.list(&called).map(done),
            Method::SkillsGet => skill::get(&self.server.registry(), &called.call, may_read).map(done),
            Method::DirectoryRead => {
                let (registry, size) = (self.server.registry(), self.server.page_size());
                skill::read_directory(&registry, &called.call, size, may_read).map(done)
            }
            ref about if about.is_about_task() => {
                Counter { server: &self.server, principal: &self.principal }.serve(called)
            }
            ref other => Err(Fault::method_not_found(other.name())),
        };
        handled.unwrap_or_else(|fault| Box::pin(std::future::ready(Answer::Fault(fault))))
    }

    fn note(&self, note: Note) {
        self.server.noted(&note);
    }

    fn event(&self, event: &Event) {
        self.server.observe(event);
    }
}

fn done(result: Bytes) -> Handler<Answer> {
    Box::pin(std::future::ready(Answer::Done(result)))
}

/// A file address with a step that leads elsewhere, however it is written.
fn climbs(uri: &str) -> bool {
    let is_file = uri.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("file:"));
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    let plain = path.replace("%2e", ".").replace("%2E", ".").replace("%2f", "/").replace("%2F", "/");
    is_file && plain.split(['/', '\\']).any(|step| matches!(step, "." | ".."))
}

pub(crate) fn decode<'a, T: serde::Deserialize<'a>>(call: &'a Call) -> Result<T, Fault> {
    call.params.decode().map_err(|error| Fault::invalid_params(format!("params: {error}")))
}

pub(crate) fn encode<T: Serialize>(result: &T) -> Result<Bytes, Fault> {
    serde_json::to_vec(result).map(Bytes::from).map_err(|_| Fault::internal("the result cannot be written"))
}

/// The name after which the page begins. Cursors are opaque to clients: here they hold a name.
fn after(call: &Call) -> Result<Option<String>, Fault> {
    let params: PageParams = decode(call)?;
    let Some(cursor) = params.cursor else { return Ok(None) };
    let name = URL_SAFE_NO_PAD.decode(cursor.0.as_str()).ok().and_then(|name| String::from_utf8(name).ok());
    name.map(Some).ok_or_else(bad_cursor)
}

fn cursor(last: &str) -> Cursor {
    Cursor(URL_SAFE_NO_PAD.encode(last))
}

pub(crate) fn bad_cursor() -> Fault {
    Fault::invalid_params(
        "params.cursor: not one of ours, or the list has changed; start from the first page",
    )
}

fn page<'a, T>(
    shelf: &'a Shelf<T>,
    after: Option<&str>,
    size: usize,
    shows: impl Fn(&str) -> bool,
) -> Result<(impl Iterator<Item = &'a T>, Option<&'a str>), Fault> {
    shelf.page(after, size, shows).ok_or_else(bad_cursor)
}

/// Variables of a template, by name.
pub type Variables = BTreeMap<String, String>;
