//! What the client answers when it is asked: whatever fits.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

use cardan_client::{Answerers, Urls};
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::model::Content;
use cardan_proto::model::content::Role;
use cardan_proto::model::elicit::{ElicitParams, ElicitResult, ElicitValue};
use cardan_proto::model::form::{Field, FieldType};
use cardan_proto::model::roots::Root;
use cardan_proto::model::sampling::{Blocks, CreateMessageResult};

/// Forms, sampling and roots, so that all are declared.
pub(crate) fn all() -> Answerers {
    let roots = vec![Root::new("file:///conformance")];
    Answerers::default()
        .elicit(Urls::NotOffered, async |ask| elicited(&ask))
        .sample(async |_| Ok(sampled()))
        .roots(Arc::new(RwLock::new(roots)))
}

/// A form is accepted, with its defaults where it has them.
fn elicited(ask: &ElicitParams) -> Result<ElicitResult, Fault> {
    let ElicitParams::Form(form) = ask else { return Ok(ElicitResult::accepted()) };
    let mut content = BTreeMap::new();
    for (name, field) in &form.requested_schema.properties.0 {
        let value = match &field.default {
            Some(default) => serde_json::from_value(default.clone())
                .map_err(|error| Fault::invalid_params(format!("the default of {name}: {error}")))?,
            None => filled_in(field),
        };
        content.insert(name.clone(), value);
    }
    Ok(ElicitResult::filled(content))
}

fn filled_in(field: &Field) -> ElicitValue {
    let choice = field.values().and_then(|values| values.first().map(|value| (*value).to_owned()));
    match (&field.r#type, choice) {
        (FieldType::Boolean, _) => true.into(),
        (FieldType::Integer | FieldType::Number, _) => 1.into(),
        (FieldType::Array, choice) => ElicitValue::List(choice.into_iter().collect()),
        (_, Some(choice)) => ElicitValue::Text(choice),
        (_, None) => "conformance".into(),
    }
}

fn sampled() -> CreateMessageResult {
    CreateMessageResult {
        role: Role::Assistant,
        content: Blocks::One(Content::text("Paris")),
        model: "conformance".to_owned(),
        stop_reason: None,
        meta: None,
    }
}
