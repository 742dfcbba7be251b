//! Redirects and the `endpoint` event: where a client may be led, and with what.

#![allow(clippy::unwrap_used)] // helpers of tests are tests too
#![allow(clippy::type_complexity)] // rows of tables are tuples

use cardan_proto::http::redirect::{
    BadEndpoint, Carry, CrossOrigin, Hop, RedirectRefusal, Unfollowed, endpoint, follow,
};
use cardan_proto::http::url::{BadUrl, Url};
use http::header::LOCATION;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use proptest::prelude::*;

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

#[test]
fn url_is_split_and_written_back() {
    let table = [
        ("http://a", Ok("http://a/")),
        ("HTTPS://A.Example:443/x?y=1#frag", Ok("https://a.example/x?y=1")),
        ("http://a:8080?q", Ok("http://a:8080/?q")),
        ("http://[0::1]:80/./a/../b/", Ok("http://[::1]/b/")),
        (" http://a/b ", Ok("http://a/b")),
        ("ftp://a/", Err(BadUrl::Scheme)),
        ("javascript:alert(1)", Err(BadUrl::Scheme)),
        ("/path", Err(BadUrl::Scheme)),
        ("", Err(BadUrl::Scheme)),
        ("http:a", Err(BadUrl::Authority)),
        ("http:///a", Err(BadUrl::Authority)),
        ("http://user:pass@a/", Err(BadUrl::User)),
        ("http://a@b/", Err(BadUrl::User)),
        ("http://a:0x50/", Err(BadUrl::Port)),
        ("http://a\\@b/", Err(BadUrl::Characters)),
        ("http://a/\n", Err(BadUrl::Characters)),
        ("http://a/b c", Err(BadUrl::Characters)),
        ("http://ä/", Err(BadUrl::Characters)),
    ];
    for (text, want) in table {
        assert_eq!(Url::parse(text).map(|url| url.to_string()), want.map(str::to_owned), "{text:?}");
    }
}

/// SSE0-3: a reference is resolved against the URL of the stream, with the examples of RFC 3986, 5.4.
#[test]
fn reference_is_resolved() {
    let base = url("http://a/b/c/d;p?q");
    let table = [
        ("g", "http://a/b/c/g"),
        ("./g", "http://a/b/c/g"),
        ("g/", "http://a/b/c/g/"),
        ("/g", "http://a/g"),
        ("//g", "http://g/"),
        ("?y", "http://a/b/c/d;p?y"),
        ("g?y", "http://a/b/c/g?y"),
        ("#s", "http://a/b/c/d;p?q"),
        ("g#s", "http://a/b/c/g"),
        (";x", "http://a/b/c/;x"),
        ("", "http://a/b/c/d;p?q"),
        (".", "http://a/b/c/"),
        ("./", "http://a/b/c/"),
        ("..", "http://a/b/"),
        ("../", "http://a/b/"),
        ("../g", "http://a/b/g"),
        ("../..", "http://a/"),
        ("../../g", "http://a/g"),
        ("../../../g", "http://a/g"),
        ("/./g", "http://a/g"),
        ("/../g", "http://a/g"),
        ("g.", "http://a/b/c/g."),
        ("..g", "http://a/b/c/..g"),
        ("./g/.", "http://a/b/c/g/"),
        ("g/../h", "http://a/b/c/h"),
        ("g;x=1/../y", "http://a/b/c/y"),
        ("g?y/../x", "http://a/b/c/g?y/../x"),
        ("https://z/y", "https://z/y"),
    ];
    for (reference, want) in table {
        assert_eq!(base.join(reference).unwrap().to_string(), want, "{reference:?}");
    }
    assert_eq!(base.join("g:h"), Err(BadUrl::Scheme));
    assert_eq!(base.join("http:g"), Err(BadUrl::Authority));
}

/// SSE0-3, SSE0-9, T7: messages go where the stream is, or nowhere.
#[test]
fn endpoint_must_be_of_the_same_origin() {
    let stream = url("https://mcp.example/v1/sse?x=1");
    let foreign = Err(BadEndpoint::ForeignOrigin);
    let table = [
        ("/messages?sessionId=1", Ok("https://mcp.example/messages?sessionId=1")),
        ("messages", Ok("https://mcp.example/v1/messages")),
        ("?session=1", Ok("https://mcp.example/v1/sse?session=1")),
        ("https://mcp.example:443/m", Ok("https://mcp.example/m")),
        ("HTTPS://MCP.EXAMPLE/m", Ok("https://mcp.example/m")),
        ("//mcp.example/m", Ok("https://mcp.example/m")),
        ("http://mcp.example/m", foreign),
        ("https://mcp.example:8443/m", foreign),
        ("https://evil.example/m", foreign),
        ("https://mcp.example.evil/m", foreign),
        ("https://mcp.example./m", foreign),
        ("//evil.example/m", foreign),
        ("https://mcp.example@evil.example/m", Err(BadEndpoint::Url(BadUrl::User))),
        ("https://evil.example\\@mcp.example/m", Err(BadEndpoint::Url(BadUrl::Characters))),
        ("/\\evil.example/m", Err(BadEndpoint::Url(BadUrl::Characters))),
        ("/\t/evil.example/m", Err(BadEndpoint::Url(BadUrl::Characters))),
        ("javascript:1", Err(BadEndpoint::Url(BadUrl::Scheme))),
        ("file:///etc/passwd", Err(BadEndpoint::Url(BadUrl::Scheme))),
    ];
    for (reference, want) in table {
        let got = endpoint(&stream, reference).map(|url| url.to_string());
        assert_eq!(got, want.map(str::to_owned), "{reference:?}");
    }
}

