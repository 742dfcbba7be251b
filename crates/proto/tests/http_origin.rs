//! Host and Origin: who may talk to a server.

#![allow(clippy::unwrap_used)] // helpers of tests are tests too
#![allow(clippy::type_complexity)] // rows of tables are tuples

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use cardan_proto::http::origin::{Allow, BadRule, Denied, Ports};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use proptest::prelude::*;

const NONE: &[&str] = &[];

fn loopback(ports: Ports) -> Allow {
    Allow::bound(IpAddr::V4(Ipv4Addr::LOCALHOST), ports, NONE, &["https://app.example"]).unwrap()
}

fn check(allow: &Allow, uri: &str, head: &[(&str, &str)]) -> Result<String, Denied> {
    let mut headers = HeaderMap::new();
    for (name, value) in head {
        let name: HeaderName = name.parse().unwrap();
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    let uri: Uri = uri.parse().unwrap();
    allow.check(&uri, &headers).map(|called| called.to_string())
}

/// T1, HTTP-19: which hosts a loopback server answers to.
#[test]
fn loopback_server_answers_to_loopback_names_only() {
    use Denied::*;
    let table: &[(&str, &[&str], Result<&str, Denied>)] = &[
        ("/mcp", &["localhost:3000"], Ok("localhost:3000")),
        ("/mcp", &["127.0.0.1:3000"], Ok("127.0.0.1:3000")),
        ("/mcp", &["[::1]:3000"], Ok("[::1]:3000")),
        ("/mcp", &["[0:0:0:0:0:0:0:1]:3000"], Ok("[::1]:3000")),
        ("/mcp", &["LOCALHOST:3000"], Ok("localhost:3000")),
        ("/mcp", &["localhost"], Err(ForeignHost)),
        ("/mcp", &["localhost:3001"], Err(ForeignHost)),
        ("/mcp", &["evil.example.com"], Err(ForeignHost)),
        ("/mcp", &["EVIL.EXAMPLE.COM:3000"], Err(ForeignHost)),
        ("/mcp", &["localhost.evil:3000"], Err(ForeignHost)),
        ("/mcp", &["127.0.0.1.evil:3000"], Err(ForeignHost)),
        ("/mcp", &["evil.localhost:3000"], Err(ForeignHost)),
        ("/mcp", &["localhost.:3000"], Err(ForeignHost)),
        ("/mcp", &["127.0.0.1.:3000"], Err(ForeignHost)),
        ("/mcp", &["127.0.0.2:3000"], Err(ForeignHost)),
        ("/mcp", &["127.1:3000"], Err(ForeignHost)),
        ("/mcp", &["2130706433:3000"], Err(ForeignHost)),
        ("/mcp", &["0x7f.0.0.1:3000"], Err(ForeignHost)),
        ("/mcp", &["[::ffff:127.0.0.1]:3000"], Err(ForeignHost)),
        ("/mcp", &["0.0.0.0:3000"], Err(ForeignHost)),
        ("/mcp", &["[::]:3000"], Err(ForeignHost)),
        ("/mcp", &["localhost:3000:3000"], Err(MalformedHost)),
        ("/mcp", &["localhost:"], Err(MalformedHost)),
        ("/mcp", &["localhost:x"], Err(MalformedHost)),
        ("/mcp", &["localhost:99999"], Err(MalformedHost)),
        ("/mcp", &["user@localhost:3000"], Err(MalformedHost)),
        ("/mcp", &["localhost:3000, evil"], Err(MalformedHost)),
        ("/mcp", &["localhost:3000/"], Err(MalformedHost)),
        ("/mcp", &["l\u{f6}calhost:3000"], Err(MalformedHost)),
        ("/mcp", &[""], Err(MalformedHost)),
        ("/mcp", &["localhost:3000", "localhost:3000"], Err(MalformedHost)),
        ("/mcp", &["localhost:3000", "evil"], Err(MalformedHost)),
        ("/mcp", &[], Err(NoHost)),
        // The absolute form of a request line, and `:authority` of HTTP/2.
        ("http://localhost:3000/mcp", &[], Ok("localhost:3000")),
        ("http://localhost:3000/mcp", &["localhost:3000"], Ok("localhost:3000")),
        ("http://localhost:3000/mcp", &["LOCALHOST:3000"], Ok("localhost:3000")),
        ("http://evil/mcp", &["localhost:3000"], Err(HostsDiffer)),
        ("http://localhost:3000/mcp", &["evil"], Err(HostsDiffer)),
        ("http://localhost:3000/mcp", &["127.0.0.1:3000"], Err(HostsDiffer)),
        ("http://localhost:3001/mcp", &["localhost:3000"], Err(HostsDiffer)),
        ("http://evil/mcp", &[], Err(ForeignHost)),
        ("http://evil/mcp", &["evil"], Err(ForeignHost)),
        ("http://user@localhost:3000/mcp", &["localhost:3000"], Err(MalformedHost)),
        ("http://localhost:3000/mcp", &["localhost:3000", "localhost:3000"], Err(MalformedHost)),
    ];
    let allow = loopback(Ports::Only(3000));
    for (uri, hosts, want) in table {
        let head: Vec<_> = hosts.iter().map(|host| ("host", *host)).collect();
        assert_eq!(check(&allow, uri, &head), want.map(str::to_owned), "{uri} {hosts:?}");
    }
}

/// T1: port variants, with any port and with a port that the scheme stands for.
#[test]
fn ports_are_any_or_given() {
    let any = loopback(Ports::Any);
    for host in ["localhost", "localhost:1", "[::1]:65535", "127.0.0.1"] {
        assert!(check(&any, "/", &[("host", host)]).is_ok(), "{host}");
    }
    let http = loopback(Ports::Only(80));
    assert!(check(&http, "/", &[("host", "localhost")]).is_ok());
    assert!(check(&http, "/", &[("host", "localhost:80")]).is_ok());
    assert_eq!(check(&http, "/", &[("host", "localhost:443")]), Err(Denied::ForeignHost));
    assert!(check(&http, "http://localhost:80/", &[("host", "localhost")]).is_ok());
    let two = Allow::bound(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)), Ports::Any, NONE, NONE).unwrap();
    assert!(check(&two, "/", &[("host", "127.0.0.2:9")]).is_ok());
}

