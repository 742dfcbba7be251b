//! Tool parameters mirrored to headers: annotations, derived headers, comparison.

#![allow(clippy::unwrap_used)] // helpers of tests are tests too
#![allow(clippy::type_complexity)] // rows of tables are tuples

use cardan_proto::http::headers::Malformed;
use cardan_proto::http::param::{Kind, Mirrors, Mismatch, Reason, UnfitReason, sift};
use cardan_proto::http::value::BadValue;
use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use serde_json::{Value, json};

fn tool() -> Mirrors {
    Mirrors::collect(&json!({
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "limit": {"type": "integer", "x-mcp-header": "Limit"},
            "dry": {"type": "boolean", "x-mcp-header": "Dry-Run"},
            "plain": {"type": "string"},
            "nested": {
                "type": "object",
                "properties": {"deep/er": {"type": "string", "x-mcp-header": "Method"}}
            }
        }
    }))
    .unwrap()
}

fn head(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        let name: HeaderName = name.parse().unwrap();
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    headers
}

fn derived(arguments: &Value) -> Vec<(String, String)> {
    let headers = tool().derive(arguments).unwrap();
    headers.into_iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect()
}

/// XMH-1, XMH-6, XMH-22: annotations are found at every depth of `properties`, `Method` included.
#[test]
fn collect_finds_path_header_and_type() {
    let mirrors = tool();
    let found: Vec<_> =
        mirrors.iter().map(|m| (m.path.join(" > "), m.header.as_str().to_owned(), m.kind)).collect();
    let mut want = vec![
        ("region".to_owned(), "mcp-param-region".to_owned(), Kind::String),
        ("limit".to_owned(), "mcp-param-limit".to_owned(), Kind::Integer),
        ("dry".to_owned(), "mcp-param-dry-run".to_owned(), Kind::Boolean),
        ("nested > deep/er".to_owned(), "mcp-param-method".to_owned(), Kind::String),
    ];
    want.sort_by(|a, b| a.0.cmp(&b.0));
    let mut found = found;
    found.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(found, want);
    assert!(Mirrors::collect(&json!({"type": "object"})).unwrap().is_empty());
    assert!(Mirrors::collect(&json!(true)).unwrap().is_empty());
}

/// A property may be called like the annotation, and data may look like it.
#[test]
fn collect_does_not_take_names_and_data_for_annotations() {
    let schema = json!({
        "properties": {
            "x-mcp-header": {"type": "string"},
            "a": {"type": "string", "default": {"x-mcp-header": "A"}, "enum": [{"x-mcp-header": 1}]},
            "properties": {"type": "object", "properties": {"items": {"type": "string", "x-mcp-header": "I"}}}
        },
        "examples": [{"x-mcp-header": ""}]
    });
    let mirrors = Mirrors::collect(&schema).unwrap();
    let paths: Vec<_> = mirrors.iter().map(|m| m.path.clone()).collect();
    assert_eq!(paths, [["properties", "items"]]);
}

/// XMH-4: null beside the type is an absent value, not another type.
#[test]
fn collect_admits_nullable_types() {
    let schema = json!({"properties": {"a": {"type": ["integer", "null"], "x-mcp-header": "A"}}});
    assert_eq!(Mirrors::collect(&schema).unwrap().iter().next().unwrap().kind, Kind::Integer);
}

/// XMH-2, XMH-3, XMH-4: what an annotation may be, and on what.
#[test]
fn collect_refuses_bad_annotations() {
    let of = |annotation: Value, kind: Value| {
        let schema = json!({"properties": {"a": {"type": kind, "x-mcp-header": annotation}}});
        let defect = Mirrors::collect(&schema).unwrap_err();
        assert_eq!(defect.at, "/properties/a");
        defect.reason
    };
    assert_eq!(of(json!(""), json!("string")), Reason::Empty);
    for bad in ["a b", "a:b", "é", "a\u{1}", "a\r\nb", "a/b", "(a)", "a\u{7f}", " a"] {
        assert_eq!(of(json!(bad), json!("string")), Reason::NotAToken, "{bad:?}");
    }
    assert_eq!(of(json!("a".repeat(70_000)), json!("string")), Reason::NotAToken);
    for bad in [json!(1), json!(null), json!(true), json!({}), json!(["A"])] {
        assert_eq!(of(bad, json!("string")), Reason::NotText);
    }
    assert_eq!(of(json!("A"), json!("number")), Reason::Number);
    assert_eq!(of(json!("A"), json!(["number", "null"])), Reason::Number);
    for bad in ["object", "array", "null", "String", ""] {
        assert_eq!(of(json!("A"), json!(bad)), Reason::NotScalar, "{bad}");
    }
    for bad in [json!(null), json!([]), json!(["null"]), json!(["string", "integer"])] {
        assert_eq!(of(json!("A"), bad.clone()), Reason::NotScalar, "{bad}");
    }
    let untyped = json!({"properties": {"a": {"x-mcp-header": "A"}}});
    assert_eq!(Mirrors::collect(&untyped).unwrap_err().reason, Reason::NotScalar);
}

