//! `cardan list`: everything a server offers, all pages.

use cardan_config::closest::closest;
use cardan_proto::method::Method;
use cardan_proto::model::Raw;

use super::entries::RawPage;
use super::none_left;
use crate::args::ListArgs;
use crate::arguments::unknown;
use crate::connect::Connection;
use crate::failure::Failure;
use crate::look::Surface;
use crate::misread::meant;
use crate::output::{self, Form};
use crate::target::Target;

mod entry;

pub(crate) async fn run(args: ListArgs) -> Result<(), Failure> {
    let ListArgs { words, options, server } = args;
    let (target, mut words) = Target::split(words, server)?;
    let kind = (!words.is_empty()).then(|| words.remove(0));
    let kind = kind.as_deref().map(Kind::parse).transpose()?;
    none_left(&words)?;
    let connection = Connection::open(&target, &options).await?;
    let detail = if options.verbose { Detail::Full } else { Detail::Short };
    let outcome = list(&connection, kind, detail, options.form()).await;
    connection.finish(outcome).await
}

/// How much of a description is shown at a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// Its beginning.
    Short,
    Full,
}

/// What is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tools,
    Resources,
    Templates,
    Prompts,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Tools, Self::Resources, Self::Templates, Self::Prompts];

    fn parse(word: &str) -> Result<Self, Failure> {
        let names = Self::ALL.map(Self::name);
        let kind = Self::ALL.into_iter().find(|kind| kind.name() == word);
        kind.ok_or_else(|| match unknown("list", word, "a server", &names) {
            failure if closest(word, names).is_some() => failure,
            failure => meant(failure),
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Templates => "templates",
            Self::Prompts => "prompts",
        }
    }

    /// The member that holds the list on the wire.
    fn member(self) -> &'static str {
        match self {
            Self::Templates => "resourceTemplates",
            other => other.name(),
        }
    }

    fn method(self) -> Method {
        match self {
            Self::Tools => Method::ToolsList,
            Self::Resources => Method::ResourcesList,
            Self::Templates => Method::ResourcesTemplatesList,
            Self::Prompts => Method::PromptsList,
        }
    }
}

async fn list(
    connection: &Connection,
    kind: Option<Kind>,
    detail: Detail,
    form: Form,
) -> Result<(), Failure> {
    let offered = connection.client().server().capabilities;
    let kinds: Vec<Kind> = match kind {
        Some(kind) => vec![kind],
        None => Kind::ALL
            .into_iter()
            .filter(|kind| match kind {
                Kind::Tools => offered.tools.is_some(),
                Kind::Resources | Kind::Templates => offered.resources.is_some(),
                Kind::Prompts => offered.prompts.is_some(),
            })
            .collect(),
    };
    let mut lists = Vec::new();
    for one in kinds {
        let entries = match connection.all::<RawPage>(one.method()).await {
            // Nobody asked for just these. Templates have no capability of their own: many servers with resources do not know them.
            Err(failure) if kind.is_none() && failure.is_unknown_method() => Vec::new(),
            entries => entries?,
        };
        lists.push((one, entries));
    }
    if kind.is_none() {
        connection.learn(lists.iter().map(|(kind, entries)| (kind.method(), entries.as_slice())));
    }
    match form {
        Form::Json => output::print_json(&json(&lists))?,
        Form::Text => drop(output::show(&entry::lines(&lists, detail, Surface::stdout().columns()))?),
    }
    connection.tell_misshapen();
    Ok(())
}

fn json(lists: &[(Kind, Vec<Raw>)]) -> String {
    let members = lists.iter().map(|(kind, entries)| {
        let entries: Vec<&str> = entries.iter().map(Raw::as_str).collect();
        format!("\"{}\":[{}]", kind.member(), entries.join(","))
    });
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}
