//! Reading: a resource is read from whoever has it, and goes on where it was begun.

use std::sync::Arc;

use bytes::Bytes;
use cardan_proto::jsonrpc::envelope::Param;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::jsonrpc::splice::{Edit, member_of, splice};
use cardan_proto::model::ResultType;
use cardan_proto::session::event::{Answer, Called};
use cardan_runtime::cx::CallCx;
use serde_json::{Value, json};

use super::desk::{Station, address};
use super::refused::Refused;
use super::several::{self, Missing};
use super::trail::Trail;
use super::view::{Likely, Purpose, Unknown};
use super::waiting::Waited;
use crate::catalog::Kind;
use crate::fleet::Upstream;

/// A resource: by whoever has it. Who says so is asked in turn, for as long as the client waits; of those that may have it each
/// is asked for a while, so that one that is silent hides no other. Servers that are not known yet are waited for where they come
/// first or no other has it.
pub(super) async fn read(
    station: &Arc<Station>,
    cx: CallCx,
    called: Called,
    trail: Option<&Trail>,
) -> Result<Answer, Fault> {
    let uri = address(&called)?;
    station.front.settled().await;
    station.preceded(Kind::Resources, &uri).await;
    let (round, called) = Round::of(station, called)?;
    let (mut tried, mut missing): (Vec<Arc<Upstream>>, _) = (Vec::new(), Missing::default());
    let mut waited = Waited::No;
    loop {
        let mut having = station.view().having(&uri, Purpose::Read);
        having.retain(|(upstream, _)| {
            round.is_at(upstream.name()) && !tried.iter().any(|tried| Arc::ptr_eq(tried, upstream))
        });
        tried.extend(having.iter().map(|(upstream, _)| Arc::clone(upstream)));
        let (said, guessed): (Vec<_>, Vec<_>) =
            having.into_iter().partition(|(_, likely)| *likely == Likely::Said);
        for (upstream, _) in said {
            if let Some(trail) = trail {
                trail.goes(&upstream, station.view().written(&upstream, &uri).as_deref());
            }
            match station.forward(&upstream, cx.clone(), called.clone()).await {
                Err(fault) => missing.away(fault),
                Ok(Answer::Fault(fault)) if fault.is_resource_not_found() => missing.not_there(fault),
                Ok(answer) => return Ok(asking(answer, upstream.name())),
            }
        }
        let guessed: Vec<_> = guessed.into_iter().map(|(upstream, _)| upstream).collect();
        if let Some((upstream, answer)) = several::first(station, &cx, &called, &guessed, &mut missing).await
        {
            if let Some(trail) = trail {
                trail.goes(&upstream, None);
            }
            return Ok(asking(answer, upstream.name()));
        }
        // Once: who tells nothing now has nothing for now.
        if waited == Waited::Yes || station.front.all_known().await? == Waited::No {
            break;
        }
        waited = Waited::Yes;
    }
    let hidden = if tried.is_empty() { station.offered(Kind::Resources, &uri) } else { None };
    if let (Some(trail), Some((server, own))) = (trail, &hidden) {
        trail.barred(server, own.as_deref());
    }
    Err(missing.0.unwrap_or_else(|| {
        let why = if hidden.is_some() { Refused::Policy } else { Refused::Unknown };
        station.front.house.refusals.count(why);
        Fault::resource_not_found(&uri)
    }))
}

impl Station {
    /// Waits until it is known who is first to have something: not who is first to be ready.
    pub(super) async fn preceded(&self, kind: Kind, key: &str) {
        let view = self.view();
        if view.unknown == Unknown::Starting {
            let found = view.find(kind, key);
            self.front.preceded(found.as_ref().map(|(upstream, _)| upstream)).await;
        }
    }

    /// Waits until it is known who has what is at an address: a server of which nothing is known yet may say that it does.
    pub(super) async fn sought_at(&self, uri: &str) -> Result<(), Fault> {
        self.preceded(Kind::Resources, uri).await;
        let view = self.view();
        let said = |(_, likely): &(_, Likely)| *likely == Likely::Said;
        let listed = view.find(Kind::Resources, uri).is_some();
        if !listed && !view.having(uri, Purpose::Listen).first().is_some_and(said) {
            self.front.all_known().await?;
        }
        Ok(())
    }
}

/// Where a read goes.
enum Round {
    /// To whoever has it.
    First,
    /// To the server that asked.
    Next(Box<str>),
}

/// What a client sends back with its answers: the server that asked, and what that server wants back.
#[derive(serde::Deserialize)]
struct State(Box<str>, Option<Box<str>>);

impl Round {
    /// The round of a call, and the call as its server knows it.
    fn of(station: &Station, called: Called) -> Result<(Self, Called), Fault> {
        let state = called.call.params.text(Param::RequestState);
        let Some(State(server, own)) = state.and_then(|state| serde_json::from_str(&state).ok()) else {
            return Ok((Self::First, called));
        };
        let member = Param::RequestState.name();
        let called = match own {
            Some(own) => station.renamed(called, member, &Value::from(&*own).to_string())?,
            None => station.without(called, member)?,
        };
        Ok((Self::Next(server), called))
    }

    fn is_at(&self, server: &str) -> bool {
        match self {
            Self::First => true,
            Self::Next(asked) => **asked == *server,
        }
    }
}

/// An answer that asks says who asked, so that the answers go there: others may have the address too.
fn asking(answer: Answer, server: &str) -> Answer {
    let with = |own: Option<&str>| json!([server, own]).to_string();
    match answer {
        Answer::Ask(mut asks) => {
            asks.state = Some(with(asks.state.as_deref()).into());
            Answer::Ask(asks)
        }
        Answer::Done(result) => Answer::Done(marked(result, with)),
        Answer::Sealed(result) => Answer::Sealed(marked(result, with)),
        other => other,
    }
}

fn marked(result: Bytes, with: impl Fn(Option<&str>) -> String) -> Bytes {
    if ResultType::peek(&result) != ResultType::InputRequired {
        return result;
    }
    let member = Param::RequestState.name();
    let own = member_of(&result, member).ok().flatten();
    let own = own.and_then(|raw| serde_json::from_slice::<Box<str>>(&raw).ok());
    let state = Value::from(with(own.as_deref())).to_string();
    splice(&result, &[Edit::Set(member, state.as_bytes())]).unwrap_or(result)
}
