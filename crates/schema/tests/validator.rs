//! What is checked, what is refused, and what it may cost.

use std::time::{Duration, Instant};

use cardan_proto::model::{Flaw, Schema};
use cardan_schema::{SchemaError, Validator};
use serde_json::{Value, json};

fn compile(schema: &Value) -> Result<Validator, SchemaError> {
    Validator::compile(&Schema::from(schema))
}

fn flaws(schema: &Value, value: &Value) -> Vec<Flaw> {
    compile(schema).expect("the schema is good").check(value)
}

/// JSCH-1: 2020-12 when no dialect is named: `prefixItems` and `dependentRequired` count.
#[test]
fn without_a_dialect_it_is_2020_12() {
    let schema = json!({
        "type": "object",
        "properties": { "pair": { "prefixItems": [{ "type": "string" }, { "type": "integer" }] } },
        "dependentRequired": { "a": ["b"] },
    });
    assert_eq!(flaws(&schema, &json!({ "pair": ["x", 1], "a": 1, "b": 2 })), []);
    assert_eq!(flaws(&schema, &json!({ "pair": ["x", "y"] }))[0].at, "/pair/1");
    assert_eq!(flaws(&schema, &json!({ "a": 1 }))[0].at, "");
}

/// JSCH-2: a schema is checked by the dialect it names, and an unknown one is refused in clear words.
#[test]
fn dialects_are_told_apart() {
    let tuple = json!({ "items": [{ "type": "string" }] });
    assert!(matches!(compile(&tuple), Err(SchemaError::Invalid { .. })), "2020-12 has no list of items");
    let mut old = tuple;
    old["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    assert_eq!(flaws(&old, &json!([1]))[0].at, "/0");
    for odd in [json!("https://example.com/my-dialect"), json!(""), json!(7)] {
        let error = compile(&json!({ "$schema": odd })).unwrap_err();
        assert!(matches!(error, SchemaError::Dialect(_)), "{error}");
        assert!(error.to_string().contains("2020-12"), "{error}");
    }
}

/// JSCH-3: what is no schema is refused with its place.
#[test]
fn schemas_are_checked_themselves() {
    let error = compile(&json!({ "properties": { "a": { "type": "strnig" } } })).unwrap_err();
    assert!(matches!(&error, SchemaError::Invalid { at, .. } if at.starts_with("/properties/a")), "{error}");
    assert!(compile(&json!("string")).is_err());
    assert!(compile(&json!(true)).is_ok());
}

/// JSCH-4, JSCH-5: what lies outside is never fetched, and a schema that needs it is refused.
#[test]
fn outside_references_are_refused() {
    let outside = [
        "https://example.com/schema.json",
        "http://169.254.169.254/latest",
        "file:///etc/passwd",
        "other.json",
        "//example.com/x",
        "#/$defs/missing",
        "#nowhere",
        "#/%zz",
    ];
    let start = Instant::now();
    for to in outside {
        for keyword in ["$ref", "$dynamicRef"] {
            let schema = json!({ "properties": { "a": { keyword: to } } });
            let error = compile(&schema).unwrap_err();
            assert!(matches!(&error, SchemaError::Reference(named) if named == to), "{to}: {error}");
        }
    }
    assert!(start.elapsed() < Duration::from_secs(2), "nothing was waited for");
}

#[test]
fn references_inside_work() {
    let schema = json!({
        "$id": "https://example.com/root",
        "$defs": {
            "n": { "$anchor": "num", "type": "integer" },
            "a/b": { "type": "string" },
            "own": { "$id": "https://example.com/own", "$defs": { "x": { "type": "null" } }, "$ref": "#/$defs/x" },
        },
        "properties": {
            "a": { "$ref": "#/$defs/n" },
            "b": { "$ref": "#num" },
            "c": { "$ref": "#/$defs/a~1b" },
            "d": { "$ref": "#/%24defs/n" },
            "e": { "$ref": "https://example.com/own" },
            "f": { "$ref": "https://example.com/root#/$defs/n" },
            "g": { "$ref": "https://json-schema.org/draft/2020-12/schema" },
        },
    });
    let good = json!({ "a": 1, "b": 1, "c": "x", "d": 1, "e": null, "f": 1, "g": { "type": "string" } });
    assert_eq!(flaws(&schema, &good), []);
    for name in ["a", "b", "c", "d", "e", "f"] {
        assert_eq!(flaws(&schema, &json!({ name: [] }))[0].at, format!("/{name}"));
    }
    assert_eq!(flaws(&schema, &json!({ "g": { "type": 1 } }))[0].at, "/g/type");
}

/// Messages name the place, never the value: it may be a secret.
#[test]
fn flaws_hide_the_value() {
    let schema = json!({ "properties": { "pin": { "type": "string", "maxLength": 4 } } });
    let flaw = flaws(&schema, &json!({ "pin": "hunter2-secret" })).remove(0);
    assert_eq!(flaw.at, "/pin");
    assert!(!flaw.to_string().contains("hunter2"), "{flaw}");
}

/// A hundred definitions, each naming the next one twice.
fn doubling(levels: usize) -> Value {
    let mut defs = serde_json::Map::new();
    for level in 0..levels {
        let next = json!({ "$ref": format!("#/$defs/d{}", level + 1) });
        defs.insert(format!("d{level}"), json!({ "allOf": [next, next] }));
    }
    defs.insert(format!("d{levels}"), json!({ "type": "integer" }));
    json!({ "$ref": "#/$defs/d0", "$defs": defs })
}

/// JSCH-6, T18: depth, number and weight of subschemas are bounded before anything is checked.
#[test]
fn schema_bombs_are_refused() {
    let mut deep = json!({ "type": "integer" });
    for _ in 0..100 {
        deep = json!({ "not": deep });
    }
    let wide: Vec<_> = (0..9000).map(|_| json!({})).collect();
    let mut evaluated = json!({ "type": "object" });
    for _ in 0..24 {
        evaluated = json!({ "allOf": [evaluated], "unevaluatedProperties": false });
    }
    let hidden =
        json!({ "properties": { "default": { "$ref": "#/$defs/d0" } }, "$defs": doubling(20)["$defs"] });
    for bomb in [deep, json!({ "anyOf": wide }), doubling(100), doubling(20), evaluated, hidden] {
        let start = Instant::now();
        let error = compile(&bomb).unwrap_err();
        assert!(matches!(error, SchemaError::TooLarge(_)), "{error}");
        assert!(start.elapsed() < Duration::from_secs(1));
    }
    assert_eq!(flaws(&doubling(5), &json!(1)), []);
}

/// JSCH-6, T18: a schema that leads back to itself ends, and doubling itself costs nothing.
#[test]
fn loops_end() {
    assert_eq!(flaws(&json!({ "$ref": "#" }), &json!(1)), []);
    let again = json!({ "properties": { "a": { "$ref": "#" } } });
    let schema = json!({ "allOf": [again, again], "properties": { "leaf": { "type": "integer" } } });
    let validator = compile(&schema).unwrap();
    for (leaf, fits) in [(json!(1), true), (json!("x"), false)] {
        let mut value = json!({ "leaf": leaf });
        for _ in 0..100 {
            value = json!({ "a": value });
        }
        let start = Instant::now();
        assert_eq!(validator.check(&value).is_empty(), fits);
        assert!(start.elapsed() < Duration::from_secs(1), "took {:?}", start.elapsed());
    }
}

#[test]
fn trees_tell_the_place() {
    let schema = json!({
        "properties": { "name": { "type": "string" }, "children": { "type": "array", "items": { "$ref": "#" } } },
    });
    let tree = json!({ "name": "a", "children": [{ "name": "b" }, { "children": [{ "name": 1 }] }] });
    assert_eq!(flaws(&schema, &tree)[0].at, "/children/1/children/0/name");
}

/// JSCH-6: a value that would take too long is refused, not tried.
#[test]
fn large_values_are_refused() {
    let schema = json!({ "items": { "$ref": "#/$defs/d0" }, "$defs": doubling(12)["$defs"] });
    let value = Value::from(vec![1; 200_000]);
    let start = Instant::now();
    let found = flaws(&schema, &value);
    assert!(found[0].what.contains("too large"), "{found:?}");
    assert!(start.elapsed() < Duration::from_secs(1));
    let mut deep = json!(1);
    for _ in 0..200 {
        deep = json!([deep]);
    }
    assert!(flaws(&json!({}), &deep)[0].what.contains("too large"));
}

/// T18: patterns run in linear time; those that cannot are refused.
#[test]
fn patterns_are_linear() {
    let validator = compile(&json!({ "pattern": "^(a+)+$" })).unwrap();
    let time = |n: usize| {
        let text = json!(format!("{}!", "a".repeat(n)));
        let start = Instant::now();
        assert!(!validator.check(&text).is_empty());
        start.elapsed()
    };
    assert!(time(100_000) < Duration::from_secs(1));
    for backtracking in ["(?=a)b", "(a)\\1"] {
        for keyword in ["pattern", "patternProperties"] {
            let schema = if keyword == "pattern" {
                json!({ "pattern": backtracking })
            } else {
                json!({ "patternProperties": { backtracking: true } })
            };
            assert!(matches!(compile(&schema), Err(SchemaError::Invalid { .. })), "{schema}");
        }
    }
    assert!(compile(&json!({ "pattern": "(((a{1,1000}){1,1000}){1,1000})" })).is_err());
}
