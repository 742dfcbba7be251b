//! Header and body of a modern POST: what must agree, and which difference is told first.

#![allow(clippy::unwrap_used)] // helpers of tests are tests too
#![allow(clippy::type_complexity)] // rows of tables are tuples

use cardan_proto::http::agree::{
    BodyFacts, BodyKind, Meta, Offered, ParamHeaders, Refusal, agree, name_member,
};
use cardan_proto::http::headers::{MCP_METHOD, MCP_NAME, MCP_PROTOCOL_VERSION, Malformed};
use cardan_proto::http::param::{Mirrors, Mismatch};
use cardan_proto::http::value::{self, BadValue};
use cardan_proto::jsonrpc::envelope::Param;
use cardan_proto::method::Method;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use proptest::prelude::*;
use serde_json::{Value, json};

fn body() -> BodyFacts<'static> {
    BodyFacts {
        kind: BodyKind::Call,
        method: Some(&Method::ToolsCall),
        name: Some("add"),
        meta_version: Some("new"),
        meta: Meta::Complete,
        params: None,
    }
}

const GOOD: &[(&str, &str)] =
    &[("MCP-Protocol-Version", "new"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "add")];

fn run(body: &BodyFacts<'_>, head: &[(&str, &str)]) -> Result<(), Refusal> {
    params(body, head).map(drop)
}

/// The same, and whether there are headers of parameters.
fn params(body: &BodyFacts<'_>, head: &[(&str, &str)]) -> Result<ParamHeaders, Refusal> {
    let mut headers = HeaderMap::new();
    for (name, value) in head {
        let name: HeaderName = name.parse().unwrap();
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    let offered = |yes: bool| if yes { Offered::Yes } else { Offered::No };
    agree(
        body,
        &headers,
        |version| offered(version == "new"),
        |method| offered(!method.name().starts_with("no/")),
    )
}

/// The good head with one header set to some values.
fn with<'a>(name: &str, values: &[&'a str]) -> Vec<(&'a str, &'a str)> {
    let mut head: Vec<(&str, &str)> = Vec::new();
    for (good, value) in GOOD {
        if good.eq_ignore_ascii_case(name) {
            head.extend(values.iter().map(|value| (*good, *value)));
        } else {
            head.push((good, value));
        }
    }
    head
}

fn differs(header: HeaderName, says: &str) -> Result<(), Refusal> {
    Err(Refusal::Differs { header, says: says.to_owned() })
}

/// HTM-1, HTM-7, HTM-8: the head that a client sends.
#[test]
fn agreeing_call_passes() {
    assert_eq!(run(&body(), GOOD), Ok(()));
    let list = BodyFacts { method: Some(&Method::ToolsList), name: None, ..body() };
    assert_eq!(run(&list, &[("mcp-protocol-version", "new"), ("MCP-METHOD", "tools/list")]), Ok(()));
}

/// INT-1: whoever passes headers on learns whether there are any, whatever the case of their names.
#[test]
fn headers_of_parameters_are_noticed() {
    assert_eq!(params(&body(), GOOD), Ok(ParamHeaders::Absent));
    for (header, found) in [
        ("Mcp-Param-X", ParamHeaders::Present),
        ("MCP-PARAM-x", ParamHeaders::Present),
        ("Mcp-Parameter", ParamHeaders::Absent),
        ("X-Mcp-Param-X", ParamHeaders::Absent),
    ] {
        assert_eq!(params(&body(), &[GOOD, &[(header, "1")]].concat()), Ok(found), "{header}");
    }
}

/// HTM-8, TSKE-17: which methods are mirrored by name, and from where.
#[test]
fn name_is_mirrored_for_three_methods_and_those_of_tasks() {
    let table = [
        ("tools/call", Some(Param::Name)),
        ("prompts/get", Some(Param::Name)),
        ("resources/read", Some(Param::Uri)),
        ("tasks/get", Some(Param::TaskId)),
        ("tasks/update", Some(Param::TaskId)),
        ("tasks/cancel", Some(Param::TaskId)),
        ("tools/list", None),
        ("resources/subscribe", None),
        ("Tools/Call", None),
    ];
    for (method, member) in table {
        assert_eq!(name_member(&Method::parse(method)), member, "{method}");
    }
}

