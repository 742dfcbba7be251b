//! What a listener serves: one endpoint, or one for everything and one for each of its parts.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cardan_proto::http::percent::decoded;
use cardan_proto::limits::Limits;
use cardan_runtime::service::Host;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::Service;

use crate::body::Body;
use crate::door::{CLOSING, Door};
use crate::endpoint::{Answering, Endpoint, Present};
use crate::options::Options;

/// What a listener serves.
pub trait Site:
    Service<Request<Incoming>, Response = Response<Body>, Error = Infallible, Future = Answering>
    + Clone
    + Send
    + Sync
    + 'static
{
    /// Bounds of its connections.
    fn limits(&self) -> Limits;

    /// Finishes what runs, within the limit's time.
    fn close(&self, reason: &'static str) -> impl Future<Output = ()> + Send;
}

impl<H: Host> Site for Endpoint<H> {
    fn limits(&self) -> Limits {
        self.host().config(None).limits.clone()
    }

    async fn close(&self, reason: &'static str) {
        Self::close(self, reason).await;
    }
}

/// An endpoint for everything, and below a folder one for each of its parts, by name. Cheap to clone.
pub struct Sites<H: Host>(Arc<Inner<H>>);

/// Who is served as the part of a name.
type Find<H> = Box<dyn Fn(&str) -> Option<H> + Send + Sync>;

struct Inner<H: Host> {
    whole: Endpoint<H>,
    folder: &'static str,
    options: Options,
    find: Find<H>,
    /// Those that were asked for.
    parts: Mutex<HashMap<Box<str>, Endpoint<H>>>,
}

impl<H: Host + PartialEq> Sites<H> {
    /// Everything by the paths of `options`; each part by the same paths below `folder` (such as `/servers/`) and its name.
    /// `find` is asked for every request to a part: a name that it does not know is nowhere, and one that it has another host for
    /// begins anew.
    pub fn new(
        whole: H,
        options: Options,
        folder: &'static str,
        find: impl Fn(&str) -> Option<H> + Send + Sync + 'static,
    ) -> Self {
        let options = options.veil(folder);
        let whole = Endpoint::new(whole, options.clone());
        Self(Arc::new(Inner { whole, folder, options, find: Box::new(find), parts: Mutex::default() }))
    }

    /// Who answers at a path. What no part answers is left to the whole, which says so.
    fn at(&self, path: &str) -> Endpoint<H> {
        let inner = &self.0;
        let part = || {
            let (segment, _) = path.strip_prefix(inner.folder)?.split_once('/')?;
            // One spelling each, or there would be as many endpoints as there are spellings.
            let name = decoded(segment).filter(|name| encoded(name) == segment)?;
            let host = (inner.find)(&name);
            let mut parts = self.lock();
            let Some(host) = host else {
                parts.remove(segment);
                return None;
            };
            if parts.get(segment).is_some_and(|part| *part.host() != host) {
                parts.remove(segment);
            }
            let part = parts.entry(segment.into()).or_insert_with(|| {
                let paths = inner.options.paths.below(&[inner.folder, segment].concat());
                Endpoint::new(host, inner.options.clone().paths(paths))
            });
            if inner.whole.door() == Door::Closing {
                part.shut(CLOSING);
            }
            Some(part.clone())
        };
        part().unwrap_or_else(|| inner.whole.clone())
    }

    /// Counts who is here, at everything and at all parts, for as long as these sites are served.
    pub fn counting(&self) -> impl Fn() -> Present + Send + Sync + use<H> {
        let inner = Arc::downgrade(&self.0);
        move || {
            let Some(sites) = inner.upgrade().map(Self) else { return Present::default() };
            let parts: Vec<_> = sites.lock().values().cloned().collect();
            parts.iter().map(Endpoint::present).fold(sites.0.whole.present(), std::ops::Add::add)
        }
    }

    /// The path of a part, as clients have to spell it.
    #[must_use]
    pub fn path(&self, name: &str) -> String {
        [self.0.folder, &encoded(name)].concat()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Endpoint<H>>> {
        self.0.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<H: Host + PartialEq> Site for Sites<H> {
    fn limits(&self) -> Limits {
        Site::limits(&self.0.whole)
    }

    async fn close(&self, reason: &'static str) {
        // From here on parts that are asked for first are closing, too. All stay: what runs there is still answered, and
        // its client's replies come in.
        self.0.whole.shut(reason);
        let parts: Vec<_> = self.lock().values().cloned().collect();
        let mut closing: tokio::task::JoinSet<()> =
            parts.into_iter().map(|part| async move { part.close(reason).await }).collect();
        self.0.whole.close(reason).await;
        while closing.join_next().await.is_some() {}
    }
}

impl<H: Host + PartialEq> Service<Request<Incoming>> for Sites<H> {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, request: Request<Incoming>) -> Answering {
        Service::call(&self.at(request.uri().path()), request)
    }
}

impl<H: Host> Clone for Sites<H> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<H: Host> fmt::Debug for Sites<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sites").field("folder", &self.0.folder).finish_non_exhaustive()
    }
}

/// A name as one segment of a path.
fn encoded(name: &str) -> String {
    let mut segment = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                segment.push(char::from(byte))
            }
            other => segment.push_str(&format!("%{other:02X}")),
        }
    }
    segment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_spelled_in_one_way() {
        for (name, segment) in [("github", "github"), ("my server/2", "my%20server%2F2"), ("ä", "%C3%A4")] {
            assert_eq!(encoded(name), segment);
            assert_eq!(decoded(segment).as_deref(), Some(name));
        }
        for wrong in ["%", "%2", "%zz", "%FF"] {
            assert_eq!(decoded(wrong), None, "{wrong}");
        }
        assert_ne!(encoded(&decoded("%67ithub").unwrap()), "%67ithub");
    }
}