/// T2, HTTP-2, HTTP-3, SSE0-5: which pages may call.
#[test]
fn origin_is_absent_own_or_allowed() {
    use Denied::*;
    let table: &[(&[&str], Result<(), Denied>)] = &[
        (&[], Ok(())),
        (&["http://localhost:3000"], Ok(())),
        (&["HTTP://LOCALHOST:3000"], Ok(())),
        (&["https://localhost:3000"], Ok(())),
        (&["https://app.example"], Ok(())),
        (&["https://app.example:443"], Ok(())),
        (&["null"], Err(NullOrigin)),
        (&["http://evil.example.com"], Err(ForeignOrigin)),
        (&["http://localhost:3001"], Err(ForeignOrigin)),
        (&["http://localhost"], Err(ForeignOrigin)),
        (&["http://127.0.0.1:3000"], Err(ForeignOrigin)),
        (&["http://localhost.evil:3000"], Err(ForeignOrigin)),
        (&["http://localhost.:3000"], Err(ForeignOrigin)),
        (&["http://app.example"], Err(ForeignOrigin)),
        (&["https://app.example:8443"], Err(ForeignOrigin)),
        (&["https://sub.app.example"], Err(ForeignOrigin)),
        (&["vscode-webview://localhost:3000"], Err(ForeignOrigin)),
        (&["http://0.0.0.0:3000"], Err(MalformedOrigin)),
        (&["localhost:3000"], Err(MalformedOrigin)),
        (&["http://localhost:3000/"], Err(MalformedOrigin)),
        (&["http://evil@localhost:3000"], Err(MalformedOrigin)),
        (&["http://evil,http://localhost:3000"], Err(MalformedOrigin)),
        (&[""], Err(MalformedOrigin)),
        (&["*"], Err(MalformedOrigin)),
        (&["http://localhost:3000", "http://localhost:3000"], Err(MalformedOrigin)),
    ];
    let allow = loopback(Ports::Only(3000));
    for (origins, want) in table {
        let mut head = vec![("host", "localhost:3000")];
        head.extend(origins.iter().map(|origin| ("origin", *origin)));
        assert_eq!(check(&allow, "/mcp", &head).map(drop), *want, "{origins:?}");
    }
}

