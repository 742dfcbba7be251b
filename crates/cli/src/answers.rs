//! Answers to what the server asks of a person: from `--answer`, from the terminal, or a polite no.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use cardan_client::{Answerers, Urls};
use cardan_proto::finding::Rule;
use cardan_proto::jsonrpc::fault::{Fault, code};
use cardan_proto::method::Method;
use cardan_proto::model::elicit::{ElicitParams, ElicitResult, UrlAsk};
use cardan_proto::model::form::Form;
use cardan_proto::model::roots::Root;
use cardan_proto::model::sampling::{CreateMessageParams, CreateMessageResult};
use cardan_proto::model::uri_template::UriTemplate;
use cardan_proto::secret::Redactor;
use cardan_proto::session::event::{Delivery, Event};

use crate::args::Options;
use crate::arguments::twice;
use crate::cmd::config::variable;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{tell, tell_page};
use crate::tagged;
use crate::talk::console::Console;
use crate::talk::form::{self, Given, one_line};
use crate::talk::sample;
use crate::talk::visit::{self, Opening};
use crate::target::Target;
use crate::visits::Visits;

/// The person, as far as the command line speaks for one. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Person {
    answers: Arc<BTreeMap<String, String>>,
    urls: Consent,
    opening: Opening,
    /// The command that answers for the model.
    sampling: Option<Arc<str>>,
    /// Where the person sits; nothing: nobody can be asked.
    console: Option<Console>,
    server: Arc<Asker>,
    visits: Visits,
    unanswered: Arc<Mutex<Option<Unanswered>>>,
    /// What the server asked although nobody offered to answer it.
    refused: Arc<Mutex<Option<Unanswered>>>,
    /// What is not to be shown of anything.
    secrets: Redactor,
}

/// Whether addresses are visited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Consent {
    Given,
    Missing,
}

/// Who asks: by the name we know it by, and by the one that it gives itself.
#[derive(Debug)]
struct Asker {
    known: String,
    own: Mutex<Option<String>>,
}

/// What nobody could answer, or would.
#[derive(Debug, Clone)]
struct Unanswered {
    message: String,
    next: String,
}

/// The variable with the command that answers for the model.
const SAMPLING: &str = "CARDAN_SAMPLING_COMMAND";

/// Of the name that a server gives itself: more would hide who asks.
const MAX_NAME_CHARS: usize = 60;

impl Person {
    /// `console`: where the person sits, if anywhere. `configured`: the command that answers for the model, unless someone says otherwise.
    pub(crate) fn new(
        options: &Options,
        target: &Target,
        console: Option<Console>,
        configured: Option<String>,
        secrets: Redactor,
    ) -> Self {
        let sampling = options.sampling_command.clone().or_else(|| variable(SAMPLING)).or(configured);
        Self {
            answers: Arc::new(options.answers.iter().cloned().collect()),
            urls: if options.accept_urls { Consent::Given } else { Consent::Missing },
            opening: if options.open { Opening::Browser } else { Opening::Nothing },
            sampling: sampling.filter(|command| !command.is_empty()).map(Arc::from),
            console,
            server: Arc::new(Asker { known: target.label(), own: Mutex::default() }),
            visits: Visits::default(),
            unanswered: Arc::default(),
            refused: Arc::default(),
            secrets,
        }
    }

    /// What the client answers. Forms and addresses are always taken, so that what is asked can be told.
    pub(crate) fn answerers(&self, options: &Options) -> Result<Answerers, Failure> {
        if let Some(key) = twice(options.answers.iter().map(|(key, _)| key)) {
            return Err(Failure::usage(format!("--answer {key} is given twice"))
                .next("give it once; several choices are separated by commas"));
        }
        let person = self.clone();
        let told = self.clone();
        let mut answerers = Answerers::default()
            .elicit(Urls::Offered, move |params| {
                let person = person.clone();
                async move { Ok(person.answer(&params).await) }
            })
            .on_refused(move |method, fault| told.malformed(method, fault));
        if self.sampling.is_some() || self.console.is_some() {
            let person = self.clone();
            answerers = answerers.sample(move |params| {
                let person = person.clone();
                async move { person.sample(&params).await }
            });
        }
        if options.roots.is_empty() {
            return Ok(answerers);
        }
        let roots = options.roots.iter().map(|root| root_of(root)).collect::<Result<_, _>>()?;
        Ok(answerers.roots(Arc::new(RwLock::new(roots))))
    }

