//! A legacy server that takes back what it asked: its client is told why, in the server's words.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod relaying;

use std::sync::Arc;

use bytes::Bytes;
use cardan_client::Answerers;
use cardan_gateway::relay::{Isolation, Options, Relay};
use cardan_proto::era::Era;
use cardan_proto::method::Method;
use cardan_proto::session::config::Interests;
use cardan_proto::session::event::{Answer, Ask, Called, Event};
use cardan_runtime::cx::CallCx;
use cardan_runtime::service::{Handler, Service};
use relaying::{connect, making_legacy, plain, soon};
use serde_json::json;
use tokio::sync::{Notify, mpsc};

/// A server that asks, and takes it back for this reason once its client has been asked.
struct Fickle {
    reason: &'static str,
    asked: Arc<Notify>,
}

impl Service for Fickle {
    fn call(&self, cx: CallCx, called: Called) -> Handler<Answer> {
        let (reason, asked) = (self.reason, Arc::clone(&self.asked));
        Box::pin(async move {
            if called.call.method == Method::ToolsCall {
                let ask = cx.ask(Ask { method: Method::RootsList, params: None });
                asked.notified().await;
                ask.cancel(reason);
                ask.await;
            }
            Answer::Done(Bytes::from_static(b"{\"tools\":[],\"content\":[]}"))
        })
    }
}

/// CAN-9: the reason of a cancel note crosses from the server to its client, too. One without a reason says who lost interest.
#[tokio::test]
async fn the_reason_for_which_an_ask_is_taken_back_crosses() {
    let rows = [("the door is open", "the door is open"), ("", "the caller lost interest")];
    for isolation in [Isolation::Client, Isolation::Shared, Isolation::Call] {
        for (given, read) in rows {
            let asked = Arc::new(Notify::new());
            let server = Fickle { reason: given, asked: Arc::clone(&asked) };
            let (making, _) = making_legacy(server, "fickle", &json!({ "tools": {} }), Interests::Kept);
            let options = Options { isolation, ..Options::default() };
            let relay = Relay::start(making, options).await.unwrap();
            let (told, mut reasons) = mpsc::unbounded_channel();
            let answerers = Answerers::relayed(json!({ "roots": {} }), move |_, _| {
                asked.notify_one();
                Box::pin(std::future::pending())
            });
            let connector = plain().answer(answerers).observe(move |event| {
                if let Event::AskWithdrawn { reason, .. } = event {
                    let _ = told.send(reason.clone());
                }
            });
            let client = connect(&relay, Era::Legacy, connector).await;
            soon("the call", client.call_tool("t", &json!({})).unwrap()).await.unwrap();
            let reason = soon("the reason", reasons.recv()).await.unwrap();
            assert_eq!(&*reason, read, "{isolation:?}");
        }
    }
}
