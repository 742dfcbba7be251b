//! What `cardan serve` and `cardan bridge` say when they are ready: addresses, and commands that work as they stand.

use std::net::SocketAddr;
use std::path::Path;

use cardan_proto::http::authority::{Authority, Host};
use cardan_tls::{Identity, Trust};

use crate::args::Listening;

/// Who is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Served {
    /// The built-in server.
    Demo,
    /// Another server.
    Bridged,
    /// All that are configured, in their order.
    All(Vec<Shown>),
}

/// A server among others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shown {
    /// Where it is served alone.
    pub(crate) path: String,
    /// How it stands, in a few words.
    pub(crate) state: String,
}

pub(crate) fn greeting(
    served: &Served,
    address: SocketAddr,
    identity: Option<&Identity>,
    args: &Listening,
) -> String {
    let (Some(identity), Some(file)) = (identity, &args.tls_cert) else {
        return lines(served, ["http", "ws"], &reachable(address, &args.hosts), "", "");
    };
    let tls = ["https", "wss"];
    let Some(place) = named(address, identity, &args.hosts) else {
        let note = "\nthe certificate is for none of the names by which we answer, so clients will refuse it:\n\
                    call us by a name of the certificate, and allow it with --allow-host";
        return lines(served, tls, &reachable(address, &args.hosts), "", note);
    };
    let (ca, note) = match vouched(identity, &place.host, file) {
        Vouched::Machine => (String::new(), ""),
        Vouched::Itself => (format!(" --ca {}", quoted(file)), ""),
        Vouched::Others => (" --ca FILE".to_owned(), "\nFILE holds the certificate of who signed ours"),
    };
    lines(served, tls, &place.to_string(), &ca, note)
}

fn lines(served: &Served, [http, ws]: [&str; 2], place: &str, ca: &str, note: &str) -> String {
    let (what, tries) = match served {
        Served::Demo => (
            "cardan serves its demo server at".to_owned(),
            format!(
                "  cardan call {http}://{place}/mcp echo message=hello{ca}
  cardan call {ws}://{place}/ws slow steps=5 delay_ms=200{ca}"
            ),
        ),
        Served::Bridged => {
            let what = "cardan serves the server behind it at".to_owned();
            (what, format!("  cardan list {http}://{place}/mcp{ca}"))
        }
        Served::All(servers) => {
            let what = match servers.len() {
                1 => "cardan serves one server at".to_owned(),
                count => format!("cardan serves {count} servers as one at"),
            };
            let alone = servers
                .first()
                .map(|first| format!("\n  cardan list {http}://{place}{}/mcp{ca}", first.path));
            (what, format!("  cardan list {http}://{place}/mcp{ca}{}", alone.unwrap_or_default()))
        }
    };
    let each = match served {
        Served::All(servers) => {
            let lines =
                servers.iter().map(|one| format!("\n  {http}://{place}{}/mcp  {}", one.path, one.state));
            format!("\nand each alone at{}", lines.collect::<String>())
        }
        Served::Demo | Served::Bridged => String::new(),
    };
    format!(
        "{what}
  {http}://{place}/mcp  Streamable HTTP, every revision
  {http}://{place}/sse  old HTTP+SSE
  {ws}://{place}/ws     WebSocket{each}
try
  cardan info {http}://{place}/mcp{ca}
{tries}{note}
end with Ctrl-C"
    )
}

/// A place whose name we answer to: beyond loopback those are the allowed ones and no others, the address itself first
/// if it is among them.
fn reachable(address: SocketAddr, hosts: &[String]) -> String {
    if address.ip().is_loopback() {
        return address.to_string();
    }
    let allowed = || hosts.iter().filter_map(|text| Authority::parse(text).ok());
    let own = Host::from(address.ip());
    let own = allowed().find(|name| name.host == own && !address.ip().is_unspecified());
    match own.or_else(|| allowed().find(|name| !name.host.is_unspecified())) {
        Some(name) => Authority { port: name.port.or_else(|| Some(address.port())), ..name }.to_string(),
        None => address.to_string(),
    }
}

/// A name by which we answer and for which the certificate is.
fn named(address: SocketAddr, identity: &Identity, hosts: &[String]) -> Option<Authority> {
    let own = [Host::from(address.ip()), Host::Name("localhost".to_owned())];
    let own = own.into_iter().filter(|_| address.ip().is_loopback());
    let allowed = hosts.iter().filter_map(|text| Authority::parse(text).ok());
    let mut names = own.map(|host| Authority { host, port: None }).chain(allowed);
    let named = names.find(|name| identity.is_for(&bare(&name.host)))?;
    Some(Authority { port: named.port.or_else(|| Some(address.port())), ..named })
}

/// As certificates spell it: no brackets.
fn bare(host: &Host) -> String {
    host.to_string().trim_matches(['[', ']']).to_owned()
}

/// Who says that the certificate is good.
enum Vouched {
    /// The machine trusts who signed it.
    Machine,
    /// Its file is what a client has to trust.
    Itself,
    /// Somebody whom neither the machine nor the file knows.
    Others,
}

fn vouched(identity: &Identity, host: &Host, file: &Path) -> Vouched {
    let name = bare(host);
    if Trust::default().believes(identity, &name) {
        Vouched::Machine
    } else if Trust::default().roots(file).is_ok_and(|trust| trust.believes(identity, &name)) {
        Vouched::Itself
    } else {
        Vouched::Others
    }
}

/// As a shell takes it for one word.
fn quoted(file: &Path) -> String {
    let text = file.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%".contains(c);
    if text.chars().all(plain) { text.into_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The commands that are shown work as they stand, also where we listen everywhere.
    #[test]
    fn nobody_is_sent_to_no_address() {
        let shown = |address: &str, hosts: &[&str]| {
            let hosts: Vec<_> = hosts.iter().map(|&host| host.to_owned()).collect();
            reachable(address.parse().unwrap(), &hosts)
        };
        assert_eq!(shown("127.0.0.1:80", &[]), "127.0.0.1:80");
        assert_eq!(shown("[::1]:80", &["a.test"]), "[::1]:80");
        assert_eq!(shown("192.0.2.1:80", &["a.test"]), "a.test:80");
        assert_eq!(shown("192.0.2.1:80", &["a.test", "192.0.2.1"]), "192.0.2.1:80");
        assert_eq!(shown("0.0.0.0:8080", &["a.test"]), "a.test:8080");
        assert_eq!(shown("[::]:8080", &["0.0.0.0", "a.test:443"]), "a.test:443");
    }

    #[test]
    fn paths_are_quoted_for_a_shell() {
        assert_eq!(quoted(Path::new("/etc/ssl/a-b.pem")), "/etc/ssl/a-b.pem");
        assert_eq!(quoted(Path::new("my cert's.pem")), r"'my cert'\''s.pem'");
    }
}