/// XMH-3: unique ignoring case, across nesting.
#[test]
fn collect_refuses_duplicates_ignoring_case() {
    let schema = json!({"properties": {
        "a": {"type": "string", "x-mcp-header": "Region"},
        "b": {"type": "object", "properties": {"c": {"type": "integer", "x-mcp-header": "REGION"}}}
    }});
    assert_eq!(Mirrors::collect(&schema).unwrap_err().reason, Reason::Duplicate);
}

/// XMH-6: not through arrays, composition, conditionals or references.
#[test]
fn collect_refuses_what_properties_alone_do_not_reach() {
    let one = || json!({"properties": {"a": {"type": "string", "x-mcp-header": "A"}}});
    for keyword in [
        "items",
        "prefixItems",
        "additionalItems",
        "unevaluatedItems",
        "contains",
        "additionalProperties",
        "unevaluatedProperties",
        "propertyNames",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "then",
        "else",
        "contentSchema",
    ] {
        for inner in [one(), json!([true, one()]), one()["properties"]["a"].clone()] {
            let schema = json!({"properties": {"p": {"properties": {"q": {keyword: inner}}}}});
            assert_eq!(Mirrors::collect(&schema).unwrap_err().reason, Reason::Through(keyword), "{keyword}");
        }
    }
    for keyword in ["patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"] {
        let schema = json!({"properties": {"p": {"$ref": "#/x"}}, keyword: {"n": one()}});
        let defect = Mirrors::collect(&schema).unwrap_err();
        assert_eq!(defect.reason, Reason::Through(keyword), "{keyword}");
        assert!(defect.to_string().contains(keyword), "{defect}");
    }
    let root = json!({"type": "string", "x-mcp-header": "A"});
    assert_eq!(Mirrors::collect(&root).unwrap_err().reason, Reason::Root);
}

/// XMH-7, XMH-8: the bad tool is dropped with its reason, the others stay.
#[test]
fn sift_drops_only_the_bad_tool_and_says_why() {
    let tools = [
        ("good", json!({"properties": {"a": {"type": "string", "x-mcp-header": "A"}}})),
        ("bad", json!({"properties": {"a": {"type": "number", "x-mcp-header": "A"}}})),
        ("plain", json!({})),
    ];
    let sifted = sift(tools, |(_, schema)| schema);
    let kept: Vec<_> = sifted.kept.iter().map(|((name, _), mirrors)| (*name, mirrors.is_empty())).collect();
    assert_eq!(kept, [("good", false), ("plain", true)]);
    let [((name, _), defect)] = &sifted.dropped[..] else { panic!("one tool is dropped") };
    assert_eq!(*name, "bad");
    assert_eq!(
        defect.to_string(),
        "x-mcp-header at /properties/a of the input schema is on a number, use integer or string"
    );
}

/// XMH-9, XMH-10, XMH-11, XMH-12, XMH-13: which headers a call gets.
#[test]
fn derive_spells_present_values_only() {
    let mut all = derived(
        &json!({"region": "eu", "limit": -3, "dry": false, "plain": "x", "nested": {"deep/er": "d"}}),
    );
    all.sort();
    let want = [
        ("mcp-param-dry-run", "false"),
        ("mcp-param-limit", "-3"),
        ("mcp-param-method", "d"),
        ("mcp-param-region", "eu"),
    ];
    assert_eq!(all, want.map(|(n, v)| (n.to_owned(), v.to_owned())));

    let region = |arguments: Value| derived(&arguments).into_iter().map(|(_, v)| v).collect::<Vec<_>>();
    assert_eq!(region(json!({"region": ""})), [""]);
    assert_eq!(region(json!({"region": "two words"})), ["two words"]);
    assert_eq!(region(json!({"region": " x"})), ["=?base64?IHg=?="]);
    assert_eq!(region(json!({"limit": 42.0})), ["42"]);
    assert_eq!(region(json!({"dry": true})), ["true"]);
    for none in [
        json!({}),
        json!(null),
        json!({"region": null, "limit": null, "dry": null}),
        json!({"nested": null}),
        json!({"nested": "flat"}),
        json!({"deep/er": "at the root"}),
        json!([]),
    ] {
        assert_eq!(derived(&none), [], "{none}");
    }
}

