//! Tests of forms and of answers to them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::elicit::{ElicitParams, ElicitResult};
use super::form::{Field, Form, StringFormat};

fn answer(content: Value) -> ElicitResult {
    serde_json::from_value(json!({ "action": "accept", "content": content })).unwrap()
}

fn whole_form() -> Form {
    Form::new("m")
        .string("zeta")
        .required("mail", Field::string().title("Mail").format(StringFormat::Email).length(Some(3), Some(20)))
        .optional("age", Field::integer().minimum(0).maximum(150).default(30))
        .optional("ratio", Field::number().maximum(1))
        .boolean("sure")
        .optional("colour", Field::choice(["red", "green"]).default("red"))
        .optional("size", Field::titled_choice([("s", "Small"), ("l", "Large")]))
        .optional("days", Field::choices(["mo", "tu"]).count(Some(1), Some(2)).default(vec!["mo"]))
        .optional("tags", Field::titled_choices([("a", "A")]).description("d"))
}

/// ELI-6: every kind of field, in the order of building, and the same read back.
#[test]
fn forms_are_flat_objects_in_order() {
    let form = whole_form();
    assert_eq!(form.check(), []);
    let text = serde_json::to_string(&form).unwrap();
    assert!(text.starts_with(
        r#"{"message":"m","requestedSchema":{"type":"object","properties":{"zeta":{"type":"string"},"mail":"#
    ));
    let value: Value = serde_json::from_str(&text).unwrap();
    let properties = &value["requestedSchema"]["properties"];
    assert_eq!(value["requestedSchema"]["required"], json!(["zeta", "mail", "sure"]));
    assert_eq!(properties["age"], json!({ "type": "integer", "minimum": 0, "maximum": 150, "default": 30 }));
    assert_eq!(properties["size"]["oneOf"][1], json!({ "const": "l", "title": "Large" }));
    assert_eq!(properties["days"]["items"], json!({ "type": "string", "enum": ["mo", "tu"] }));
    assert_eq!(properties["tags"]["items"], json!({ "anyOf": [{ "const": "a", "title": "A" }] }));
    assert_eq!(serde_json::from_str::<ElicitParams>(&text).unwrap(), ElicitParams::Form(form));
}

/// ELI-6: what is nested, empty or out of range is named.
#[test]
fn foreign_forms_are_checked() {
    let schema = json!({ "message": "m", "requestedSchema": { "type": "object", "required": ["b", "gone"], "properties": {
        "a": { "type": "object", "properties": { "x": { "type": "string" } } },
        "b": { "type": "array", "items": { "type": "string" } },
        "c": { "type": "integer", "maximum": 1, "default": 2 },
        "d": { "type": "boolean", "default": { "x": 1 } },
    } } });
    let form: ElicitParams = serde_json::from_value(schema).unwrap();
    let places: Vec<String> = form.check().into_iter().map(|flaw| flaw.at).collect();
    let at = |rest: &str| format!("/requestedSchema/{rest}");
    assert_eq!(
        places,
        [
            at("properties/a/type"),
            at("properties/b/items"),
            at("properties/c/default"),
            at("properties/d/default"),
            at("required")
        ]
    );
    for odd in [
        r#"{"type":"array","properties":{}}"#,
        r#"{"type":"object"}"#,
        r#"{"type":"object","properties":{"a":{}}}"#,
    ] {
        assert!(
            serde_json::from_str::<ElicitParams>(&format!(r#"{{"message":"m","requestedSchema":{odd}}}"#))
                .is_err()
        );
    }
}

/// ELI-12: each value is checked against its field, and told by its place.
#[test]
fn answers_are_checked_against_the_form() {
    let good = json!({ "zeta": "", "mail": "a@b.cd", "sure": false, "age": 30.0, "ratio": 0.5, "colour": "green",
        "size": "l", "days": ["mo", "tu"], "tags": [], "surplus": 1 });
    assert_eq!(whole_form().check_answer(&answer(good.clone())), []);
    let rows = [
        ("zeta", json!(1), "/content/zeta: is not of type string"),
        ("mail", json!("a@"), "/content/mail: is shorter than 3 characters"),
        ("mail", json!("a b@c"), "/content/mail: is not a mail address"),
        ("mail", json!("a@bbbbbbbbbbbbbbbbbbbbbb"), "/content/mail: is longer than 20 characters"),
        ("age", json!(1.5), "/content/age: is not of type integer"),
        ("age", json!(-1), "/content/age: is less than 0"),
        ("ratio", json!(1.01), "/content/ratio: is greater than 1"),
        ("sure", json!("yes"), "/content/sure: is not of type boolean"),
        ("colour", json!("blue"), "/content/colour: is not one of red, green"),
        ("size", json!("Large"), "/content/size: is not one of s, l"),
        ("days", json!([]), "/content/days: has fewer than 1 choices"),
        ("days", json!(["mo", "tu", "mo"]), "/content/days: has more than 2 choices"),
        ("tags", json!(["b"]), "/content/tags: is not one of a"),
        ("mail", json!(null), "/content/mail: is missing"),
    ];
    for (name, value, message) in rows {
        let mut content = good.clone();
        content[name] = value;
        let flaws: Vec<String> =
            whole_form().check_answer(&answer(content)).iter().map(ToString::to_string).collect();
        assert_eq!(flaws, [message]);
    }
}

/// ELI-12: formats.
#[test]
fn formats_are_checked() {
    let rows = [
        (StringFormat::Uri, "https://a/b", "a b"),
        (StringFormat::Date, "2024-02-29", "2025-02-29"),
        (StringFormat::DateTime, "2025-01-31T12:00:00Z", "2025-01-31"),
        (StringFormat::Email, "ä.b+c@sub.example.com", "a@b@c"),
        (StringFormat::Email, "a@b", "a@-b"),
    ];
    for (format, good, bad) in rows {
        let field = Field::string().format(format.clone());
        assert_eq!(field.check_value(&good.into()), None, "{good}");
        assert!(field.check_value(&bad.into()).is_some(), "{bad}");
    }
    assert_eq!(Field::string().format(StringFormat::parse("colour")).check_value(&"x".into()), None);
}

/// ELI-11: content belongs to an accepted form, and only there.
#[test]
fn content_goes_with_accept() {
    let form = Form::new("m").string("a");
    assert_eq!(form.check_answer(&ElicitResult::declined()), []);
    assert_eq!(form.check_answer(&ElicitResult::cancelled()), []);
    assert_eq!(form.check_answer(&ElicitResult::accepted())[0].at, "/content");
    let odd = ElicitResult { content: Some(BTreeMap::new()), ..ElicitResult::declined() };
    assert_eq!(form.check_answer(&odd)[0].at, "/content");
}

#[test]
fn a_field_is_replaced_by_name() {
    let form = Form::new("m").string("a").optional("a", Field::boolean());
    assert_eq!(form.requested_schema.properties.0.len(), 1);
    assert_eq!(form.requested_schema.required, Some(Vec::new()));
}
