//! Visits to addresses: which a call needs first, and which have ended.

use std::collections::VecDeque;
use std::sync::Arc;

use cardan_proto::jsonrpc::envelope::Note;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::method::Method;
use cardan_proto::model::elicit::{ElicitParams, ElicitationCompleteParams, UrlAsk, UrlsRequired};
use tokio::sync::watch;

use crate::output::tell;
use crate::talk::console::Console;

/// The visits that have ended, as the server tells. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Visits {
    ended: Arc<watch::Sender<VecDeque<String>>>,
}

/// Names of visits that are kept: one may have ended before we know that we wait for it.
const MAX_ENDED: usize = 64;

impl Visits {
    /// A note that a visit has ended. Others, and those of visits that nobody waits for, change nothing.
    pub(crate) fn note(&self, note: &Note) {
        if note.method != Method::ElicitationComplete {
            return;
        }
        let Some(raw) = note.params.raw() else { return };
        let Ok(params) = serde_json::from_slice::<ElicitationCompleteParams>(raw) else { return };
        self.ended.send_modify(|ended| {
            if ended.len() == MAX_ENDED {
                ended.pop_front();
            }
            ended.push_back(params.elicitation_id);
        });
    }

    /// The addresses that a server wants to have been visited before it takes a call, if it says so.
    pub(crate) fn required(&self, fault: &Fault) -> Option<Vec<UrlAsk>> {
        let required: UrlsRequired = serde_json::from_slice(fault.data.as_ref()?).ok()?;
        let asks = required.elicitations.into_iter().map(|ask| match ask {
            // What no browser should open is refused as a whole.
            ElicitParams::Url(ask) if ask.address().is_ok() => Some(ask),
            _ => None,
        });
        asks.collect::<Option<Vec<_>>>().filter(|asks| !asks.is_empty())
    }

    /// Waits until all of these have ended, or until a person says so.
    pub(crate) async fn ended(&self, asks: &[UrlAsk], console: Option<&Console>) {
        let ids: Vec<&str> = asks.iter().filter_map(|ask| ask.elicitation_id.as_deref()).collect();
        let mut news = self.ended.subscribe();
        let ended = news.wait_for(|ended| ids.iter().all(|id| ended.iter().any(|other| other == id)));
        let Some(console) = console else {
            tell("waiting until the server says that the visit has ended");
            let _ = ended.await;
            return;
        };
        let mut talk = console.talk().await;
        tokio::select! {
            _ = ended => {}
            _ = talk.ask("Waiting until the server says that the visit has ended; Enter goes on at once: ") => {}
        }
    }
}
