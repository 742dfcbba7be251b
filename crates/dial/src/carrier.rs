//! Requests of others, brought to a server as they are: no link, no session, no redirects to elsewhere.

use std::io;

use bytes::Bytes;
use cardan_proto::http::failure::HttpFailure;
use cardan_proto::session::event::{Delivery, Hurdle};
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use tower_service::Service as _;

use crate::build::{Http, HttpError};
use crate::net::{Conn, Stream};
use crate::pool::{Pool, Tasks};

/// Brings requests to one server, over connections that are kept for the next. They end with it.
pub struct Carrier {
    http: Http,
    pool: Pool,
    _tasks: Tasks,
}

impl Http {
    /// Brings requests of others to this server. Of the URL, origin and trust count.
    pub fn carrier(&self) -> Result<Carrier, HttpError> {
        let (connector, cross_origin) = self.connector()?;
        let tasks = Tasks::default();
        let pool = Pool::new(connector, &self.limits, cross_origin, &tasks);
        Ok(Carrier { http: self.clone(), pool, _tasks: tasks })
    }
}

impl Http {
    /// A stream of bytes to the server, in TLS where the URL says so, for who speaks something else than HTTP.
    pub async fn stream(&self) -> io::Result<Box<dyn Stream>> {
        let (mut connector, _) = self.connector().map_err(io::Error::other)?;
        let uri = Uri::try_from(self.url().to_string()).map_err(io::Error::other)?;
        connector.call(uri).await.map(Conn::into_stream)
    }
}

impl Carrier {
    /// Sends a request, whose target is a path, and waits for the head of its answer. An error says whether it was sent.
    pub async fn carry(
        &self,
        request: Request<Bytes>,
    ) -> Result<Response<Incoming>, (HttpFailure, Delivery)> {
        let (parts, body) = request.into_parts();
        let url = self.http.url().join(parts.uri.path()).map_err(|why| {
            let why = why.to_string().into();
            (HttpFailure::Connect { hurdle: Hurdle::Config, why }, Delivery::NotSent)
        })?;
        self.pool.send(parts.method, url, parts.headers, body).await
    }
}

impl std::fmt::Debug for Carrier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Carrier").field(&self.http).finish()
    }
}