/// HTM-2, HTM-3, HTM-10, HTM-11, HTM-12, HTM-13, HTM-14: one header at a time.
#[test]
fn each_header_is_checked() {
    let missing = |header| Err(Refusal::Missing { header });
    let repeated = |header| Err(Refusal::Malformed { header, why: Malformed::Repeated });
    let characters = |header| Err(Refusal::Malformed { header, why: Malformed::Characters });
    let table: Vec<(&str, &[&str], Result<(), Refusal>)> = vec![
        ("mcp-protocol-version", &[" new\t"], Ok(())),
        ("mcp-protocol-version", &[], missing(MCP_PROTOCOL_VERSION)),
        ("mcp-protocol-version", &["old"], differs(MCP_PROTOCOL_VERSION, "old")),
        ("mcp-protocol-version", &["NEW"], differs(MCP_PROTOCOL_VERSION, "NEW")),
        ("mcp-protocol-version", &[""], differs(MCP_PROTOCOL_VERSION, "")),
        ("mcp-protocol-version", &["new", "new"], repeated(MCP_PROTOCOL_VERSION)),
        ("mcp-protocol-version", &["n\u{e9}w"], characters(MCP_PROTOCOL_VERSION)),
        ("mcp-method", &["  tools/call  "], Ok(())),
        ("mcp-method", &[], missing(MCP_METHOD)),
        ("mcp-method", &["TOOLS/CALL"], differs(MCP_METHOD, "TOOLS/CALL")),
        ("mcp-method", &["tools/list"], differs(MCP_METHOD, "tools/list")),
        ("mcp-method", &["tools/call", "tools/call"], repeated(MCP_METHOD)),
        ("mcp-name", &["  add "], Ok(())),
        ("mcp-name", &["=?base64?YWRk?="], Ok(())),
        ("mcp-name", &[], missing(MCP_NAME)),
        ("mcp-name", &["Add"], differs(MCP_NAME, "Add")),
        ("mcp-name", &["=?base64?QWRk?="], differs(MCP_NAME, "Add")),
        ("mcp-name", &["=?BASE64?YWRk?="], differs(MCP_NAME, "=?BASE64?YWRk?=")),
        ("mcp-name", &["=?base64?YWR?="], Err(Refusal::Value { header: MCP_NAME, why: BadValue::Base64 })),
        ("mcp-name", &["\u{e4}dd"], Err(Refusal::Value { header: MCP_NAME, why: BadValue::Characters })),
        ("mcp-name", &["add", "add"], repeated(MCP_NAME)),
    ];
    for (name, values, want) in table {
        let got = run(&body(), &with(name, values));
        if let Err(refusal) = &got {
            assert_eq!((refusal.status(), refusal.code()), (StatusCode::BAD_REQUEST, -32020), "{refusal}");
        }
        assert_eq!(got, want, "{name} {values:?}");
    }
}

/// HTM-9: an unsafe name is compared by what it stands for.
#[test]
fn unsafe_name_is_decoded_first() {
    let facts = BodyFacts { name: Some("größe "), ..body() };
    let encoded = value::encode("größe ");
    assert_eq!(run(&facts, &with("mcp-name", &[encoded.to_str().unwrap()])), Ok(()));
}

/// A named call whose body has no name: the header differs from it; without either, it is missing.
#[test]
fn name_absent_from_the_body() {
    let nameless = BodyFacts { name: None, ..body() };
    assert_eq!(run(&nameless, GOOD), differs(MCP_NAME, "add"));
    assert_eq!(run(&nameless, &with("mcp-name", &[])), Err(Refusal::Missing { header: MCP_NAME }));
}

