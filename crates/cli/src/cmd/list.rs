//! `cardan list`: everything a server offers, all pages.

use cardan_client::Page;
use cardan_proto::method::Method;
use cardan_proto::model::{Cursor, Raw};
use serde::Deserialize;
use serde_json::Value;

use super::none_left;
use crate::args::ListArgs;
use crate::arguments::unknown;
use crate::connect::Connection;
use crate::failure::Failure;
use crate::output::{self, Form, clean};
use crate::schema::Shape;
use crate::target::Target;

pub(crate) async fn run(args: ListArgs) -> Result<(), Failure> {
    let ListArgs { words, options, server } = args;
    let (target, mut words) = Target::split(words, server)?;
    let kind = (!words.is_empty()).then(|| words.remove(0));
    let kind = kind.as_deref().map(Kind::parse).transpose()?;
    none_left(&words)?;
    let connection = Connection::open(&target, &options).await?;
    let outcome = list(&connection, kind, options.form()).await;
    connection.finish(outcome).await
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
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == word)
            .ok_or_else(|| unknown("list", word, "a server", &names))
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

/// A page of anything, its entries as they were written.
#[derive(Debug, Deserialize)]
struct RawPage {
    #[serde(alias = "tools", alias = "resources", alias = "resourceTemplates", alias = "prompts")]
    entries: Vec<Raw>,
    #[serde(rename = "nextCursor")]
    next_cursor: Option<Cursor>,
}

impl Page for RawPage {
    type Entry = Raw;

    fn next(&self) -> Option<&Cursor> {
        self.next_cursor.as_ref()
    }

    fn entries(self) -> Vec<Raw> {
        self.entries
    }
}

async fn list(connection: &Connection, kind: Option<Kind>, form: Form) -> Result<(), Failure> {
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
    for kind in kinds {
        lists.push((kind, connection.all::<RawPage>(kind.method()).await?));
    }
    match form {
        Form::Json => output::print_json(&json(&lists)),
        Form::Text => output::print(&text(&lists)),
    }
}

fn json(lists: &[(Kind, Vec<Raw>)]) -> String {
    let members = lists.iter().map(|(kind, entries)| {
        let entries: Vec<&str> = entries.iter().map(Raw::as_str).collect();
        format!("\"{}\":[{}]", kind.member(), entries.join(","))
    });
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

/// One line per entry: a heading only where there is more than one list.
fn text(lists: &[(Kind, Vec<Raw>)]) -> String {
    let mut out = String::new();
    for (kind, entries) in lists {
        let lines: Vec<(String, String)> = entries.iter().map(|entry| line(*kind, &entry.value())).collect();
        let width =
            lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default().min(MAX_WIDTH);
        let indent = if lists.len() > 1 { "  " } else { "" };
        if lists.len() > 1 {
            out.push_str(kind.name());
            out.push('\n');
        }
        for (name, about) in lines {
            let text = format!("{indent}{name:width$}  {about}");
            out.push_str(text.trim_end());
            out.push('\n');
        }
    }
    out
}

/// Longer names push their description aside instead of everyone's.
const MAX_WIDTH: usize = 48;

fn line(kind: Kind, entry: &Value) -> (String, String) {
    let member = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
    let name = match kind {
        Kind::Tools => {
            let signature = entry.get("inputSchema").map(|schema| Shape::of(schema).signature());
            format!("{} {}", member("name"), signature.unwrap_or_default())
        }
        Kind::Prompts => {
            let arguments = entry.get("arguments").and_then(Value::as_array).into_iter().flatten();
            let words = arguments.filter_map(|argument| {
                let name = argument.get("name")?.as_str()?;
                let is_required = argument.get("required").and_then(Value::as_bool) == Some(true);
                Some(if is_required { format!("{name}=<text>") } else { format!("[{name}=<text>]") })
            });
            format!("{} {}", member("name"), words.collect::<Vec<_>>().join(" "))
        }
        Kind::Resources => member("uri").to_owned(),
        Kind::Templates => member("uriTemplate").to_owned(),
    };
    let about = match member("description") {
        "" => member("title"),
        description => description,
    };
    (one_line(name.trim_end()), one_line(about))
}

/// The first line of foreign text.
fn one_line(text: &str) -> String {
    clean(text.trim().lines().next().unwrap_or_default()).into_owned()
}
