//! A run as text, one short line per thing that happened, for the person who looks for the cause.

use cardan_proto::session::event::{Event, Input, Outgoing, Output};

/// Longer payloads than this say nothing more.
const WIDTH: usize = 300;

pub(crate) fn input(input: &Input) -> String {
    match input {
        Input::Frame { bytes, .. } => format!("< {}", clip(&String::from_utf8_lossy(bytes))),
        Input::Local(command) => clip(&format!("{command:?}")),
        other => clip(&format!("{other:?}")),
    }
}

pub(crate) fn output(output: &Output) -> String {
    match output {
        Output::Send { message, .. } => format!("> {}", message_text(message)),
        Output::EndLane { lane } => format!("ends {lane:?}"),
        Output::Release { lane, retry } => format!("releases {lane:?} for {retry:?}"),
        Output::Retract { frame } => format!("takes back frame {frame}"),
        Output::Close { cause } => format!("closes: {cause}"),
        Output::Event(Event::Called(called)) => {
            let answers = called.answers.as_ref().map_or(0, Vec::len);
            format!("called {:?} {} {}, {answers} answers", called.key, called.call.id, called.call.method)
        }
        Output::Event(event) => clip(&format!("{event:?}")),
    }
}

fn message_text(message: &Outgoing) -> String {
    let mut bytes = Vec::new();
    message.write(&mut bytes);
    clip(&String::from_utf8_lossy(&bytes))
}

fn clip(text: &str) -> String {
    let mut clipped: String = text.chars().take(WIDTH).collect();
    if clipped.len() < text.len() {
        clipped.push_str("...");
    }
    clipped
}
