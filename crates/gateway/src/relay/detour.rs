//! A legacy server wants addresses visited before it answers a call, and says so by a fault.
//!
//! The modern era has no such fault: there the client is asked to visit them, and calls again. Nothing waits meanwhile. What comes
//! back is a call from its beginning, so all there is to know stands in the state that the client holds.

use std::sync::Arc;

use bytes::Bytes;
use cardan_proto::era::Era;
use cardan_proto::era::caps::ClientCaps;
use cardan_proto::jsonrpc::envelope::Param;
use cardan_proto::jsonrpc::fault::{Fault, code};
use cardan_proto::jsonrpc::splice::{Edit, splice};
use cardan_proto::method::Method;
use cardan_proto::model::elicit::{ElicitAction, ElicitParams, ElicitResult};
use cardan_proto::session::event::{Answer, Ask, Asks, Called};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::Core;
use super::park::Bound;
use super::seal::{Age, EXPIRED, refused};

/// What the client holds.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Detour {
    /// At which server the call was made; none: there is only one.
    server: Option<Box<str>>,
    bound: Bound,
    /// How many addresses are to be visited.
    asked: usize,
    /// How often the client was sent away, this time included.
    rounds: usize,
}

/// Is it a call that comes back from a detour? Whether it may is another matter.
pub(super) fn is_back(core: &Core, called: &Called) -> bool {
    opened(core, called).is_some()
}

/// A call that comes back from a detour is a new one, unless someone did not want to go. Any other call stays as it is.
pub(super) fn admit(core: &Core, principal: Option<&Arc<str>>, called: &mut Called) -> Result<(), Fault> {
    let Some((detour, age)) = opened(core, called) else { return Ok(()) };
    if age == Age::Expired {
        return Err(refused(EXPIRED));
    }
    let here = detour.server.as_deref() == core.options.name.as_deref();
    if !here || detour.bound != Bound::of(&called.call, principal)? {
        return Err(refused("it belongs to another call"));
    }
    // Answers that nobody asked for are ignored, and one that is missing leads to the next round.
    for (name, answer) in called.answers.take().unwrap_or_default() {
        if !(1..=detour.asked).any(|n| *name == *named(n)) {
            continue;
        }
        let answer: ElicitResult = serde_json::from_slice(&answer?)
            .map_err(|error| Fault::invalid_params(format!("params.inputResponses/{name}: {error}")))?;
        if answer.action != ElicitAction::Accept {
            let message = format!(
                "an address was not visited that {} needs visited before the call; nothing was executed",
                core.who
            );
            return Err(Fault::new(code::USER_REJECTED, message));
        }
    }
    Ok(())
}

/// An answer for a modern client: in place of a fault that wants addresses visited, it asks for that.
pub(super) fn answer(
    core: &Core,
    principal: Option<&Arc<str>>,
    called: &Called,
    answer: Answer,
) -> Result<Answer, Fault> {
    let Answer::Fault(fault) = answer else { return Ok(answer) };
    if fault.code != code::URL_ELICITATION_REQUIRED || !called.call.method.may_ask() {
        return Ok(Answer::Fault(fault));
    }
    let limits = &core.options.limits;
    let Some(entries) = addresses(&fault, limits.asks_per_round) else { return Ok(Answer::Fault(fault)) };
    if !ClientCaps::read(&called.capabilities).url {
        return Ok(Answer::Fault(unable(fault)));
    }
    let rounds = opened(core, called).map_or(0, |(before, _)| before.rounds) + 1;
    if rounds > limits.ask_rounds {
        let message = format!("{} wants addresses visited too often: {}", core.who, fault.message);
        return Ok(Answer::Fault(Fault { code: code::INTERNAL, message: message.into(), ..fault }));
    }
    let detour = Detour {
        server: core.options.name.as_deref().map(Into::into),
        bound: Bound::of(&called.call, principal)?,
        asked: entries.len(),
        rounds,
    };
    let state = Some(core.options.seal.seal(detour, limits.request_state_ttl)?);
    Ok(Answer::Ask(Asks { entries, state }))
}

/// What a call brings back from a detour.
fn opened(core: &Core, called: &Called) -> Option<(Detour, Age)> {
    if core.era() != Era::Legacy {
        return None;
    }
    let state = called.call.params.text(Param::RequestState)?;
    core.options.seal.open(&state).ok()
}

/// The asks that such a fault stands for; nothing: it names no addresses, or too many.
fn addresses(fault: &Fault, most: usize) -> Option<Vec<(Box<str>, Ask)>> {
    #[derive(Deserialize)]
    struct Wire {
        elicitations: Vec<Map<String, Value>>,
    }
    let Wire { elicitations } = serde_json::from_slice(fault.data.as_ref()?).ok()?;
    if elicitations.is_empty() || elicitations.len() > most {
        return None;
    }
    let asks = elicitations.into_iter().enumerate().map(|(n, mut params)| {
        params.entry("mode").or_insert_with(|| "url".into());
        let params = Value::Object(params);
        let Ok(ElicitParams::Url(_)) = ElicitParams::deserialize(&params) else { return None };
        let params = Some(Bytes::from(params.to_string()));
        Some((named(n + 1), Ask { method: Method::ElicitationCreate, params }))
    });
    asks.collect()
}

fn named(n: usize) -> Box<str> {
    format!("visit-{n}").into()
}

/// The fault for a client that cannot be asked: it has the addresses all the same.
fn unable(fault: Fault) -> Fault {
    let required = json!({"elicitation": {"url": {}}});
    let message = format!(
        "{}; an address has to be visited before the call, and the client did not declare elicitation.url",
        fault.message
    );
    let required = required.to_string();
    let edits = [Edit::Set("requiredCapabilities", required.as_bytes())];
    let data = fault.data.and_then(|data| splice(&data, &edits).ok());
    Fault { code: code::MISSING_CAPABILITY, message: message.into(), data }
}
