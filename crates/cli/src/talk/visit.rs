//! An address that a server sends the person to: shown in full, opened only by someone who said yes.

use std::process::{Command, Stdio};

use cardan_proto::http::authority::Host;
use cardan_proto::model::elicit::{ElicitResult, UrlAsk};

use super::console::Talk;

/// Whether a browser is started for an address that the person agreed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opening {
    Browser,
    Nothing,
}

/// Asks whether the person goes there.
pub(crate) async fn visit(talk: &mut Talk, who: &str, ask: &UrlAsk, opening: Opening) -> ElicitResult {
    talk.say(&format!("{who} asks you to visit an address:"));
    talk.quote(&ask.message);
    show(talk, &ask.url, ask.address().ok().as_ref().map(|url| (url.host(), url.is_secure())));
    let prompt = match opening {
        Opening::Browser => "Open it in the browser? [y]es, [n]o, [c]ancel: ",
        Opening::Nothing => "Do you agree to visit it? [y]es, [n]o, [c]ancel: ",
    };
    match talk.choose(prompt, &[("yes", "yes"), ("no", "no"), ("cancel", "cancel")]).await {
        Some("yes") => {
            if opening == Opening::Browser {
                open(talk, &ask.url);
            }
            ElicitResult::accepted()
        }
        Some("cancel") => ElicitResult::cancelled(),
        _ => ElicitResult::declined(),
    }
}

fn show(talk: &Talk, url: &str, place: Option<(&Host, bool)>) {
    let host = place.map(|(host, _)| host.to_string()).unwrap_or_default();
    let authority = url.find("://").map_or(0, |at| at + 3);
    let at = url[authority..].to_ascii_lowercase().find(&host).map_or(authority, |at| authority + at);
    let (before, rest) = url.split_at(at);
    let (marked, after) = rest.split_at_checked(host.len()).unwrap_or((rest, ""));
    talk.mark(before, marked, after);
    talk.mark("host: ", &host, "");
    for warning in warnings(place) {
        talk.say(&format!("  WARNING: {warning}"));
    }
}

/// What makes an address suspicious.
fn warnings(place: Option<(&Host, bool)>) -> Vec<&'static str> {
    let Some((host, is_secure)) = place else { return vec!["this is no address of the web"] };
    let name = host.to_string();
    let mut warnings = Vec::new();
    if name.split('.').any(|label| label.starts_with("xn--")) {
        warnings.push("the host is written in Punycode: it may look like another one in the browser");
    }
    if !is_secure && !matches!(name.as_str(), "localhost" | "127.0.0.1" | "[::1]") {
        warnings.push("this is not https: whoever is on the way can read and change what you do there");
    }
    warnings
}

/// Hands the address to the browser. It begins with `http`, so no program takes it for an option.
fn open(talk: &Talk, url: &str) {
    let program = std::env::var("BROWSER").ok().and_then(|list| list.split(':').next().map(str::to_owned));
    let program = program.filter(|program| !program.is_empty()).unwrap_or_else(|| OPENER.to_owned());
    let started = Command::new(&program)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if let Err(error) = started {
        talk.say(&format!("cannot start `{program}`: {error}; open the address yourself"));
    }
}

/// What opens an address where nobody says otherwise.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

#[cfg(test)]
mod tests {
    use super::*;

    /// ELI-20: Punycode and plain HTTP are warned of.
    #[test]
    fn eli_20_suspicious_addresses_are_warned_of() {
        let count = |url: &str| {
            let url = UrlAsk::new("m", url).address().unwrap();
            warnings(Some((url.host(), url.is_secure()))).len()
        };
        assert_eq!(count("https://example.com/x"), 0);
        assert_eq!(count("http://127.0.0.1:8000/x"), 0);
        assert_eq!(count("http://example.com/x"), 1);
        assert_eq!(count("http://xn--e1awd7f.com/"), 2);
    }
}
