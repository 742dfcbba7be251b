use cardan_proto::finding::Strictness;
use cardan_proto::jsonrpc::envelope::decode;
use cardan_proto::limits::Limits;
use cardan_proto::limits::replicas::{RECORD_BYTES, RECORD_GROWTH};

use super::*;

fn change(method: &Method, params: &str) -> Option<Change> {
    let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}","params":{params}}}"#, method.name());
    Change::of(&decode(&Bytes::from(call), Strictness::Standard, &Limits::DEFAULT))
}

fn empty() -> Record {
    Record {
        principal: None,
        revision: String::new(),
        initialize: RawValue::from_string("{}".into()).unwrap(),
        level: None,
        subscriptions: Vec::new(),
    }
}

/// F21: of a log level its name is written down, whatever else a client sends with it.
#[test]
fn f21_a_level_is_its_name() {
    let large = format!(r#"{{"_meta":{{"x":"{}"}},"level":"warning"}}"#, "x".repeat(RECORD_BYTES));
    let mut record = empty();
    assert!(change(&Method::LoggingSetLevel, &large).unwrap().apply(&mut record));
    assert_eq!(record.level.unwrap().get(), r#"{"level":"warning"}"#);
    for nonsense in [r#"{"level":"loud"}"#, r#"{"level":7}"#, "{}"] {
        assert_eq!(change(&Method::LoggingSetLevel, nonsense), None, "{nonsense}");
    }
    assert_eq!(change(&Method::Ping, "{}"), None);
}

/// F21: whatever is subscribed to, a record stays as small as a record may be.
#[test]
fn f21_subscriptions_are_bounded() {
    let mut record = empty();
    let subscribe = |uri: &str| {
        let params = serde_json::json!({ "uri": uri }).to_string();
        change(&Method::ResourcesSubscribe, &params).unwrap()
    };
    assert!(!subscribe(&"x".repeat(SUBSCRIPTION_BYTES)).apply(&mut record), "too large");
    assert!(subscribe("demo://a").apply(&mut record));
    assert!(!subscribe("demo://a").apply(&mut record), "it is known");
    let mut taken = 0;
    for number in 0..2 * SUBSCRIPTIONS {
        taken += usize::from(subscribe(&format!("{number}{}", "\u{1}".repeat(100))).apply(&mut record));
    }
    assert!(taken > 10 && taken < SUBSCRIPTIONS);
    assert!(serde_json::to_vec(&record).unwrap().len() < RECORD_GROWTH);
    let params = r#"{"uri":"demo://a"}"#;
    assert!(change(&Method::ResourcesUnsubscribe, params).unwrap().apply(&mut record));
    assert!(!change(&Method::ResourcesUnsubscribe, params).unwrap().apply(&mut record));
}