/// A foreign host is told first: its page may well claim an origin that fits the host.
#[test]
fn rebound_name_is_refused_although_its_origin_fits() {
    let head = [("host", "evil.example:3000"), ("origin", "http://evil.example:3000")];
    assert_eq!(check(&loopback(Ports::Any), "/mcp", &head), Err(Denied::ForeignHost));
}

/// T2: what a browser says of the page counts even where it sends no origin.
#[test]
fn cross_site_fetch_is_refused_unless_the_page_is_allowed() {
    let allow = loopback(Ports::Any);
    let with = |site: &'static str, origin: Option<&'static str>| {
        let mut head = vec![("host", "localhost:3000"), ("sec-fetch-site", site)];
        head.extend(origin.map(|origin| ("origin", origin)));
        check(&allow, "/mcp", &head).map(drop)
    };
    assert_eq!(with("cross-site", None), Err(Denied::CrossSite));
    assert_eq!(with(" Cross-Site ", None), Err(Denied::CrossSite));
    assert_eq!(with("cross-site", Some("http://localhost:3000")), Err(Denied::CrossSite));
    assert_eq!(with("cross-site", Some("https://app.example")), Ok(()));
    assert_eq!(with("cross-site", Some("https://other.example")), Err(Denied::ForeignOrigin));
    assert_eq!(with("same-origin", Some("http://localhost:3000")), Ok(()));
    assert_eq!(with("none", None), Ok(()));
}

/// T1: beyond loopback, names must be given, and no address stands for all.
#[test]
fn rules_are_refused_before_they_can_be_too_wide() {
    let everywhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let bound = |hosts: &[&str], origins: &[&str]| Allow::bound(everywhere, Ports::Any, hosts, origins);
    assert_eq!(bound(&[], &[]), Err(BadRule::HostsNeeded { address: everywhere }));
    let lan = IpAddr::V4(Ipv4Addr::new(192, 168, 1, 5));
    assert_eq!(Allow::bound(lan, Ports::Any, NONE, NONE), Err(BadRule::HostsNeeded { address: lan }));
    for host in ["0.0.0.0", "0.0.0.0:80", "[::]", "[::]:80", "[::ffff:0.0.0.0]"] {
        assert_eq!(bound(&[host], &[]), Err(BadRule::Unspecified { text: host.to_owned() }), "{host}");
    }
    for host in ["*", "", "a b", "http://a", "a:b"] {
        assert!(matches!(bound(&[host], &[]), Err(BadRule::Host { .. })), "{host}");
    }
    for origin in ["*", "null", "", "app.example", "https://", "https://app.example/", "https://*.example"] {
        assert_eq!(bound(&["a"], &[origin]), Err(BadRule::Origin { text: origin.to_owned() }), "{origin}");
    }
    let named = bound(&["Mcp.Lan", "other.lan:8443"], &[]).unwrap();
    for (host, fits) in [
        ("mcp.lan", true),
        ("mcp.lan:1234", true),
        ("other.lan:8443", true),
        ("other.lan", false),
        ("localhost", false),
        ("0.0.0.0", false),
    ] {
        assert_eq!(check(&named, "/", &[("host", host)]).is_ok(), fits, "{host}");
    }
    let six = Allow::bound(IpAddr::V6(Ipv6Addr::LOCALHOST), Ports::Any, &["mcp.lan"], NONE).unwrap();
    assert!(check(&six, "/", &[("host", "localhost")]).is_ok());
    assert!(check(&six, "/", &[("host", "mcp.lan")]).is_ok());
}

proptest! {
    /// T1: no text but the loopback names passes.
    #[test]
    fn only_loopback_names_pass(host in "[a-z0-9.:\\[\\]@-]{0,20}|localhost.{0,4}|127\\.0\\.0\\.1.{0,4}") {
        let Ok(value) = HeaderValue::from_str(&host) else { return Ok(()) };
        let mut headers = HeaderMap::new();
        headers.insert(http::header::HOST, value);
        if let Ok(called) = loopback(Ports::Any).check(&Uri::from_static("/"), &headers) {
            let name = called.host.to_string();
            prop_assert!(["localhost", "127.0.0.1", "[::1]"].contains(&name.as_str()), "{}", name);
        }
    }
}
