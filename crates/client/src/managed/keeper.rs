//! The task that keeps a connection: it does what the upkeep wants, and tells it what came of it.

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use cardan_proto::era::Era;
use cardan_proto::http::failure::HttpFailure;
use cardan_proto::jsonrpc::fault::code;
use cardan_proto::method::Method;
use cardan_proto::model::{
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
};
use cardan_proto::session::event::{CallOptions, Cause, Delivery, Outcome};
use cardan_proto::upkeep::condition::Condition;
use cardan_proto::upkeep::policy::AtWork;
use cardan_proto::upkeep::{Input, LinkNumber, Output, Why};
use cardan_runtime::peer::CallHandle;
use tokio::sync::watch;
use tokio::time::Sleep;

use super::hearing::{Ears, Heard};
use super::kept::{Kept, Renewed};
use super::way::{Reaching, Way};
use crate::caller::{Caller, ping};
use crate::client::{Client, ServerInfo};
use crate::connect::Connector;
use crate::error::Settled;

/// Keeps one connection until it is closed by us. Dropping it ends the link at once.
pub(super) struct Keeper {
    kept: Arc<Kept>,
    caller: Arc<Caller>,
    connector: Connector,
    way: Arc<dyn Way>,
    reaching: Option<Attempt>,
    client: Option<(LinkNumber, Client)>,
    probe: Option<Probing>,
    /// The server has answered a ping before.
    knows_ping: bool,
    /// When to ask what could not be asked.
    ask_again: Option<(LinkNumber, Pin<Box<Sleep>>)>,
    ears: Ears,
    /// Lists that are fetched again.
    listing: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    timer: Pin<Box<Sleep>>,
    /// What runs may finish until then; why the link ends.
    draining: Option<(Pin<Box<Sleep>>, Cow<'static, str>)>,
}

/// An attempt to reach the server.
struct Attempt {
    link: LinkNumber,
    reaching: Reaching,
    /// Tells it that nobody wants it any more.
    abandon: watch::Sender<bool>,
    /// One that does not end by itself then is dropped.
    until: Option<Pin<Box<Sleep>>>,
}

/// A question whether the peer lives.
struct Probing {
    link: LinkNumber,
    why: Why,
    /// In which era it was asked.
    era: Era,
    bound: Duration,
    attempt: Try,
    handle: CallHandle,
}

/// How often a peer is asked, and what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Try {
    First,
    /// The same again, since the first was asked of nobody.
    Second,
    /// Something that it surely knows: not every server that somebody wrote answers a ping.
    Known,
}

/// What the keeper waits for.
enum Woken {
    Rung,
    Reached(LinkNumber, Result<Box<Client>, Cause>),
    Ended(LinkNumber, Cause),
    Probed(Outcome),
    AskAgain(LinkNumber),
    Heard(LinkNumber, Heard),
    Listed,
    Drained,
    Time,
}

impl Keeper {
    pub(super) fn new(kept: Arc<Kept>, caller: Arc<Caller>, connector: Connector, way: Arc<dyn Way>) -> Self {
        Self {
            kept,
            caller,
            connector,
            way,
            reaching: None,
            client: None,
            probe: None,
            knows_ping: false,
            ask_again: None,
            ears: Ears::default(),
            listing: None,
            timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
            draining: None,
        }
    }

    pub(super) async fn run(mut self) {
        self.kept.feed(Input::Connect);
        loop {
            while let Some(output) = self.kept.take_to_do() {
                self.obey(output);
            }
            if self.kept.present().borrow().condition == Condition::CLOSED {
                return;
            }
            let woken = std::future::poll_fn(|cx| self.poll(cx)).await;
            self.woken(woken);
        }
    }

    fn obey(&mut self, output: Output) {
        match output {
            Output::Dial { link, .. } => {
                let kept = Arc::clone(&self.kept);
                let observer = move |event: &_| kept.observe(link, event);
                let (abandon, abandoned) = watch::channel(false);
                let connector = self.connector.kept(Arc::clone(&self.kept.cache), observer, abandoned);
                let reaching = self.way.reach(connector);
                self.reaching = Some(Attempt { link, reaching, abandon, until: None });
            }
            Output::Abandon => {
                // It ends by itself, so that whatever it had started has ended with it. One that succeeded in the
                // very moment was ended when it was found to be unwanted.
                if let Some(attempt) = &mut self.reaching {
                    attempt.abandon.send_replace(true);
                    attempt.until = Some(Box::pin(tokio::time::sleep(self.kept.limits.open_timeout)));
                }
            }
            Output::Drain { reason } => {
                self.kept.drain();
                let grace = self.kept.limits.drain_timeout;
                self.draining = Some((Box::pin(tokio::time::sleep(grace)), reason));
            }
            Output::End { cause } => {
                if let Some((_, client)) = &self.client {
                    client.peer().end(cause);
                }
            }
            Output::Probe { link, why } if self.spares(why) => self.kept.feed(Input::Spared { link }),
            Output::Probe { link, why } => self.probe(link, why, Try::First),
            Output::Relisten => self.ears.relisten(self.client.as_ref().map(|(_, client)| client.peer())),
            Output::Transition(_) => {}
        }
    }