/// HTM-3, HTM-4, HTM-5, HTM-10, VER-16, VER-17: all faults at once, then one less each time: the order of the
/// checks.
#[test]
fn checks_run_in_order() {
    let schema = json!({"properties": {"a": {"type": "string", "x-mcp-header": "A"}}});
    let mirrors = Mirrors::collect(&schema).unwrap();
    let arguments: Value = json!({"a": "x"});
    let params = Some((&mirrors, &arguments));
    let old = "2999";
    let unknown = Method::parse("no/such");
    let wrong: &[(&str, &str)] = &[("mcp-protocol-version", "other"), ("mcp-method", "x"), ("mcp-name", "x")];
    let bad = BodyFacts {
        meta_version: Some(old),
        meta: Meta::Lacks("clientCapabilities"),
        method: Some(&unknown),
        params,
        ..body()
    };

    let complete = BodyFacts { meta: Meta::Complete, ..bad };
    let served = BodyFacts { meta_version: Some("new"), ..complete };
    let tool = BodyFacts { params, ..body() };
    let says = |header, says: &str| Refusal::Differs { header, says: says.to_owned() };
    let param = HeaderName::from_static("mcp-param-a");
    let steps: Vec<(BodyFacts<'_>, Vec<(&str, &str)>, Refusal, u16, i64)> = vec![
        (bad, wrong.to_vec(), Refusal::Meta { field: "clientCapabilities" }, 400, -32602),
        (
            BodyFacts { meta_version: None, ..complete },
            wrong.to_vec(),
            Refusal::Meta { field: "protocolVersion" },
            400,
            -32602,
        ),
        (complete, wrong.to_vec(), says(MCP_PROTOCOL_VERSION, "other"), 400, -32020),
        (
            complete,
            vec![("mcp-protocol-version", old), ("mcp-method", "x")],
            Refusal::Version { requested: old.to_owned() },
            400,
            -32022,
        ),
        (
            served,
            vec![("mcp-protocol-version", "new"), ("mcp-method", "x")],
            says(MCP_METHOD, "x"),
            400,
            -32020,
        ),
        (
            served,
            vec![("mcp-protocol-version", "new"), ("mcp-method", "no/such")],
            Refusal::Method { method: unknown.clone() },
            404,
            -32601,
        ),
        (tool, with("mcp-name", &["x"]), says(MCP_NAME, "x"), 400, -32020),
        (tool, GOOD.to_vec(), Refusal::Param(Mismatch::Missing { header: param }), 400, -32020),
    ];
    for (facts, head, want, status, code) in steps {
        let got = run(&facts, &head).unwrap_err();
        assert_eq!(got, want);
        assert_eq!((got.status().as_u16(), got.code()), (status, code), "{got}");
    }
    let mut head = GOOD.to_vec();
    head.push(("mcp-param-a", "x"));
    assert_eq!(run(&tool, &head), Ok(()));
}

/// HTM-25: nothing is missed on a note.
#[test]
fn note_needs_no_headers() {
    let note = BodyFacts {
        kind: BodyKind::Note,
        method: Some(&Method::Cancelled),
        name: None,
        meta_version: None,
        meta: Meta::Lacks("protocolVersion"),
        params: None,
    };
    assert_eq!(run(&note, &[]), Ok(()));
    assert_eq!(run(&note, &[("mcp-method", "other"), ("mcp-method", "other")]), Ok(()));
}

/// HTTP-9, BASE-31: modern clients post no replies.
#[test]
fn reply_is_refused() {
    let reply = BodyFacts { kind: BodyKind::Reply, method: None, name: None, ..body() };
    let refusal = run(&reply, GOOD).unwrap_err();
    assert_eq!((&refusal, refusal.status().as_u16(), refusal.code()), (&Refusal::Reply, 400, -32600));
}

/// A hostile value does not make a long error.
#[test]
fn foreign_text_in_errors_is_short() {
    let long = "x".repeat(100_000);
    let refusal = run(&body(), &with("mcp-name", &[&long])).unwrap_err();
    assert!(refusal.to_string().len() < 400, "{}", refusal.to_string().len());
}

proptest! {
    /// HTM-9, HTM-11: a name passes with its own value and with no other.
    #[test]
    fn name_passes_with_its_own_value_only(name in ".*", other in ".*") {
        let facts = BodyFacts { name: Some(&name), ..body() };
        let own = value::encode(&name);
        prop_assert_eq!(run(&facts, &with("mcp-name", &[own.to_str().unwrap()])), Ok(()));
        let foreign = value::encode(&other);
        let got = run(&facts, &with("mcp-name", &[foreign.to_str().unwrap()]));
        prop_assert_eq!(got.is_ok(), name == other);
    }
}