    /// How the server calls itself.
    pub(crate) fn meets(&self, own_name: String) {
        *self.server.own.lock().unwrap_or_else(PoisonError::into_inner) = Some(own_name);
    }

    /// Something happened on the link.
    pub(crate) fn event(&self, event: &Event) {
        match event {
            Event::Noted(note) => self.visits.note(note),
            Event::Found(finding) if finding.rule == Rule::AskFlood => {
                self.turned_away(&finding.detail, "the server asks too often");
            }
            Event::Found(finding) if finding.rule == Rule::Unadvertised => {
                self.turned_away(&finding.detail, "nobody offered to answer it");
                *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = not_offered(&finding.detail);
            }
            _ => {}
        }
    }

    /// Tells of an ask that the session itself refused, by its method, before which in the modern era its key stands.
    fn turned_away(&self, ask: &str, why: &str) {
        let (key, method) = match ask.rsplit_once(": ") {
            Some((key, method)) => (Some(key), method),
            None => (None, ask),
        };
        tagged::refused(method, key, why, &self.secrets);
    }

    /// The call failed after something was asked that nobody offered to answer. A server that can do without is fine.
    pub(crate) fn refused(&self, outcome: &Result<(), Failure>) -> Option<Failure> {
        let failed = |failure: &Failure| matches!(failure.exit(), Exit::ToolFailed | Exit::Fault);
        if !outcome.as_ref().is_err_and(failed) {
            return None;
        }
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        Some(Failure::new(Exit::InputRequired, refused.message).next(refused.next))
    }

    /// What the server asks cannot be read, so nobody is asked. It is told at once: a server may go on without a word.
    fn malformed(&self, method: &Method, fault: &Fault) {
        let what = match method {
            Method::ElicitationCreate => "the server asks you something",
            Method::SamplingCreateMessage => "the server asks your model something",
            _ => "the server asks something",
        };
        let message =
            format!("{what} that breaks the protocol, and was refused: {}", one_line(&fault.message));
        tell(&message);
        tagged::refused(method.name(), None, &fault.message, &self.secrets);
        let next = "report it to the server's author".to_owned();
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(Unanswered { message, next });
    }

    /// Where the person can be asked.
    pub(crate) fn console(&self) -> Option<&Console> {
        self.console.as_ref()
    }

    /// Input was required and nobody could give it.
    pub(crate) fn failure(&self) -> Option<Failure> {
        let unanswered = self.unanswered.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        Some(Failure::new(Exit::InputRequired, unanswered.message).next(unanswered.next))
    }

    /// Goes where a server wants the person to have been before it takes a call, and waits until it says that they were.
    /// Nothing: it does not say where.
    pub(crate) async fn visit_first(&self, fault: &Fault) -> Option<Result<(), Failure>> {
        let asks = self.visits.required(fault)?;
        for ask in &asks {
            let answer = self.answer(&ElicitParams::Url(ask.clone())).await;
            if answer != ElicitResult::accepted() {
                let declined = || {
                    Failure::new(Exit::InputRequired, not_answered(&ElicitParams::Url(ask.clone())).message)
                };
                // The call was answered: that is how we know of the address.
                return Some(Err(self.failure().unwrap_or_else(declined).delivered(Delivery::Sent)));
            }
        }
        self.visits.ended(&asks, self.console.as_ref()).await;
        Some(Ok(()))
    }

    fn who(&self) -> String {
        let own = self.server.own.lock().unwrap_or_else(PoisonError::into_inner);
        match own.as_deref() {
            Some(own) if own != self.server.known => {
                let own: String = one_line(own).chars().take(MAX_NAME_CHARS).collect();
                format!("{} (\"{own}\")", self.server.known)
            }
            _ => self.server.known.clone(),
        }
    }

    async fn answer(&self, params: &ElicitParams) -> ElicitResult {
        let answered = match params {
            ElicitParams::Form(form) => self.fill(form).await,
            ElicitParams::Url(ask) => self.visit(ask).await,
        };
        let declined = [ElicitResult::declined(), ElicitResult::cancelled()];
        match answered {
            Ok(answer) => {
                // Whoever would not answer is told the same as where nobody could.
                if declined.contains(&answer) {
                    self.note(&Method::ElicitationCreate, not_answered(params));
                }
                answer
            }
            Err(unanswered) => {
                self.note(&Method::ElicitationCreate, unanswered);
                ElicitResult::declined()
            }
        }
    }

    fn note(&self, method: &Method, unanswered: Unanswered) {
        tagged::refused(method.name(), None, &unanswered.message, &self.secrets);
        *self.unanswered.lock().unwrap_or_else(PoisonError::into_inner) = Some(unanswered);
    }