    /// Whether the peer works for us and is to be left alone then.
    fn spares(&self, why: Why) -> bool {
        why == Why::Time && self.kept.is_busy() && self.kept.policy().probe.at_work == AtWork::Left
    }

    fn probe(&mut self, link: LinkNumber, why: Why, attempt: Try) {
        let Some((_, client)) = self.client.as_ref().filter(|(number, _)| *number == link) else { return };
        let probe = self.kept.policy().probe;
        let bound = if self.kept.may_be_at_work() { probe.busy_within } else { probe.within };
        let options = CallOptions { idle: Some(bound), total: Some(bound), ..CallOptions::default() };
        // The session may have been replaced by one of another era since the link was made.
        let settled = self.kept.present().borrow().settled.clone().unwrap_or_else(|| client.settled());
        let era = settled.revision.era();
        let known = (attempt == Try::Known).then(|| listable(&settled)).flatten();
        let handle = client.peer().call(known.unwrap_or_else(|| ping(era)), None, options);
        self.probe = Some(Probing { link, why, era, bound, attempt, handle });
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Woken> {
        if self.kept.keeper.poll_rung(cx).is_ready() {
            return Poll::Ready(Woken::Rung);
        }
        if let Poll::Ready(reached) = self.poll_reaching(cx) {
            return Poll::Ready(reached);
        }
        if let Some((link, client)) = &mut self.client {
            if let Poll::Ready(heard) = self.ears.poll(client.peer(), cx) {
                return Poll::Ready(Woken::Heard(*link, heard));
            }
            if let Poll::Ready(cause) = std::pin::pin!(client.closed()).poll(cx) {
                return Poll::Ready(Woken::Ended(*link, cause));
            }
        }
        if let Some((grace, _)) = &mut self.draining
            && (!self.kept.is_busy() || grace.as_mut().poll(cx).is_ready())
        {
            return Poll::Ready(Woken::Drained);
        }
        if let Some(probing) = &mut self.probe
            && let Poll::Ready(outcome) = Pin::new(&mut probing.handle).poll(cx)
        {
            return Poll::Ready(Woken::Probed(outcome));
        }
        if let Some((link, at)) = &mut self.ask_again
            && at.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Woken::AskAgain(*link));
        }
        if let Some(listing) = &mut self.listing
            && listing.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Woken::Listed);
        }
        self.poll_time(cx)
    }

    fn poll_reaching(&mut self, cx: &mut Context<'_>) -> Poll<Woken> {
        let Some(attempt) = &mut self.reaching else { return Poll::Pending };
        let overdue = attempt.until.as_mut().is_some_and(|until| until.as_mut().poll(cx).is_ready());
        let reached = match attempt.reaching.as_mut().poll(cx) {
            Poll::Ready(reached) => reached.map_err(Cause::from),
            Poll::Pending if overdue => Err(abandoned()),
            Poll::Pending => return Poll::Pending,
        };
        let link = attempt.link;
        self.reaching = None;
        Poll::Ready(Woken::Reached(link, reached.map(Box::new)))
    }

    fn poll_time(&mut self, cx: &mut Context<'_>) -> Poll<Woken> {
        let Some(deadline) = self.kept.deadline() else { return Poll::Pending };
        if self.timer.deadline() != deadline {
            self.timer.as_mut().reset(deadline);
        }
        self.timer.as_mut().poll(cx).map(|()| Woken::Time)
    }

    fn woken(&mut self, woken: Woken) {
        match woken {
            Woken::Rung => {
                self.ears.sync(self.kept.ears());
                if let Some(renewed) = self.kept.take_renewed() {
                    self.renewed(renewed);
                }
            }
            Woken::Reached(link, Ok(client)) => self.opened(link, *client),
            Woken::Reached(link, Err(cause)) => self.kept.feed(Input::Failed { link, cause }),
            Woken::Ended(link, cause) => {
                (self.client, self.probe, self.listing, self.ask_again) = (None, None, None, None);
                self.ears.lost();
                self.kept.feed(Input::Lost { link, cause });
            }
            Woken::Probed(outcome) => self.probed(outcome),
            Woken::AskAgain(link) => {
                self.ask_again = None;
                self.probe(link, Why::Doubt, Try::First);
            }
            Woken::Heard(link, Heard::All) => {
                self.kept.feed(Input::Hearing { link });
                self.list_again(self.kept.reconnected());
            }
            Woken::Heard(link, Heard::Less) => self.kept.feed(Input::Deaf { link }),
            Woken::Listed => self.listing = None,
            Woken::Drained => {
                if let (Some((_, reason)), Some((_, client))) = (self.draining.take(), &self.client) {
                    client.peer().close(reason);
                }
            }
            Woken::Time => self.kept.feed(Input::Tick),
        }
    }

    fn probed(&mut self, outcome: Outcome) {
        let Some(Probing { link, why, era, bound, attempt, .. }) = self.probe.take() else { return };
        // What a stale connection broke was asked of nobody: one more, over a fresh one.
        if attempt == Try::First
            && matches!(&outcome, Outcome::Lost { delivery, .. } if *delivery != Delivery::NotSent)
        {
            return self.probe(link, why, Try::Second);
        }
        self.knows_ping |= attempt != Try::Known && matches!(outcome, Outcome::Done(_) | Outcome::Fault(_));
        match verdict(outcome, era, bound) {
            Verdict::Lives => self.kept.feed(Input::Probed { link, trouble: None }),
            // It was idle when it was asked, and got a call before it answered: that may keep it.
            Verdict::Gone(Cause::Silent(_)) if self.spares(why) => self.kept.feed(Input::Spared { link }),
            // One that is asked only because it is time is not ended for what it may never have known.
            Verdict::Gone(Cause::Silent(_))
                if why == Why::Time && attempt != Try::Known && self.may_know_no_ping(era) =>
            {
                self.probe(link, why, Try::Known);
            }
            Verdict::Gone(cause) => self.kept.feed(Input::Probed { link, trouble: Some(cause) }),
            Verdict::NotAsked => self.ask_again = Some((link, Box::pin(tokio::time::sleep(ASK_AGAIN)))),
        }
    }

    fn may_know_no_ping(&self, era: Era) -> bool {
        let settled = self.kept.present().borrow().settled.clone();
        // To end the link to a child is to kill it.
        let is_child = self.kept.policy().probe.at_work == AtWork::Left;
        let has_list = settled.is_some_and(|settled| listable(&settled).is_some());
        is_child && era == Era::Legacy && !self.knows_ping && has_list
    }

    /// What was in force before is in force again, then calls may follow.
    fn opened(&mut self, link: LinkNumber, client: Client) {
        let peer = client.peer();
        let level = self.kept.level_to(peer, None);
        self.ears.sync(self.kept.ears());
        self.ears.relisten(Some(peer));
        if link > LinkNumber(1) {
            self.list_again(self.kept.reconnected());
        }
        self.kept.opened(peer.clone(), link, client.settled());
        // Who set another meanwhile did not see the link.
        self.kept.level_to(peer, level);
        // It was given up before, or in the very moment, and succeeded all the same.
        if self.kept.present().borrow().closing {
            peer.end(abandoned());
        }
        self.client = Some((link, client));
    }

    /// The session tells the new one the level and what is listened for; what changed in between is found out here.
    fn renewed(&mut self, renewed: Renewed) {
        if self.client.as_ref().is_some_and(|(link, _)| *link == renewed.link) {
            self.ears.missed();
            self.list_again(renewed.lists);
        }
    }

    /// Fetches the lists that someone fetched before. What differs is announced where lists are learned.
    fn list_again(&mut self, lists: Vec<Method>) {
        if lists.is_empty() {
            return;
        }
        let caller = Arc::clone(&self.caller);
        self.listing = Some(Box::pin(async move {
            for list in lists {
                // A list that cannot be fetched is compared when someone else fetches it.
                let _ = match list {
                    Method::ToolsList => caller.pages::<ListToolsResult>(list).all().await.map(drop),
                    Method::PromptsList => caller.pages::<ListPromptsResult>(list).all().await.map(drop),
                    Method::ResourcesTemplatesList => {
                        caller.pages::<ListResourceTemplatesResult>(list).all().await.map(drop)
                    }
                    _ => caller.pages::<ListResourcesResult>(list).all().await.map(drop),
                };
            }
        }));
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.kept.over();
    }
}

