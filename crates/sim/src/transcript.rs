//! Transcripts: a conversation as text, line by line, with what must come back.
//!
//! ```text
//! # rows: STD-1 STD-18            which requirement rows it shows
//! # role: server                  which side is under test (server, client)
//! # config: revisions=legacy      what differs from the defaults; may repeat
//! > {"jsonrpc":"2.0","id":1,"method":"ping"}       a frame from the client, as it is
//! < {"jsonrpc":"2.0","id":1,"result":{}}           a frame from the server, as JSON
//! ~ 5s                            time passes (ms, s, m)
//! x                               the peer closes the link
//! x ours                          the side under test has closed it
//! ! noise                         a finding, by the id of its rule
//! = 1 done {"content":[]}         a call of ours ended (client)
//! @ close done for today          something our own side does
//! ```
//!
//! Frames from the side under test are compared as values. `"*"` matches any value; the member
//! `"..."` of an object allows members that are not named. Whatever that side sends must be in the
//! transcript before the next thing happens to it: silence is part of the record.

mod demo;
mod run;

use std::fmt;
use std::time::Duration;

use cardan_proto::finding::Rule;
use cardan_proto::session::config::Role;
use serde_json::Value;

pub use self::run::run;

/// A parsed transcript.
#[derive(Debug, Clone, PartialEq)]
pub struct Transcript {
    /// The requirement rows it shows.
    pub rows: Vec<String>,
    /// The side under test.
    pub role: Role,
    /// What differs from the default configuration: key and value.
    pub config: Vec<(String, String)>,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// One line that does or expects something.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Where it stands, counted from one.
    pub line: usize,
    /// What it is.
    pub what: What,
}

/// The kinds of lines.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// `>`: a frame from the client.
    Client(String),
    /// `<`: a frame from the server.
    Server(String),
    /// `~`: time passes.
    Wait(Duration),
    /// `x`: the link closes.
    Close(Closer),
    /// `!`: a finding.
    Finding(Rule),
    /// `=`: an outcome.
    Outcome(String),
    /// `@`: a local command.
    Local(String),
}

/// Who closes the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closer {
    /// The peer of the side under test, now.
    Peer,
    /// The side under test, with what it did last.
    Ours,
}

/// What is wrong, and in which line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Counted from one; zero: the transcript as a whole.
    pub line: usize,
    /// What.
    pub why: String,
}

