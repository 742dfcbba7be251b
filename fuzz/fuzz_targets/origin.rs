//! The gate for `Host` and `Origin`: whatever the spelling, only hosts on the list come in, and only
//! pages of theirs or on the list.

#![no_main]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use cardan_proto::http::authority::{Authority, Host};
use cardan_proto::http::origin::{Allow, Ports};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use libfuzzer_sys::fuzz_target;

static ALLOW: LazyLock<Allow> = LazyLock::new(|| {
    let hosts = ["app.example:8443", "tool.example"];
    Allow::bound(IpAddr::V4(Ipv4Addr::LOCALHOST), Ports::Only(3000), &hosts, &["https://page.example"])
        .expect("these rules are sound")
});

// Lines: the address, then `host`, `origin`, `sec-fetch-site`; further ones repeat them.
fuzz_target!(|input: &[u8]| {
    let mut lines = input.split(|byte| *byte == b'\n');
    let Some(uri) = lines.next().and_then(|line| Uri::try_from(line).ok()) else { return };
    let mut headers = HeaderMap::new();
    for (n, line) in lines.take(6).enumerate() {
        let name = ["host", "origin", "sec-fetch-site"][n % 3];
        let Ok(value) = HeaderValue::from_bytes(line) else { return };
        if !line.is_empty() {
            headers.append(HeaderName::from_static(name), value);
        }
    }
    let Ok(called) = ALLOW.check(&uri, &headers) else { return };
    assert!(is_listed(&called), "{called:?} came in");
    for value in headers.get_all("host") {
        let says = Authority::parse(text(value)).map(|authority| authority.host);
        assert_eq!(says.as_ref(), Ok(&called.host), "another host came in");
    }
    let origins: Vec<_> = headers.get_all("origin").iter().map(text).collect();
    match origins[..] {
        [] => {}
        [origin] => assert!(may_call(origin, &called), "a page of {origin} came in"),
        [..] => panic!("two origins came in"),
    }
});

fn text(value: &HeaderValue) -> &str {
    value.to_str().expect("what came in is text").trim_matches([' ', '\t'])
}

/// The list of hosts once more, in other words.
fn is_listed(called: &Authority) -> bool {
    match &called.host {
        Host::Name(name) => match name.as_str() {
            "localhost" => called.port == Some(3000),
            "app.example" => called.port == Some(8443),
            "tool.example" => true,
            _ => false,
        },
        Host::V4(address) => *address == Ipv4Addr::LOCALHOST && called.port == Some(3000),
        Host::V6(address) => *address == Ipv6Addr::LOCALHOST && called.port == Some(3000),
    }
}

fn may_call(origin: &str, called: &Authority) -> bool {
    let origin = origin.to_ascii_lowercase();
    let own = origin.split_once("://").is_some_and(|(scheme, rest)| {
        matches!(scheme, "http" | "https")
            && Authority::parse(rest).is_ok_and(|page| page.host == called.host)
    });
    own || matches!(&*origin, "https://page.example" | "https://page.example:443")
}