/// After what time a probe follows that could not be sent.
const ASK_AGAIN: Duration = Duration::from_secs(1);

fn abandoned() -> Cause {
    Cause::ClosedByUs("no longer wanted".into())
}

/// What a probe says about the link.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Lives,
    Gone(Cause),
    /// Nothing: it was never sent.
    NotAsked,
}

/// A list that the server says it has.
fn listable(settled: &Settled) -> Option<Method> {
    let has = ServerInfo::of(settled).capabilities;
    let lists = [
        (has.tools.is_some(), Method::ToolsList),
        (has.resources.is_some(), Method::ResourcesList),
        (has.prompts.is_some(), Method::PromptsList),
    ];
    lists.into_iter().find_map(|(has, list)| has.then_some(list))
}

/// Any answer is a sign of life, and so are other bytes; but not of the server that the link was made to, if that
/// spoke another era.
fn verdict(outcome: Outcome, era: Era, bound: Duration) -> Verdict {
    match outcome {
        Outcome::Fault(fault) if is_foreign(era, fault.code) => Verdict::Gone(Cause::OpenRefused(fault)),
        Outcome::TimedOut { seen_bytes: 0, .. } => Verdict::Gone(Cause::Silent(bound)),
        Outcome::Lost { cause: Cause::Http(failure), delivery: Delivery::NotSent }
            if turns_away(&failure) =>
        {
            Verdict::Lives
        }
        Outcome::Lost { cause, .. } => Verdict::Gone(cause),
        Outcome::Done(_) | Outcome::Fault(_) | Outcome::Violated(_) | Outcome::TimedOut { .. } => {
            Verdict::Lives
        }
        _ => Verdict::NotAsked,
    }
}

