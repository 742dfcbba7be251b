//! What a configured server asks its user for (`${input:..}`), where neither a variable nor a default answers it.

use std::collections::BTreeMap;

use cardan_config::Config;
use cardan_proto::secret::Secret;

use super::console::{Console, Reply, Talk};
use super::field::names_a_secret;
use super::form::one_line;

/// What was said, by the name of what was asked.
pub(crate) type Said = BTreeMap<String, Secret>;

/// Asks for each of these. Who ends the questions leaves the rest open.
pub(crate) async fn of_server(console: &Console, server: &str, config: &Config, ids: &[String]) -> Said {
    let mut said = Said::new();
    let mut talk = console.talk().await;
    let many = if ids.len() == 1 { "a value".to_owned() } else { format!("{} values", ids.len()) };
    talk.say(&format!("server {} asks for {many}; Ctrl-D leaves it", one_line(server)));
    for id in ids {
        let Some(answer) = of_input(&mut talk, config, id).await else { break };
        said.insert(id.clone(), Secret::new(answer));
    }
    said
}

async fn of_input(talk: &mut Talk, config: &Config, id: &str) -> Option<String> {
    let declared = config.inputs.iter().find(|input| input.id == id);
    talk.part();
    talk.say(&format!("{} (text)", one_line(id)));
    if let Some(description) = declared.and_then(|input| input.description.as_deref()) {
        talk.quote(description);
    }
    let hidden = declared.is_some_and(|input| input.password) || names_a_secret(id);
    let prompt = format!("{}: ", one_line(id));
    loop {
        let reply = if hidden { talk.ask_hidden(&prompt).await } else { talk.ask(&prompt).await };
        match reply {
            Reply::End => return None,
            // Nothing was said yet.
            Reply::Line(line) if line.is_empty() => {}
            Reply::Line(line) if line == "\"\"" => return Some(String::new()),
            Reply::Line(line) => return Some(line),
        }
    }
}