fn run(method: &Method, status: u16, location: &str, cross: CrossOrigin) -> Result<Hop, RedirectRefusal> {
    let mut headers = HeaderMap::new();
    headers.insert(LOCATION, HeaderValue::from_str(location).unwrap());
    follow(&url("https://a/mcp"), method, (StatusCode::from_u16(status).unwrap(), &headers), 3, cross)
}

/// T7: which redirects are followed, and what goes along.
#[test]
fn redirect_keeps_within_the_origin_and_strips_or_stops_beyond() {
    use CrossOrigin::{Refuse, Strip};
    use RedirectRefusal::*;
    let (post, get) = (Method::POST, Method::GET);
    let all = |to: &str| Ok(Hop { url: url(to), carry: Carry::All });
    let table: Vec<(&Method, u16, &str, CrossOrigin, Result<Hop, RedirectRefusal>)> = vec![
        (&post, 307, "/mcp/", Refuse, all("https://a/mcp/")),
        (&post, 308, "https://A:443/x", Refuse, all("https://a/x")),
        (&post, 301, "/x", Strip, Err(MethodLost)),
        (&post, 302, "/x", Strip, Err(MethodLost)),
        (&post, 303, "/x", Strip, Err(MethodLost)),
        (&Method::DELETE, 302, "/x", Strip, Err(MethodLost)),
        (&get, 301, "/x", Refuse, all("https://a/x")),
        (&get, 303, "/x", Refuse, all("https://a/x")),
        (&get, 300, "/x", Strip, Err(NotARedirect)),
        (&get, 304, "/x", Strip, Err(NotARedirect)),
        (&get, 200, "/x", Strip, Err(NotARedirect)),
        (&post, 307, "https://b/x", Refuse, Err(ForeignOrigin)),
        (&post, 307, "https://b/x", Strip, Err(ForeignOrigin)),
        (&post, 307, "https://a:444/x", Strip, Err(ForeignOrigin)),
        (&get, 307, "https://b/x", Refuse, Err(ForeignOrigin)),
        (&get, 307, "https://b/x", Strip, Ok(Hop { url: url("https://b/x"), carry: Carry::Plain })),
        (&get, 307, "http://a/mcp", Strip, Err(Downgrade)),
        (&get, 307, "javascript:1", Strip, Err(Url(BadUrl::Scheme))),
        (&get, 307, "https://u:p@a/", Strip, Err(Url(BadUrl::User))),
    ];
    for (method, status, location, cross, want) in table {
        assert_eq!(run(method, status, location, cross), want, "{method} {status} {location} {cross:?}");
    }
    let mut headers = HeaderMap::new();
    let moved = StatusCode::TEMPORARY_REDIRECT;
    assert_eq!(follow(&url("http://a"), &get, (moved, &headers), 3, Strip), Err(NoLocation));
    headers.append(LOCATION, HeaderValue::from_static("/x"));
    assert_eq!(follow(&url("http://a"), &get, (moved, &headers), 0, Strip), Err(TooMany));
    headers.append(LOCATION, HeaderValue::from_static("/y"));
    assert_eq!(follow(&url("http://a"), &get, (moved, &headers), 3, Strip), Err(NoLocation));
}

/// T7: what a stranger does not get to see.
#[test]
fn stripped_headers_hold_no_secret() {
    let mut headers = HeaderMap::new();
    for name in [
        "authorization",
        "proxy-authorization",
        "cookie",
        "x-api-key",
        "mcp-session-id",
        "mcp-protocol-version",
        "mcp-name",
        "mcp-param-token",
        "last-event-id",
        "origin",
        "referer",
        "host",
        "accept",
        "accept-encoding",
        "accept-language",
        "user-agent",
    ] {
        headers.append(name, HeaderValue::from_static("one"));
        headers.append(name, HeaderValue::from_static("two"));
    }
    let before = headers.clone();
    Carry::All.apply(&mut headers);
    assert_eq!(headers, before);
    Carry::Plain.apply(&mut headers);
    let mut names: Vec<_> = headers.keys().map(|name| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["accept", "accept-encoding", "accept-language", "user-agent"]);
    assert_eq!(headers.get_all("accept").iter().count(), 2);
}

proptest! {
    /// SSE0-9: no reference leads astray, and none panics.
    #[test]
    fn endpoint_never_leaves_the_origin(reference in "[a-z/:.?#@\\\\%\\[\\]0-9 -]{0,24}|\\PC{0,12}") {
        let stream = url("https://mcp.example/v1/sse");
        if let Ok(found) = endpoint(&stream, &reference) {
            prop_assert!(found.to_string().starts_with("https://mcp.example/"), "{}", found);
            prop_assert_eq!(Url::parse(&found.to_string()), Ok(found));
        }
    }
}

/// T7, S1-C5: where a redirect leads is told without what is secret about it.
#[test]
fn t7_a_place_is_told_without_password_and_query() {
    for (location, told) in [
        ("https://user:pw@host.test/mcp?key=k#f", "https://host.test/mcp"),
        ("https://host.test/a@b", "https://host.test/a@b"),
        ("//user@host.test", "//host.test"),
        ("/mcp", "/mcp"),
        ("", ""),
    ] {
        let headers = HeaderMap::from_iter([(LOCATION, HeaderValue::from_static(location))]);
        assert_eq!(&*Unfollowed::new(RedirectRefusal::TooMany, &headers).to, told, "{location}");
    }
}
