//! Asks in the modern era: a result that asks back, and the answers that a retry brings.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeOwned, Error, MapAccess, Visitor};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::elicit::{ElicitParams, ElicitResult, UrlAsk};
use super::flaw::{Flaw, under};
use super::form::Form;
use super::listen::BareParams;
use super::meta::Meta;
use super::raw::Raw;
use super::result::ResultType;
use super::roots::ListRootsResult;
use super::sampling::{CreateMessageParams, CreateMessageResult};
use crate::method::Method;

/// One ask: a method and its params, without id and without envelope.
#[derive(Debug, Clone, PartialEq)]
pub enum InputRequest {
    /// Ask the model.
    CreateMessage(Box<CreateMessageParams>),
    /// Ask the person.
    Elicit(Box<ElicitParams>),
    /// Ask where the server may look.
    ListRoots(Option<BareParams>),
}

impl InputRequest {
    /// Its method.
    #[must_use]
    pub fn method(&self) -> Method {
        match self {
            Self::CreateMessage(_) => Method::SamplingCreateMessage,
            Self::Elicit(_) => Method::ElicitationCreate,
            Self::ListRoots(_) => Method::RootsList,
        }
    }
}

impl From<CreateMessageParams> for InputRequest {
    fn from(params: CreateMessageParams) -> Self {
        Self::CreateMessage(Box::new(params))
    }
}

impl From<ElicitParams> for InputRequest {
    fn from(params: ElicitParams) -> Self {
        Self::Elicit(Box::new(params))
    }
}

impl From<Form> for InputRequest {
    fn from(form: Form) -> Self {
        ElicitParams::from(form).into()
    }
}

impl From<UrlAsk> for InputRequest {
    fn from(ask: UrlAsk) -> Self {
        ElicitParams::from(ask).into()
    }
}

impl Serialize for InputRequest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut ask = serializer.serialize_struct("InputRequest", 2)?;
        ask.serialize_field("method", self.method().name())?;
        match self {
            Self::CreateMessage(params) => ask.serialize_field("params", params)?,
            Self::Elicit(params) => ask.serialize_field("params", params)?,
            Self::ListRoots(Some(params)) => ask.serialize_field("params", params)?,
            Self::ListRoots(None) => {}
        }
        ask.end()
    }
}

impl<'de> Deserialize<'de> for InputRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire {
            method: String,
            params: Option<Raw>,
        }
        fn read<T: DeserializeOwned, E: Error>(params: Option<Raw>) -> Result<T, E> {
            params.ok_or_else(|| E::missing_field("params"))?.read().map_err(E::custom)
        }
        let wire = Wire::deserialize(deserializer)?;
        match Method::parse(&wire.method) {
            Method::SamplingCreateMessage => read(wire.params).map(Self::CreateMessage),
            Method::ElicitationCreate => read(wire.params).map(Self::Elicit),
            Method::RootsList => wire.params.map(|raw| read(Some(raw))).transpose().map(Self::ListRoots),
            other => Err(D::Error::custom(format_args!("{other} is no ask"))),
        }
    }
}

/// Asks by the names that the server gave them. A name that comes twice is refused.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(transparent)]
pub struct InputRequests(pub BTreeMap<String, InputRequest>);

impl InputRequests {
    /// One ask.
    pub fn one(name: impl Into<String>, ask: impl Into<InputRequest>) -> Self {
        Self::default().and(name, ask)
    }

    /// With one more; an ask of the same name is replaced.
    #[must_use]
    pub fn and(mut self, name: impl Into<String>, ask: impl Into<InputRequest>) -> Self {
        self.0.insert(name.into(), ask.into());
        self
    }
}

impl<'de> Deserialize<'de> for InputRequests {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Asks;
        impl<'de> Visitor<'de> for Asks {
            type Value = InputRequests;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("asks by name")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<InputRequests, A::Error> {
                let mut asks = InputRequests::default();
                while let Some((name, ask)) = entries.next_entry::<String, InputRequest>()? {
                    if asks.0.contains_key(&name) {
                        return Err(A::Error::custom(format_args!("two asks are named {name:?}")));
                    }
                    asks.0.insert(name, ask);
                }
                Ok(asks)
            }
        }
        deserializer.deserialize_map(Asks)
    }
}

/// Answers by the names of their asks. Bare results: which type each has, its ask says.
///
/// They stay raw until read, so that a surplus answer cannot spoil the ones that are needed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InputResponses(pub BTreeMap<String, Raw>);

impl InputResponses {
    /// What the person answered.
    pub fn elicit(&self, name: &str) -> Result<Option<ElicitResult>, Flaw> {
        self.read(name)
    }

    /// What the model answered.
    pub fn create_message(&self, name: &str) -> Result<Option<CreateMessageResult>, Flaw> {
        self.read(name)
    }

    /// Where the server may look.
    pub fn list_roots(&self, name: &str) -> Result<Option<ListRootsResult>, Flaw> {
        self.read(name)
    }

