//! Clients on behalf of somebody, and what a policy lets them do.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use cardan_client::Client;
use cardan_config::File;
use cardan_gateway::front::Front;
use cardan_gateway::policy::Policy;
use cardan_proto::era::Era;
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::session::event::{CallOptions, Interest};
use cardan_runtime::driver::Driver;
use cardan_runtime::memory;
use cardan_runtime::service::Host as _;
use serde_json::json;

use crate::relaying::{answering, choice, soon};

/// What a `cardan.toml` with this text says.
pub(crate) fn policy(text: &str) -> Policy {
    Policy::of(&[File::parse(Path::new("cardan.toml"), text, None).unwrap().policy])
}

/// A client of this era, on behalf of a principal.
pub(crate) async fn on_behalf(front: &Front, who: &str, era: Era) -> Client {
    let (ours, theirs) = memory::pair(&Limits::DEFAULT);
    let principal: Arc<str> = who.into();
    let config = front.config(Some(&principal));
    let (driver, peer) = Driver::new(theirs, front.service(Some(&principal)), config);
    front.joined(peer, Some(&principal));
    tokio::spawn(driver);
    answering(who).era(choice(era)).connect_link(ours).await.unwrap()
}

/// Does its server tell when something changes?
pub(crate) async fn is_followed(client: &Client, uri: &str, era: Era) -> bool {
    if era == Era::Legacy {
        let params = Some(Bytes::from(json!({ "uri": uri }).to_string()));
        let subscribed = client.raw(Method::ResourcesSubscribe, params, CallOptions::default());
        return soon("an answer", subscribed).await.is_ok();
    }
    let mut listen = client.listen(Interest { uris: vec![uri.into()], ..Interest::default() });
    soon("an answer", listen.ready()).await.is_ok_and(|interest| !interest.uris.is_empty())
}