impl Failure {
    fn at(line: usize, why: impl Into<String>) -> Self {
        Self { line, why: why.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl std::error::Error for Failure {}

/// Reads a transcript.
pub fn parse(text: &str) -> Result<Transcript, Failure> {
    let (mut rows, mut role, mut config, mut steps) = (Vec::new(), None, Vec::new(), Vec::new());
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_end();
        let Some(mark) = line.chars().next() else { continue };
        let rest = line[mark.len_utf8()..].trim_start();
        let what = match mark {
            '#' => {
                match rest.split_once(':').map(|(key, value)| (key, value.trim())) {
                    Some(("rows", value)) => rows.extend(value.split_whitespace().map(str::to_owned)),
                    Some(("role", value)) => {
                        role = Some(parse_role(value).ok_or_else(|| unknown(number, line))?)
                    }
                    Some(("config", value)) => config.push(pair(value).ok_or_else(|| unknown(number, line))?),
                    // Anything else is a remark.
                    _ => {}
                }
                continue;
            }
            '>' => What::Client(rest.into()),
            '<' => What::Server(rest.into()),
            '~' => What::Wait(parse_wait(rest).ok_or_else(|| unknown(number, line))?),
            'x' if rest.is_empty() => What::Close(Closer::Peer),
            'x' if rest == "ours" => What::Close(Closer::Ours),
            '!' => What::Finding(parse_rule(rest).ok_or_else(|| unknown(number, line))?),
            '=' => What::Outcome(rest.into()),
            '@' => What::Local(rest.into()),
            _ => return Err(unknown(number, line)),
        };
        steps.push(Step { line: number, what });
    }
    if rows.is_empty() {
        return Err(Failure::at(0, "a transcript names its rows: `# rows: STD-1`"));
    }
    let role =
        role.ok_or_else(|| Failure::at(0, "a transcript names the side under test: `# role: server`"))?;
    Ok(Transcript { rows, role, config, steps })
}

fn unknown(number: usize, line: &str) -> Failure {
    Failure::at(number, format!("cannot be read: {line}"))
}

fn parse_role(text: &str) -> Option<Role> {
    match text {
        "server" => Some(Role::Server),
        "client" => Some(Role::Client),
        _ => None,
    }
}

fn pair(text: &str) -> Option<(String, String)> {
    text.split_once('=').map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
}

fn parse_wait(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let amount: u64 = text[..digits].parse().ok()?;
    match &text[digits..] {
        "ms" => Some(Duration::from_millis(amount)),
        "s" => Some(Duration::from_secs(amount)),
        "m" => Some(Duration::from_secs(amount * 60)),
        _ => None,
    }
}

fn parse_rule(id: &str) -> Option<Rule> {
    Rule::ALL.iter().copied().find(|rule| rule.id() == id)
}

/// Is `seen` what was `expected`, placeholders included?
#[must_use]
pub fn matches(expected: &Value, seen: &Value) -> bool {
    match (expected, seen) {
        (Value::String(any), _) if any == "*" => true,
        (Value::Object(expected), Value::Object(seen)) => {
            let open = expected.contains_key("...");
            let named = expected.iter().filter(|(name, _)| *name != "...");
            let all = named.clone().all(|(name, value)| seen.get(name).is_some_and(|s| matches(value, s)));
            all && (open || named.count() == seen.len())
        }
        (Value::Array(expected), Value::Array(seen)) => {
            expected.len() == seen.len() && expected.iter().zip(seen).all(|(e, s)| matches(e, s))
        }
        _ => expected == seen,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lines_are_told_apart() {
        let text = "# rows: STD-1 BASE-1\n# role: client\n# config: era = legacy\n# a remark\n\n> {}\n< x\n~ 250ms\nx\n! noise\n= 1 done *\n@ close bye\n";
        let read = parse(text).unwrap();
        assert_eq!((read.rows.len(), read.role), (2, Role::Client));
        assert_eq!(read.config, [("era".into(), "legacy".into())]);
        let kinds: Vec<_> = read.steps.into_iter().map(|step| step.what).collect();
        assert_eq!(
            kinds,
            [
                What::Client("{}".into()),
                What::Server("x".into()),
                What::Wait(Duration::from_millis(250)),
                What::Close(Closer::Peer),
                What::Finding(Rule::Noise),
                What::Outcome("1 done *".into()),
                What::Local("close bye".into())
            ]
        );
    }

    #[test]
    fn mistakes_name_their_line() {
        for (text, line) in
            [("# role: x", 1), ("\n? what", 2), ("~ 5", 1), ("! no-such-rule", 1), ("# role: client", 0)]
        {
            assert_eq!(parse(text).unwrap_err().line, line, "{text}");
        }
    }

    #[test]
    fn placeholders_match() {
        let seen = json!({"a": 1, "b": {"c": [1, 2]}});
        for (expected, fits) in [
            (json!("*"), true),
            (json!({"a": 1, "b": "*"}), true),
            (json!({"a": 1}), false),
            (json!({"a": 1, "...": "*"}), true),
            (json!({"a": 2, "...": "*"}), false),
            (json!({"a": 1, "b": {"c": [1, "*"]}}), true),
            (json!({"a": 1, "b": {"c": [1]}}), false),
            (json!({"a": 1, "b": {"c": [1, 2]}, "d": "*"}), false),
        ] {
            assert_eq!(matches(&expected, &seen), fits, "{expected}");
        }
    }
}