/// Whether a server that speaks the era would not say so. Every modern one knows the probe; some legacy ones do not.
fn is_foreign(era: Era, said: i64) -> bool {
    said == code::UNSUPPORTED_VERSION || (era == Era::Modern && said == code::METHOD_NOT_FOUND)
}

/// Whether a status was said by someone who is there and would let in other calls: a limit on rates, a proxy.
/// Where authorization is wanted, a new link asks for it.
fn turns_away(failure: &HttpFailure) -> bool {
    matches!(failure, HttpFailure::Status { .. }) && !failure.is_auth()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use cardan_proto::jsonrpc::fault::Fault;
    use cardan_proto::session::event::{Hurdle, Refusal};

    /// PNG-2: what was never sent says nothing about the peer.
    #[test]
    fn png_2_only_what_was_answered_is_a_sign_of_life() {
        let bound = Duration::from_secs(10);
        assert_eq!(verdict(Outcome::Done(Bytes::from_static(b"{}")), Era::Legacy, bound), Verdict::Lives);
        assert_eq!(verdict(Outcome::Refused(Refusal::NotOpen), Era::Legacy, bound), Verdict::NotAsked);
        let cause = Cause::ClosedByPeer;
        let lost = Outcome::Lost { cause: cause.clone(), delivery: Delivery::Sent };
        assert_eq!(verdict(lost, Era::Legacy, bound), Verdict::Gone(cause));
    }

    /// PNG-2, VER-18: a fault is a sign of life, unless it shows that the era is another by now.
    #[test]
    fn ver_18_a_fault_may_show_another_era() {
        let rows = [
            (Era::Legacy, code::METHOD_NOT_FOUND, true),
            (Era::Modern, code::METHOD_NOT_FOUND, false),
            (Era::Legacy, code::UNSUPPORTED_VERSION, false),
            (Era::Modern, code::UNSUPPORTED_VERSION, false),
            (Era::Modern, code::INTERNAL, true),
        ];
        for (era, code, lives) in rows {
            let fault = Fault::new(code, "no");
            let verdict = verdict(Outcome::Fault(fault), era, Duration::from_secs(10));
            assert_eq!(verdict == Verdict::Lives, lives, "{era:?} {code}: {verdict:?}");
        }
    }

    /// PNG-2: a status that turns a probe away is an answer too, unless a new link would fare better.
    #[test]
    fn png_2_a_status_that_turns_away_is_a_sign_of_life() {
        let bound = Duration::from_secs(10);
        let said = |status: u16| status.try_into().expect("a status of three digits");
        let turned_away = |status: u16| {
            let (excerpt, hints) = (Box::default(), Default::default());
            HttpFailure::Status { status: said(status), excerpt, hints }
        };
        let lost = |failure: HttpFailure, delivery| {
            let cause = Cause::Http(Box::new(failure));
            verdict(Outcome::Lost { cause, delivery }, Era::Legacy, bound)
        };
        for status in [405, 407, 413, 429] {
            assert_eq!(lost(turned_away(status), Delivery::NotSent), Verdict::Lives, "{status}");
        }
        let gone = |verdict| matches!(verdict, Verdict::Gone(_));
        assert!(gone(lost(turned_away(401), Delivery::NotSent)));
        assert!(gone(lost(turned_away(502), Delivery::Unknown)));
        assert!(gone(lost(HttpFailure::SessionGone { status: said(404) }, Delivery::NotSent)));
        assert!(gone(lost(
            HttpFailure::Connect { hurdle: Hurdle::Connect, why: "nobody".into() },
            Delivery::NotSent
        )));
    }
}