    async fn visit(&self, ask: &UrlAsk) -> Result<ElicitResult, Unanswered> {
        match (self.urls, &self.console) {
            (Consent::Given, _) => {
                tell(&format!("the server asks you to visit an address: {}", one_line(&ask.message)));
                // Whole, so that it can be copied; it was checked to have no blanks.
                tell_page(&format!("  {}", ask.url));
                Ok(ElicitResult::accepted())
            }
            (Consent::Missing, Some(console)) => {
                let mut talk = console.talk().await;
                Ok(visit::visit(&mut talk, &self.who(), ask, self.opening).await)
            }
            (Consent::Missing, None) => Err(Unanswered {
                message: format!("the server asks to visit {}: {}", ask.url, ask.message),
                next: "visit it and say so with --accept-urls".to_owned(),
            }),
        }
    }

    async fn fill(&self, form: &Form) -> Result<ElicitResult, Unanswered> {
        let given = Given::of(form, &self.answers);
        match &self.console {
            Some(console) if !given.covers(form) => {
                let mut talk = console.talk().await;
                Ok(form::fill(&mut talk, &self.who(), form, given).await)
            }
            _ => self.fill_unasked(form, given),
        }
    }

    fn fill_unasked(&self, form: &Form, given: Given) -> Result<ElicitResult, Unanswered> {
        let unanswered = |what: String| Unanswered {
            message: format!("the server asks: {}; {what}", form.message),
            next: format!("answer with {}", hint(form)),
        };
        if self.answers.is_empty() {
            return Err(unanswered("nobody is here to answer".to_owned()));
        }
        if let Some((name, why)) = given.wrong.first() {
            return Err(unanswered(format!("{name} {why}")));
        }
        let mut content = given.content;
        for (name, field) in &form.requested_schema.properties.0 {
            if let (false, Some(value)) = (content.contains_key(name), form::default(field)) {
                content.insert(name.clone(), value);
            }
        }
        let filled = ElicitResult::filled(content);
        match form.check_answer(&filled).first() {
            Some(flaw) => Err(unanswered(flaw.to_string())),
            None => Ok(filled),
        }
    }

    async fn sample(&self, params: &CreateMessageParams) -> Result<CreateMessageResult, Fault> {
        let answered = match (&self.sampling, &self.console) {
            (Some(command), _) => sample::by_command(command, &self.who(), params).await,
            (None, Some(console)) => {
                let mut talk = console.talk().await;
                let answer = sample::by_person(&mut talk, &self.who(), params).await;
                answer.ok_or_else(|| "the user declined to answer for the model".to_owned())
            }
            (None, None) => Err("nobody is here to answer for the model".to_owned()),
        };
        answered.map_err(|why| {
            let next = "answer on a terminal, or have a command answer with --sampling-command";
            let unanswered = Unanswered { message: why.clone(), next: next.to_owned() };
            self.note(&Method::SamplingCreateMessage, unanswered);
            Fault::new(code::USER_REJECTED, why)
        })
    }
}

/// What someone at the terminal was asked and would not answer.
fn not_answered(params: &ElicitParams) -> Unanswered {
    let message = match params {
        ElicitParams::Form(form) => format!("the server asks: {}; it was not answered", form.message),
        ElicitParams::Url(ask) => format!("{} was not visited", ask.url),
    };
    Unanswered { message, next: "call again to answer it".to_owned() }
}

/// What a server asked, by its method, and what would have answered it.
fn not_offered(method: &str) -> Option<Unanswered> {
    let (message, next) = if method == Method::SamplingCreateMessage.name() {
        (
            "the server asks the model, and nobody is here to answer for it",
            "answer on a terminal, or have a command answer with --sampling-command",
        )
    } else if method == Method::RootsList.name() {
        ("the server asks for roots, and none are given", "give them with --root")
    } else {
        return None;
    };
    Some(Unanswered { message: message.to_owned(), next: next.to_owned() })
}

/// How the form would be answered: what need not be said is in brackets.
fn hint(form: &Form) -> String {
    let fields = form.requested_schema.properties.0.iter();
    let answers = fields.map(|(name, field)| {
        let answer = format!("--answer {name}=<{}>", field.r#type.as_str());
        let needed = form::is_required(form, name) && field.default.is_none();
        if needed { answer } else { format!("[{answer}]") }
    });
    answers.collect::<Vec<_>>().join(" ")
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
