//! A command line that makes no sense: what the parser found, told as any other failure is, and what was probably meant.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::process::ExitCode;
use std::slice;

use cardan_config::closest::closest;
use cardan_proto::secret::Redactor;
use cardan_transport::program::is_program;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{Command, CommandFactory as _};

use crate::args::Cli;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::look::args::asked;
use crate::look::{self, Tagging};
use crate::output::Form;

/// Tells it in the form that the command line asks for, as far as that can be seen.
pub(crate) fn report(error: &Error, words: &[OsString]) -> ExitCode {
    let has = |option: &str| own(words).any(|word| word == option);
    let (tagging, form) = match (has("--jsonl"), has("--json")) {
        (true, _) => (Tagging::Lines, Form::Json),
        (false, true) => (Tagging::Result, Form::Json),
        (false, false) => (Tagging::Result, Form::Text),
    };
    look::settle(asked(words), tagging);
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand && form == Form::Text {
        // Who says nothing wants to know what can be said.
        let _ = error.print();
        return Exit::Usage.into();
    }
    // What is given as an option that there is not may be a credential: what parsed would have hidden it.
    let next = Redactor::default().redact(&next(error, words)).into_owned();
    Failure::usage(message(error)).next(next).report(form)
}

/// Of what the parser says, what is wrong: no tips, which know nothing of servers, and no usage.
fn message(error: &Error) -> String {
    let told = error.render().to_string();
    let told = told.strip_prefix("error: ").unwrap_or(&told);
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "no command is given".to_owned();
    }
    if error.kind() == ErrorKind::MissingRequiredArgument
        && let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg)
    {
        return format!("something is missing: {}", missing.join(", "));
    }
    let lines = told.lines().take_while(|line| !line.is_empty()).map(str::trim);
    lines.collect::<Vec<_>>().join(" ")
}

fn next(error: &Error, words: &[OsString]) -> String {
    // Who asks for help has it from the command itself.
    let helped: Vec<OsString> = match words {
        [cardan, help, rest @ ..] if help == "help" => [slice::from_ref(cardan), rest].concat(),
        words => words.to_vec(),
    };
    let (command, path) = named(&helped);
    let help = || match path.as_slice() {
        [] => "see `cardan --help`".to_owned(),
        path => format!("see `cardan {} --help`", path.join(" ")),
    };
    if error.kind() == ErrorKind::MissingRequiredArgument
        && let usages = usages(error)
        && !usages.is_empty()
    {
        return format!("write it as {}; {}", usages.join(" or "), help());
    }
    if let Some(argument) =
        argument(error, words).filter(|_| matches!(path.as_slice(), [one] if TAKES.contains(&one.as_str())))
    {
        let longs = command.get_arguments().filter_map(|arg| arg.get_long());
        // It may also be the server's own.
        let rest = undashed(words).unwrap_or_else(help);
        return match closest(argument.name, longs) {
            Some(near) => {
                // The value is that option's, and says nothing about how an argument is written.
                let argument = Argument { value: None, ..argument };
                format!("did you mean `--{near}`? an argument is written as `{argument}`; or {rest}")
            }
            None => format!("did you mean `{argument}`? or {rest}"),
        };
    }
    let kinds = [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue];
    let suggested = kinds.into_iter().find_map(|kind| match error.get(kind)? {
        ContextValue::String(one) => Some(one.clone()),
        // The likeliest comes last.
        ContextValue::Strings(several) => several.last().cloned(),
        _ => None,
    });
    match suggested.or_else(|| nearest(error, &command)) {
        Some(suggested) => format!("did you mean `{suggested}`? or {}", help()),
        None if error.kind() == ErrorKind::UnknownArgument => undashed(words).unwrap_or_else(help),
        None => help(),
    }
}

/// The commands that take `name=value`.
const TAKES: [&str; 2] = ["call", "prompt"];

/// An argument that was written as an option.
struct Argument<'a> {
    name: &'a str,
    value: Option<&'a OsStr>,
}

impl fmt::Display for Argument<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value {
            Some(value) => write!(f, "{}={}", self.name, quote(value)),
            None => write!(f, "{}=<value>", self.name),
        }
    }
}

/// The option that there is not, as if it were an argument.
fn argument<'a>(error: &'a Error, words: &'a [OsString]) -> Option<Argument<'a>> {
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else { return None };
    let name = option.strip_prefix("--").filter(|name| !name.is_empty())?;
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let mut words =
        own(words).skip_while(|word| !word.to_str().is_some_and(|word| word.starts_with(option.as_str())));
    let value = match words.next()?.to_str()?.strip_prefix(option.as_str())?.strip_prefix('=') {
        Some(value) => Some(OsStr::new(value)),
        None => {
            words.next().map(OsString::as_os_str).filter(|word| !word.as_encoded_bytes().starts_with(b"-"))
        }
    };
    Some(Argument { name, value })
}

/// How the command is written.
fn usages(error: &Error) -> Vec<String> {
    let told = error.render().to_string();
    let lines =
        told.lines().skip_while(|line| !line.starts_with("Usage: ")).take_while(|line| !line.is_empty());
    let lines = lines.map(|line| line.trim_start_matches("Usage: ").trim());
    lines.map(|line| format!("`{}`", line.replace(" [OPTIONS]", ""))).collect()
}

/// What to do about a word that has no place here: what the command line was probably meant to be, else `next`.
pub(crate) fn meant_or(next: impl Into<String>) -> String {
    let words: Vec<_> = std::env::args_os().collect();
    undashed(&words).unwrap_or_else(|| next.into())
}