/// XMH-5: what no header can carry is an error, not a wrong header.
#[test]
fn derive_refuses_what_does_not_fit() {
    let unfit = |arguments: Value| tool().derive(&arguments).unwrap_err();
    for number in
        [json!(9_007_199_254_740_992_i64), json!(-9_007_199_254_740_992_i64), json!(u64::MAX), json!(1.5)]
    {
        assert_eq!(unfit(json!({"limit": number})).reason, UnfitReason::Number);
    }
    assert!(tool().derive(&json!({"limit": 9_007_199_254_740_991_i64})).is_ok());
    let found = unfit(json!({"nested": {"deep/er": []}}));
    assert_eq!((found.path.as_str(), found.reason), ("/nested/deep~1er", UnfitReason::Compound));
}

/// XMH-14, XMH-15, XMH-16, XMH-17, XMH-18, HTM-13, HTM-14: the server's comparison.
#[test]
fn compare_accepts_equal_and_refuses_different() {
    let h = |name: &str| name.parse::<HeaderName>().unwrap();
    let region = || h("mcp-param-region");
    let differs = |name: &str| Err(Mismatch::Differs { header: h(name) });
    let table: Vec<(Value, Vec<(&str, &str)>, Result<(), Mismatch>)> = vec![
        (json!({"region": "Hello"}), vec![("Mcp-Param-Region", "Hello")], Ok(())),
        (json!({"region": "Hello"}), vec![("MCP-PARAM-REGION", "  Hello\t")], Ok(())),
        (json!({"region": "Hello"}), vec![("mcp-param-region", "=?base64?SGVsbG8=?=")], Ok(())),
        (json!({"region": "=?base64?SGVsbG8="}), vec![("mcp-param-region", "=?base64?SGVsbG8=")], Ok(())),
        (json!({"region": "SGVsbG8=?="}), vec![("mcp-param-region", "SGVsbG8=?=")], Ok(())),
        (json!({"region": ""}), vec![("mcp-param-region", "")], Ok(())),
        (json!({"region": "Hello"}), vec![("mcp-param-region", "hello")], differs("mcp-param-region")),
        (json!({"region": "a"}), vec![], Err(Mismatch::Missing { header: region() })),
        (json!({"region": null}), vec![], Ok(())),
        (json!({}), vec![], Ok(())),
        (json!({}), vec![("mcp-param-region", "a")], Err(Mismatch::Surplus { header: region() })),
        (json!({}), vec![("mcp-param-unknown", "\u{e9}")], Ok(())),
        (
            json!({"region": "a"}),
            vec![("mcp-param-region", "a"), ("mcp-param-region", "a")],
            Err(Mismatch::Malformed { header: region(), why: Malformed::Repeated }),
        ),
        (
            json!({"region": "Hello"}),
            vec![("mcp-param-region", "=?base64?SGVsbG8?=")],
            Err(Mismatch::Value { header: region(), why: BadValue::Base64 }),
        ),
        (
            json!({"region": "é"}),
            vec![("mcp-param-region", "é")],
            Err(Mismatch::Value { header: region(), why: BadValue::Characters }),
        ),
        (json!({"limit": 42}), vec![("mcp-param-limit", "42.0")], Ok(())),
        (json!({"limit": 42.0}), vec![("mcp-param-limit", "42")], Ok(())),
        (json!({"limit": 42}), vec![("mcp-param-limit", "43")], differs("mcp-param-limit")),
        (json!({"limit": 42}), vec![("mcp-param-limit", "042")], differs("mcp-param-limit")),
        (json!({"limit": "42"}), vec![("mcp-param-limit", "42.0")], differs("mcp-param-limit")),
        (json!({"dry": true}), vec![("mcp-param-dry-run", "true")], Ok(())),
        (json!({"dry": true}), vec![("mcp-param-dry-run", "True")], differs("mcp-param-dry-run")),
        (json!({"dry": false}), vec![("mcp-param-dry-run", "true")], differs("mcp-param-dry-run")),
    ];
    for (arguments, headers, want) in table {
        assert_eq!(tool().compare(&arguments, &head(&headers)), want, "{arguments} {headers:?}");
    }
    let out_of_bounds = json!({"limit": 9_007_199_254_740_992_i64});
    let sent = head(&[("mcp-param-limit", "9007199254740992")]);
    assert!(matches!(tool().compare(&out_of_bounds, &sent), Err(Mismatch::Unfit(_))));
}

proptest! {
    /// XMH-16: what a client derives, a server finds equal.
    #[test]
    fn compare_accepts_what_derive_made(
        region in prop::option::of(".*"),
        limit in prop::option::of(-9_007_199_254_740_991_i64..=9_007_199_254_740_991),
        dry in any::<Option<bool>>(),
    ) {
        let arguments = json!({"region": region, "limit": limit, "dry": dry});
        let headers: HeaderMap = tool().derive(&arguments).unwrap().into_iter().collect();
        prop_assert_eq!(tool().compare(&arguments, &headers), Ok(()));
    }
}
