//! Answers to what the server asks of a person: from `--answer`, or a polite no.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use cardan_client::{Answerers, Urls};
use cardan_proto::model::elicit::{ElicitParams, ElicitResult, ElicitValue};
use cardan_proto::model::form::{Field, FieldType, Form};
use cardan_proto::model::roots::Root;
use cardan_proto::model::uri_template::UriTemplate;

use crate::args::Options;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::tell;

/// The person, as far as the command line speaks for one. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Person {
    answers: Arc<BTreeMap<String, String>>,
    urls: Consent,
    unanswered: Arc<Mutex<Option<Unanswered>>>,
}

/// Whether addresses are visited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Consent {
    Given,
    Missing,
}

/// What nobody could answer.
#[derive(Debug, Clone)]
struct Unanswered {
    message: String,
    next: String,
}

impl Person {
    pub(crate) fn new(options: &Options) -> Self {
        let urls = if options.accept_urls { Consent::Given } else { Consent::Missing };
        let answers = options.answers.iter().cloned().collect();
        Self { answers: Arc::new(answers), urls, unanswered: Arc::default() }
    }

    /// What the client answers. Forms and addresses are always taken, so that what is asked can be told.
    pub(crate) fn answerers(&self, options: &Options) -> Result<Answerers, Failure> {
        let person = self.clone();
        let answerers = Answerers::default().elicit(Urls::Offered, move |params| {
            let answer = person.answer(&params);
            async move { Ok(answer) }
        });
        if options.roots.is_empty() {
            return Ok(answerers);
        }
        let roots = options.roots.iter().map(|root| root_of(root)).collect::<Result<_, _>>()?;
        Ok(answerers.roots(Arc::new(RwLock::new(roots))))
    }

    /// Input was required and nobody could give it.
    pub(crate) fn failure(&self) -> Option<Failure> {
        let unanswered = self.unanswered.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        Some(Failure::new(Exit::InputRequired, unanswered.message).next(unanswered.next))
    }

    fn answer(&self, params: &ElicitParams) -> ElicitResult {
        let filled = match params {
            ElicitParams::Form(form) => self.fill(form),
            ElicitParams::Url(ask) => {
                tell(&format!("the server asks you to visit {}: {}", ask.url, ask.message));
                match self.urls {
                    Consent::Given => Ok(ElicitResult::accepted()),
                    Consent::Missing => Err(Unanswered {
                        message: format!("the server asks to visit {}: {}", ask.url, ask.message),
                        next: "visit it and say so with --accept-urls".to_owned(),
                    }),
                }
            }
        };
        filled.unwrap_or_else(|unanswered| {
            *self.unanswered.lock().unwrap_or_else(PoisonError::into_inner) = Some(unanswered);
            ElicitResult::declined()
        })
    }

    fn fill(&self, form: &Form) -> Result<ElicitResult, Unanswered> {
        let unanswered = |what: String| Unanswered {
            message: format!("the server asks: {}; {what}", form.message),
            next: format!("answer with {}", hint(form)),
        };
        if self.answers.is_empty() {
            return Err(unanswered("nobody is here to answer".to_owned()));
        }
        let mut content = BTreeMap::new();
        for (name, field) in &form.requested_schema.properties.0 {
            let value = match self.answers.get(name) {
                Some(text) => Some(typed(field, text).map_err(|why| unanswered(format!("{name}: {why}")))?),
                None => field.default.as_ref().and_then(|value| serde_json::from_value(value.clone()).ok()),
            };
            if let Some(value) = value {
                content.insert(name.clone(), value);
            }
        }
        let filled = ElicitResult::filled(content);
        match form.check_answer(&filled).first() {
            Some(flaw) => Err(unanswered(flaw.to_string())),
            None => Ok(filled),
        }
    }
}

/// How the form would be answered.
fn hint(form: &Form) -> String {
    let fields = form.requested_schema.properties.0.iter();
    let answers = fields.map(|(name, field)| format!("--answer {name}=<{}>", field.r#type.as_str()));
    answers.collect::<Vec<_>>().join(" ")
}

fn typed(field: &Field, text: &str) -> Result<ElicitValue, String> {
    match field.r#type {
        FieldType::Boolean => {
            text.parse().map(ElicitValue::Boolean).map_err(|_| "not true or false".to_owned())
        }
        FieldType::Integer | FieldType::Number => {
            serde_json::from_str(text).map(ElicitValue::Number).map_err(|_| "not a number".to_owned())
        }
        FieldType::Array => {
            Ok(ElicitValue::List(text.split(',').map(|item| item.trim().to_owned()).collect()))
        }
        _ => Ok(ElicitValue::Text(text.to_owned())),
    }
}

fn root_of(path: &Path) -> Result<Root, Failure> {
    let bad = |why: &str| Failure::usage(format!("--root {}: {why}", path.display()));
    let full = path.canonicalize().map_err(|error| bad(&error.to_string()))?;
    let text = full.to_str().ok_or_else(|| bad("not UTF-8"))?;
    let part = UriTemplate::parse("/{part}").map_err(|flaw| bad(&flaw.to_string()))?;
    let mut uri = String::from("file://");
    for name in text.split('/').filter(|name| !name.is_empty()) {
        let expanded = part.expand(&BTreeMap::from([("part".to_owned(), name.to_owned())]));
        uri.push_str(&expanded.map_err(|flaw| bad(&flaw.to_string()))?);
    }
    Ok(Root::new(uri))
}
