//! `cardan info`: what a server is, what it speaks and can do, and how fast it answers.

use std::time::{Duration, Instant};

use cardan_client::ServerInfo;
use cardan_proto::era::{Era, Revision};
use serde_json::{Value, json};

use super::none_left;
use crate::args::InfoArgs;
use crate::connect::Connection;
use crate::failure::Failure;
use crate::look::Surface;
use crate::look::style::Style;
use crate::look::text::{Line, paragraphs};
use crate::output::{self, Form};
use crate::talk::form::one_line;
use crate::target::Target;

pub(crate) async fn run(args: InfoArgs) -> Result<(), Failure> {
    let InfoArgs { words, options, server } = args;
    let (target, words) = Target::split(words, server)?;
    none_left(&words)?;
    let connection = Connection::open(&target, &options).await?;
    let outcome = info(&connection, options.form()).await;
    connection.finish(outcome).await
}

struct Info {
    server: ServerInfo,
    revision: Revision,
    opened_in: Duration,
    ping: Duration,
}

async fn info(connection: &Connection, form: Form) -> Result<(), Failure> {
    let start = Instant::now();
    connection.ping().await?;
    let info = Info {
        server: connection.client().server(),
        revision: connection.client().settled().revision,
        opened_in: connection.opened_in,
        ping: start.elapsed(),
    };
    match form {
        Form::Json => output::print_json(&info.json().to_string()),
        Form::Text => output::show(&info.lines(Surface::stdout().columns())).map(drop),
    }
}

impl Info {
    fn era(&self) -> &'static str {
        match self.revision.era() {
            Era::Legacy => "legacy",
            Era::Modern => "modern",
        }
    }

    fn json(&self) -> Value {
        json!({
            "server": self.server.implementation,
            "era": self.era(),
            "revision": self.revision.date(),
            "versions": self.server.versions,
            "capabilities": self.server.capabilities,
            "instructions": self.server.instructions,
            "timings": { "openMs": millis(self.opened_in), "pingMs": millis(self.ping) },
        })
    }

    fn lines(&self, columns: Option<usize>) -> Vec<Line> {
        let name = match &self.server.implementation {
            Some(server) => one_line(&format!("{} {}", server.name, server.version)),
            None => "not named".to_owned(),
        };
        let capabilities = match json!(self.server.capabilities) {
            Value::Object(map) => map.keys().cloned().collect::<Vec<_>>().join(", "),
            _ => String::new(),
        };
        let mut rows = vec![
            ("server", name),
            ("era", self.era().to_owned()),
            ("revision", self.revision.date().to_owned()),
            ("speaks", one_line(&self.server.versions.join(", "))),
            ("capabilities", one_line(&capabilities)),
            ("opened in", format!("{} ms", millis(self.opened_in))),
            ("ping", format!("{} ms", millis(self.ping))),
        ];
        if let Some(text) = &self.server.instructions {
            rows.push(("instructions", text.clone()));
        }
        rows.into_iter().flat_map(|(name, value)| row(name, &value, columns)).collect()
    }
}

/// Where values stand.
const INDENT: usize = 14;

/// A value beside its name, in as many lines as it has or takes. Foreign ones begin no row, so that none passes for ours.
fn row(name: &str, value: &str, columns: Option<usize>) -> Vec<Line> {
    let room = columns.map(|columns| columns.saturating_sub(INDENT));
    let mut lines = paragraphs(Style::Plain, value, room, 0).into_iter();
    let mut first = Line::of(Style::Faint, name).padded(INDENT);
    first.append(lines.next().unwrap_or_default());
    let rest = lines.map(|line| {
        let mut indented = Line::from(" ".repeat(INDENT).as_str());
        indented.append(line);
        indented
    });
    std::iter::once(first).chain(rest).collect()
}

/// Milliseconds, to the microsecond.
fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}