/// The same for a failure that says what to do where nothing else was meant.
pub(crate) fn meant(failure: Failure) -> Failure {
    let words: Vec<_> = std::env::args_os().collect();
    match undashed(&words) {
        Some(next) => failure.next(next),
        None => failure,
    }
}

/// The command line as it was probably meant, where a server's command stands there without `--` before it.
fn undashed(words: &[OsString]) -> Option<String> {
    let mut command = Cli::command().find_subcommand(words.get(1)?)?.clone();
    command.build();
    let servers = command.get_arguments().any(|arg| arg.is_last_set());
    if !servers || own(words).count() < words.len() {
        return None;
    }
    let takes_value = |word: &OsStr| {
        let Some(long) = word.to_str().and_then(|word| word.strip_prefix("--")) else { return false };
        let mut options = command.get_arguments();
        options.any(|arg| arg.get_long() == Some(long) && arg.get_action().takes_values())
    };
    // The first word is the command's own where it needs one; whatever program has its name.
    let own = command.get_arguments().filter(|arg| arg.is_positional() && arg.is_required_set()).count();
    let skipped = 2 + own;
    let at = (skipped..words.len()).find(|at| !takes_value(&words[at - 1]) && starts(&words[*at]))?;
    // A server and a tool, with its arguments: many tools are called as some program is.
    let bytes = |at: usize| words.get(at).map_or(&b"="[..], |word| word.as_encoded_bytes());
    if own > 0 && at == skipped && bytes(at + 1).contains(&b'=') && !bytes(at).contains(&b'/') {
        return None;
    }
    let (ours, server) = words[1..].split_at(at - 1);
    let quoted = |words: &[OsString]| words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ");
    Some(format!("put `--` before the server's command: cardan {} -- {}", quoted(ours), quoted(server)))
}

/// The words before those of a server's command.
fn own(words: &[OsString]) -> impl Iterator<Item = &OsString> {
    words.iter().take_while(|word| *word != "--")
}

/// The command that is named, as far as there is one, and by which words.
fn named(words: &[OsString]) -> (Command, Vec<String>) {
    let (mut command, mut path) = (Cli::command(), Vec::new());
    command.build();
    for word in own(words).skip(1) {
        let Some(next) = command.find_subcommand(word) else { break };
        path.push(next.get_name().to_owned());
        command = next.clone();
        command.build();
    }
    (command, path)
}

/// What was probably meant by a word that is none of its commands, where the parser does not say.
fn nearest(error: &Error, command: &Command) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    closest(word, command.get_subcommands().map(Command::get_name)).map(str::to_owned)
}

/// Can it be the beginning of a command?
fn starts(word: &OsStr) -> bool {
    !word.as_encoded_bytes().starts_with(b"-") && is_program(word)
}

/// A word as a shell reads it.
fn quote(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_alphanumeric() || "-_./:=@,+%~".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.into_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant_by(line: &[&str]) -> Option<String> {
        let words: Vec<OsString> = ["cardan"].iter().chain(line).map(OsString::from).collect();
        undashed(&words)
    }

    /// CLI-46: an argument that is written as an option is shown as it is written; options that are nearly right are told too.
    #[test]
    fn an_argument_is_no_option() {
        for (line, told) in [
            (&["call", "echo", "--message", "hi there"][..], "did you mean `message='hi there'`?"),
            (&["call", "echo", "--message=hi"], "did you mean `message=hi`?"),
            (&["call", "echo", "--loud"], "did you mean `loud=<value>`?"),
            (&["call", "echo", "--loud", "--", "x"], "did you mean `loud=<value>`?"),
            (&["call", "echo", "--loud", "--json"], "did you mean `loud=<value>`?"),
            (&["prompt", "greet", "--name", "Ada"], "did you mean `name=Ada`?"),
            (
                &["call", "echo", "--timeuot", "5"],
                "did you mean `--timeout`? an argument is written as `timeuot=<value>`",
            ),
            (&["list", "--jsn"], "did you mean `--json`?"),
            (
                &["call", "echo", "sh", "--message", "hi"],
                "did you mean `message=hi`? or put `--` before the server's command: cardan call echo -- sh --message hi",
            ),
        ] {
            let words: Vec<OsString> = ["cardan"].iter().chain(line).map(OsString::from).collect();
            let next = next(&Cli::read(&words).unwrap_err(), &words);
            assert!(next.starts_with(told), "{line:?}: {next}");
        }
    }

    /// CLI-4: who forgets `--` is shown where it belongs.
    #[test]
    fn a_forgotten_separator_is_found() {
        let told = |line: &str| Some(format!("put `--` before the server's command: cardan {line}"));
        // Every machine has sh and env; echo is the tool here, whatever programs there are.
        assert_eq!(meant_by(&["call", "echo", "sh", "-y", "x y"]), told("call echo -- sh -y 'x y'"));
        assert_eq!(meant_by(&["call", "echo", "/bin/sh"]), told("call echo -- /bin/sh"));
        assert_eq!(meant_by(&["info", "env", "python3"]), told("info -- env python3"));
        assert_eq!(meant_by(&["list", "tools", "--json", "sh"]), told("list tools --json -- sh"));
        assert_eq!(meant_by(&["list", "--cwd", "sh", "env"]), told("list --cwd sh -- env"));
        for line in [
            &["call", "echo", "--", "sh", "-y"][..],
            &["call", "sh"],
            &["call", "weather", "echo"],
            &["call", "weather", "echo", "message=hi", "--foo"],
            &["info", "weather"],
            &["info", ""],
            &["config", "list", "sh"],
            &["nonsense", "sh"],
            &[],
        ] {
            assert_eq!(meant_by(line), None, "{line:?}");
        }
    }
}
