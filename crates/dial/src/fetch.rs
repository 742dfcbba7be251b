//! One page beside the protocol, such as how a server stands.

use std::fmt;

use bytes::Bytes;
use cardan_proto::http::failure::HttpFailure;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use crate::body::{self, Unread};
use crate::build::{Http, HttpError};
use crate::pool::{Pool, Tasks};

/// Why a page was not fetched.
#[derive(Debug)]
#[non_exhaustive]
pub enum FetchError {
    /// The server cannot be reached as described.
    Setup(HttpError),
    /// The server did not answer.
    Failed(HttpFailure),
    /// It did not answer in time.
    TimedOut,
    /// The page is larger than one body may be.
    TooLarge,
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setup(error) => error.fmt(f),
            Self::Failed(failure) => failure.fmt(f),
            Self::TimedOut => f.write_str("no answer came in time"),
            Self::TooLarge => f.write_str("the page is too large"),
        }
    }
}

impl std::error::Error for FetchError {}

impl Http {
    /// The page at the URL, with its status whatever that is. Headers, trust and proxies are those of a link; the connection is
    /// closed afterwards.
    pub async fn fetch(&self) -> Result<(StatusCode, Bytes), FetchError> {
        self.exchange(Method::GET, self.headers.clone(), Bytes::new()).await
    }

    /// The answer to a body that is posted to the URL, with its status whatever that is; the rest is as for a page.
    pub async fn post(
        &self,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), FetchError> {
        let mut headers = self.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        self.exchange(Method::POST, headers, body).await
    }

    async fn exchange(
        &self,
        method: Method,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), FetchError> {
        let (connector, cross_origin) = self.connector().map_err(FetchError::Setup)?;
        let tasks = Tasks::default();
        let pool = Pool::new(connector, &self.limits, cross_origin, &tasks);
        let fetching = async {
            let response = pool.send(method, self.url().clone(), headers, body).await;
            let response = response.map_err(|(failure, _)| FetchError::Failed(failure))?;
            let status = response.status();
            match body::read(response.into_body(), self.limits.body_bytes).await {
                Ok(body) => Ok((status, body)),
                Err(Unread::Oversize) => Err(FetchError::TooLarge),
                Err(Unread::Broken(why)) => Err(FetchError::Failed(HttpFailure::Broken(why))),
            }
        };
        let fetched = tokio::time::timeout(self.limits.call_idle_timeout, fetching).await;
        drop(pool);
        std::future::poll_fn(|cx| tasks.poll_end(cx)).await;
        fetched.unwrap_or(Err(FetchError::TimedOut))
    }
}
