//! Tests of [`uri_template`](super::uri_template).

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::uri_template::{MAX_URI_BYTES, UriTemplate};

fn values(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn template(text: &str) -> UriTemplate {
    UriTemplate::parse(text).unwrap()
}

/// RES-17: the expansions that RFC 6570 itself gives for levels 1 to 3.
#[test]
fn expansion_follows_the_rfc() {
    let given = values(&[
        ("var", "value"),
        ("hello", "Hello World!"),
        ("path", "/foo/bar"),
        ("empty", ""),
        ("x", "1024"),
        ("y", "768"),
    ]);
    let rows = [
        ("{var}", "value"),
        ("{hello}", "Hello%20World%21"),
        ("{+var}", "value"),
        ("{+hello}", "Hello%20World!"),
        ("{+path}/here", "/foo/bar/here"),
        ("here?ref={+path}", "here?ref=/foo/bar"),
        ("X{#var}", "X#value"),
        ("X{#hello}", "X#Hello%20World!"),
        ("map?{x,y}", "map?1024,768"),
        ("{x,hello,y}", "1024,Hello%20World%21,768"),
        ("{+x,hello,y}", "1024,Hello%20World!,768"),
        ("{+path,x}/here", "/foo/bar,1024/here"),
        ("{#x,hello,y}", "#1024,Hello%20World!,768"),
        ("{#path,x}/here", "#/foo/bar,1024/here"),
        ("X{.var}", "X.value"),
        ("X{.x,y}", "X.1024.768"),
        ("{/var}", "/value"),
        ("{/var,x}/here", "/value/1024/here"),
        ("{;x,y}", ";x=1024;y=768"),
        ("{;x,y,empty}", ";x=1024;y=768;empty"),
        ("{?x,y}", "?x=1024&y=768"),
        ("{?x,y,empty}", "?x=1024&y=768&empty="),
        ("?fixed=yes{&x}", "?fixed=yes&x=1024"),
        ("{&x,y,empty}", "&x=1024&y=768&empty="),
        ("{undef}|{?undef,x}", "%7C?x=1024"),
    ];
    for (text, expanded) in rows {
        assert_eq!(template(text).expand(&given).as_deref(), Ok(expanded), "{text}");
    }
}

/// RES-17: what is no template, or beyond level 3, is refused.
#[test]
fn bad_templates_are_refused() {
    for bad in [
        "{",
        "}",
        "a{b",
        "a}b",
        "{}",
        "{a b}",
        "{a,}",
        "{=a}",
        "{a:3}",
        "{a*}",
        "{a-b}",
        "{{a}}",
        "{.}",
        "{é}",
        &"{a}-".repeat(32),
    ] {
        assert!(UriTemplate::parse(bad).is_err(), "{bad}");
    }
}

/// Template, address, and the values where it matches.
type Row = (&'static str, &'static str, Option<&'static [(&'static str, &'static str)]>);

#[test]
fn addresses_are_matched() {
    let rows: &[Row] = &[
        ("a://b", "a://b", Some(&[])),
        ("a://b", "a://bc", None),
        ("note://{id}", "note://7", Some(&[("id", "7")])),
        ("note://{id}", "note://", None),
        ("note://{id}", "note://7/8", None),
        ("f:///{dir}/{name}.json", "f:///d/a.b.json", Some(&[("dir", "d"), ("name", "a.b")])),
        ("f:///{name}", "f:///a%20b%2Fc", Some(&[("name", "a b/c")])),
        ("f:///{+path}", "f:///a/b/c", Some(&[("path", "a/b/c")])),
        ("{a}-{b}", "x-y-z", Some(&[("a", "x-y"), ("b", "z")])),
        ("{a,b}", "1,2", Some(&[("a", "1"), ("b", "2")])),
        ("x{/a,b}", "x/1/2", Some(&[("a", "1"), ("b", "2")])),
        ("x{/a}{/b}", "x/1", Some(&[("a", "1")])),
        ("x{/a}/end", "x/1/end", Some(&[("a", "1")])),
        ("x{.a,b}", "x.tar.gz", Some(&[("a", "tar"), ("b", "gz")])),
        ("x{#f}", "x#part/1", Some(&[("f", "part/1")])),
        ("x{#f}", "x", Some(&[])),
        ("x{?a,b}", "x?b=2&a=1", Some(&[("a", "1"), ("b", "2")])),
        ("x{?a}{&b}", "x?a=1&b=%26", Some(&[("a", "1"), ("b", "&")])),
        ("x{?a}", "x?c=1", None),
        ("x{?a}", "x?a=1&a=2", None),
        ("x{;a,b}", "x;a=1;b", Some(&[("a", "1"), ("b", "")])),
        ("{a}/{a}", "1/1", Some(&[("a", "1")])),
        ("{a}/{a}", "1/2", None),
    ];
    for (text, uri, expected) in rows {
        assert_eq!(template(text).matches(uri), Ok(expected.map(values)), "{text} {uri}");
    }
}

/// T17: what climbs out or smuggles is refused after decoding, on both ways.
#[test]
fn dangerous_values_are_refused() {
    let plain = template("f:///{name}");
    for uri in [
        "f:///..",
        "f:///%2e%2E",
        "f:///a%2F..%2Fb",
        "f:///..%5Cb",
        "f:///%252e%252e",
        "f:///a%00",
        "f:///a%0d%0a",
        "f:///%7f",
        "f:///%zz",
        "f:///%f",
        "f:///%ff",
    ] {
        assert_eq!(plain.matches(uri).unwrap_err().at, "/name", "{uri}");
    }
    for uri in ["f:///a..b", "f:///...", "f:///.", "f:///%C3%A9"] {
        assert!(plain.matches(uri).unwrap().is_some(), "{uri}");
    }
    assert!(template("f:///{+path}").matches("f:///a/../b").is_err());
    assert!(template("x{?q}").matches("x?q=a%00").is_err());
    for value in ["..", "a/../b", "a\u{0}", "a\r\nb", "%2e%2e"] {
        assert!(plain.expand(&values(&[("name", value)])).is_err(), "{value:?}");
    }
}

/// T18: many variables side by side cost no more than their number for each byte.
#[test]
fn matching_is_linear() {
    let names: Vec<String> = (0..20).map(|n| format!("{{v{n}}}")).collect();
    let hostile = template(&format!("{}!", names.concat()));
    assert_eq!(hostile.matches(&"a".repeat(MAX_URI_BYTES)), Ok(None));
    assert_eq!(hostile.matches(&"a".repeat(MAX_URI_BYTES + 1)), Ok(None));
    assert_eq!(hostile.matches(&format!("{}!", "a".repeat(1000))).unwrap().unwrap().len(), 20);
}

proptest! {
    /// T17: what was expanded matches back to the same values, whatever they are.
    #[test]
    fn expansion_matches_back(a in "\\PC{1,12}", b in "[^\\p{C}]{1,12}", which in 0usize..6) {
        let text = ["x://{a}/{b}", "x://h{/a,b}", "x://h{?a,b}", "x://h/{a,b}", "x://h/{a}{#b}", "x://h{;a,b}"][which];
        let given = values(&[("a", &a), ("b", &b)]);
        if let Ok(uri) = template(text).expand(&given) {
            prop_assert!(uri.starts_with("x://"));
            let tail = &uri["x://".len()..];
            prop_assert!(tail.bytes().all(|byte| byte.is_ascii_graphic()));
            // A fragment keeps percent triplets as they are, so a value that holds one reads back decoded.
            if which != 4 || !b.contains('%') {
                prop_assert_eq!(template(text).matches(&uri).unwrap(), Some(given));
            }
        }
    }

    #[test]
    fn no_input_panics(text in "\\PC{0,40}", uri in "\\PC{0,40}") {
        if let Ok(parsed) = UriTemplate::parse(&text) {
            let _ = parsed.matches(&uri);
        }
    }
}