    /// With one more answer.
    pub fn with(
        mut self,
        name: impl Into<String>,
        answer: &impl Serialize,
    ) -> Result<Self, serde_json::Error> {
        self.0.insert(name.into(), Raw::of(answer)?);
        Ok(self)
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Flaw> {
        let answer = self.0.get(name).map(Raw::read);
        answer.transpose().map_err(|error| Flaw::at(name, error.to_string()))
    }

    /// What a client must not send: envelopes, result types and errors in place of bare results.
    #[must_use]
    pub fn check(&self) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        for (name, answer) in &self.0 {
            let found = match answer.value() {
                Value::Object(members) => ["jsonrpc", "id", "result", "error", "resultType"]
                    .into_iter()
                    .filter(|member| members.contains_key(*member))
                    .map(|member| Flaw::at(member, "does not belong in a bare result"))
                    .collect(),
                _ => vec![Flaw::here("is not an object")],
            };
            flaws.extend(under(name, found));
        }
        flaws
    }
}

/// A result that asks back before the call can be answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InputRequiredResult {
    /// Always `input_required`.
    pub result_type: ResultType,
    /// The asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_requests: Option<InputRequests>,
    /// To be brought back byte for byte with the answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_state: Option<String>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

impl InputRequiredResult {
    /// Asks, and perhaps state to be brought back.
    #[must_use]
    pub fn asks(asks: InputRequests, request_state: Option<String>) -> Self {
        Self { result_type: ResultType::InputRequired, input_requests: Some(asks), request_state, meta: None }
    }

    /// Nothing to ask, only to come again with this state.
    #[must_use]
    pub fn again(request_state: String) -> Self {
        let result_type = ResultType::InputRequired;
        Self { result_type, input_requests: None, request_state: Some(request_state), meta: None }
    }

    /// What a server must not send.
    #[must_use]
    pub fn check(&self) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        if self.result_type != ResultType::InputRequired {
            flaws.push(Flaw::at("resultType", "is not input_required"));
        }
        if self.input_requests.is_none() && self.request_state.is_none() {
            flaws.push(Flaw::here("has neither inputRequests nor requestState"));
        }
        flaws
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<InputRequiredResult, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// MRTR-3: asks, state, or both; never neither.
    #[test]
    fn a_result_asks_or_has_state() {
        let asks = InputRequests::one("a", Form::new("m").string("s"));
        assert_eq!(InputRequiredResult::asks(asks, None).check(), []);
        assert_eq!(InputRequiredResult::again("s".into()).check(), []);
        let neither = read(r#"{"resultType":"input_required"}"#).unwrap();
        assert_eq!(neither.check().len(), 1);
    }

    /// MRTR-4: one of three methods, no id and no envelope.
    #[test]
    fn asks_are_of_three_kinds() {
        let asks = InputRequests::one("roots", InputRequest::ListRoots(None))
            .and("form", Form::new("m").boolean("sure"))
            .and("model", CreateMessageParams::new(Vec::new(), 5));
        let value = serde_json::to_value(&asks).unwrap();
        assert_eq!(value["roots"], serde_json::json!({ "method": "roots/list" }));
        for ask in value.as_object().unwrap().values() {
            assert!(ask.get("id").is_none() && ask.get("jsonrpc").is_none());
            assert!(Method::parse(ask["method"].as_str().unwrap()).is_ask());
        }
        assert_eq!(serde_json::from_str::<InputRequests>(&value.to_string()).unwrap(), asks);
        for odd in [r#"{"method":"ping"}"#, r#"{"method":"elicitation/create"}"#, r#"{"params":{}}"#, "[]"] {
            assert!(serde_json::from_str::<InputRequest>(odd).is_err(), "{odd}");
        }
    }

    /// MRTR-5: a name comes once.
    #[test]
    fn names_are_unique() {
        let twice = r#"{"a":{"method":"roots/list"},"a":{"method":"roots/list"}}"#;
        let error = serde_json::from_str::<InputRequests>(twice).unwrap_err();
        assert!(error.to_string().contains("two asks are named \"a\""), "{error}");
    }

    /// MRTR-20, MRTR-18: answers are bare, and a surplus one spoils nothing.
    #[test]
    fn answers_are_bare_results() {
        let answers: InputResponses =
            serde_json::from_str(r#"{"a":{"action":"accept"},"b":{"roots":[]},"surplus":[1]}"#).unwrap();
        assert_eq!(answers.elicit("a").unwrap(), Some(ElicitResult::accepted()));
        assert_eq!(answers.list_roots("b").unwrap(), Some(ListRootsResult::default()));
        assert_eq!(answers.create_message("c"), Ok(None));
        assert_eq!(answers.create_message("a").unwrap_err().at, "/a");
        let built = InputResponses::default().with("a", &ElicitResult::declined()).unwrap();
        assert_eq!(built.check(), []);
        let wrapped =
            r#"{"a":{"jsonrpc":"2.0","id":1,"result":{}},"b":{"action":"accept","resultType":"complete"}}"#;
        let places: Vec<String> = serde_json::from_str::<InputResponses>(wrapped)
            .unwrap()
            .check()
            .into_iter()
            .map(|f| f.at)
            .collect();
        assert_eq!(places, ["/a/jsonrpc", "/a/id", "/a/result", "/b/resultType"]);
    }
}
