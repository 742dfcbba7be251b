//! A server asks our model: a person answers for it, or a command does.

use std::io;
use std::process::Stdio;

use cardan_proto::model::Content;
use cardan_proto::model::content::Role;
use cardan_proto::model::sampling::{Blocks, CreateMessageParams, CreateMessageResult};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

use super::console::{Reply, Talk};
use super::form::one_line;
use crate::output::tell;
use crate::results::quoted;

/// More than any model answers; a command that runs wild is stopped here.
const MAX_ANSWER_BYTES: u64 = 16 << 20;

/// What a person says in place of a model. Nothing: they would not.
pub(crate) async fn by_person(
    talk: &mut Talk,
    who: &str,
    params: &CreateMessageParams,
) -> Option<CreateMessageResult> {
    talk.say(&format!("{who} asks your model for an answer of at most {} tokens:", params.max_tokens));
    if let Some(system) = &params.system_prompt {
        talk.say("  system:");
        talk.quote(system);
    }
    for message in &params.messages {
        talk.say(&format!("  {}:", message.role.as_str()));
        talk.quote(&quoted(message.content.blocks()));
    }
    if let Some(tools) = params.tools.as_deref().filter(|tools| !tools.is_empty()) {
        let names: Vec<String> = tools.iter().map(|tool| one_line(&tool.name)).collect();
        talk.say(&format!("  it may use tools: {}; you can only answer with text", names.join(", ")));
    }
    let consent = talk.choose("Answer in its place? [y]es, [n]o: ", &[("yes", "yes"), ("no", "no")]).await;
    if consent != Some("yes") {
        return None;
    }
    loop {
        let text = lines(talk).await?;
        talk.say(&format!("This goes to {who}:"));
        talk.quote(&text);
        let prompt = "Send it? [Y]es, [n]o, [e]dit: ";
        match talk.choose(prompt, &[("yes", ""), ("no", "no"), ("edit", "edit")]).await {
            Some("yes") => return Some(answer(text, "human")),
            Some("edit") => {}
            _ => return None,
        }
    }
}

/// Lines up to an empty one.
async fn lines(talk: &mut Talk) -> Option<String> {
    talk.say("Your answer; an empty line ends it, Ctrl-D declines");
    let mut lines = Vec::new();
    loop {
        match talk.ask("> ").await {
            Reply::Line(line) if line.is_empty() && lines.is_empty() => {}
            Reply::Line(line) if line.is_empty() => return Some(lines.join("\n")),
            Reply::Line(line) => lines.push(line),
            Reply::End => return None,
        }
    }
}

/// What a command says: it reads the ask as JSON, and prints text or a whole result as JSON.
pub(crate) async fn by_command(
    command: &str,
    who: &str,
    params: &CreateMessageParams,
) -> Result<CreateMessageResult, String> {
    let failed = |why: String| format!("the sampling command {why}");
    tell(&format!("{who} asks your model; `{command}` answers"));
    let ask = serde_json::to_vec(params).map_err(|error| failed(format!("cannot be asked: {error}")))?;
    let mut child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| failed(format!("cannot be started: {error}")))?;
    // Dropped before the child is, so that its number is still its own.
    let group = Group::of(&child);
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let feed = async move {
        // Whoever does not want to read it need not.
        if let Some(mut stdin) = stdin {
            let _ = stdin.write_all(&ask).await;
        }
        Ok::<_, io::Error>(())
    };
    let hear = async {
        let mut said = Vec::new();
        if let Some(stdout) = stdout {
            stdout.take(MAX_ANSWER_BYTES + 1).read_to_end(&mut said).await?;
        }
        match said.len() as u64 > MAX_ANSWER_BYTES {
            true => Err(io::Error::other("it answers with more than fits")),
            false => Ok(said),
        }
    };
    let outcome = async {
        let ((), said) = tokio::try_join!(feed, hear)?;
        Ok::<_, io::Error>((said, child.wait().await?))
    };
    let (said, status) = outcome.await.map_err(|error| failed(format!("was given up: {error}")))?;
    group.disband();
    if !status.success() {
        return Err(failed(format!("failed ({status})")));
    }
    let text = String::from_utf8(said).map_err(|_| failed("answered with what is not UTF-8".to_owned()))?;
    read(&text).map_err(failed)
}

/// Everything that a command has started, which ends with it when nobody waits any more.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?)))
    }

    /// It has ended by itself, and its number may be another's.
    fn disband(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            // Who is gone already need not be ended.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

/// A result where it is one, else text.
fn read(text: &str) -> Result<CreateMessageResult, String> {
    let text = text.trim_end_matches(['\n', '\r']);
    if text.trim().is_empty() {
        return Err("answered with nothing".to_owned());
    }
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(value) if value.get("content").is_some() && value.get("role").is_some() => {
            serde_json::from_value(value)
                .map_err(|error| format!("answered with a result that is none: {error}"))
        }
        _ => Ok(answer(text.to_owned(), "command")),
    }
}

fn answer(text: String, model: &str) -> CreateMessageResult {
    CreateMessageResult {
        role: Role::Assistant,
        content: Blocks::One(Content::text(text)),
        model: model.to_owned(),
        stop_reason: Some("endTurn".to_owned()),
        meta: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_answers_with_text_or_a_result() {
        let text = |result: &CreateMessageResult| result.content.blocks()[0].as_text().map(str::to_owned);
        assert_eq!(text(&read("hello\nthere\n").unwrap()).as_deref(), Some("hello\nthere"));
        assert_eq!(text(&read("{\"a\":1}\n").unwrap()).as_deref(), Some("{\"a\":1}"));
        let whole = r#"{"role":"assistant","content":{"type":"text","text":"hi"},"model":"m-1"}"#;
        let result = read(whole).unwrap();
        assert_eq!((text(&result).as_deref(), result.model.as_str()), (Some("hi"), "m-1"));
        assert!(read(r#"{"role":"assistant","content":"hi","model":"m"}"#).unwrap_err().contains("none"));
        assert!(read(" \n").is_err());
    }
}
