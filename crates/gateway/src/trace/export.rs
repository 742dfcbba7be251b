//! Spans on their way to whoever collects them: a queue, a task, a POST for each batch.
//!
//! Nothing here holds up a call. What finds no room in the queue, or is not taken after some attempts, is counted and gone.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cardan_dial::{FetchError, Http, HttpError};
use cardan_proto::http::failure::HttpFailure;
use cardan_proto::http::redirect::Unfollowed;
use cardan_proto::limits::Limits;
use cardan_proto::limits::trace::{ATTEMPTS, BACKOFF, BATCH, DELAY, FLUSH, POST, QUEUE};
use http::StatusCode;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::otlp;
use super::settings::{Attributes, Settings, shown};
use super::span::Span;
use crate::fleet::lock;

/// What became of spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Tally {
    /// Taken by the collector.
    pub exported: u64,
    /// There were too many at a time.
    pub crowded: u64,
    /// The collector did not take them.
    pub refused: u64,
}

#[derive(Debug, Default)]
struct Counts {
    exported: AtomicU64,
    crowded: AtomicU64,
    refused: AtomicU64,
}

/// Where ended spans are left.
pub(super) struct Exporter {
    spans: Sender<Span>,
    counts: Arc<Counts>,
    /// Dropped: no more are to come.
    stop: Mutex<Option<oneshot::Sender<()>>>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Exporter {
    pub(super) fn start(settings: Settings, tell: impl Fn(&str) + Send + 'static) -> Result<Self, HttpError> {
        let limits = Limits { call_idle_timeout: POST, ..Limits::DEFAULT };
        let mut http = Http::new(&settings.url)?.limits(&limits);
        for (name, value) in &settings.headers {
            http = http.header(name, value)?;
        }
        let (spans, queue) = channel(QUEUE);
        let (stop, stopped) = oneshot::channel();
        let counts = Arc::<Counts>::default();
        let shipping = Shipping {
            http,
            place: shown(&settings.url),
            resource: settings.resource,
            queue,
            batch: Vec::new(),
            stopped: Some(stopped),
            counts: Arc::clone(&counts),
            trouble: Trouble::None,
            tell: Box::new(tell),
        };
        let task = tokio::spawn(shipping.run());
        Ok(Self { spans, counts, stop: Mutex::new(Some(stop)), task: Mutex::new(Some(task)) })
    }

    /// Never waits.
    pub(super) fn put(&self, span: Span) {
        if self.spans.try_send(span).is_err() {
            self.counts.crowded.fetch_add(1, Relaxed);
        }
    }

    pub(super) fn tally(&self) -> Tally {
        let Counts { exported, crowded, refused } = &*self.counts;
        Tally {
            exported: exported.load(Relaxed),
            crowded: crowded.load(Relaxed),
            refused: refused.load(Relaxed),
        }
    }

    /// Exports what there is, in the time that there is. What is left then counts as refused.
    pub(super) async fn close(&self) {
        drop(lock(&self.stop).take());
        let Some(mut task) = lock(&self.task).take() else { return };
        // Whoever ends has little time, and a collector that is away has all of it.
        if timeout(FLUSH, &mut task).await.is_err() {
            task.abort();
            // It ends at once, and with it the queue: what comes later is counted.
            let _ = task.await;
        }
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        if let Some(task) = lock(&self.task).take() {
            task.abort();
        }
    }
}

/// Was the last batch not taken?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    None,
    Told,
}

/// What a task needs to export.
struct Shipping {
    http: Http,
    /// Where that leads, for people.
    place: String,
    resource: Attributes,
    queue: Receiver<Span>,
    /// What is handed in next, or just now.
    batch: Vec<Span>,
    /// None: we were asked to stop, and export what there is.
    stopped: Option<oneshot::Receiver<()>>,
    counts: Arc<Counts>,
    trouble: Trouble,
    tell: Box<dyn Fn(&str) + Send>,
}

impl Shipping {
    async fn run(mut self) {
        while self.fill().await > 0 {
            self.deliver().await;
            self.batch.clear();
        }
    }

    /// Waits for spans, and then for a moment for more of them. None: there will be none.
    async fn fill(&mut self) -> usize {
        let mut until = None;
        loop {
            if self.batch.len() >= BATCH
                || (self.stopped.is_none() && !self.batch.is_empty() && self.queue.is_empty())
            {
                return self.batch.len();
            }
            let room = BATCH - self.batch.len();
            tokio::select! {
                more = self.queue.recv_many(&mut self.batch, room) => {
                    if more == 0 {
                        return self.batch.len();
                    }
                    until.get_or_insert_with(|| Instant::now() + DELAY);
                }
                () = asked(&mut self.stopped) => self.queue.close(),
                () = late(until) => return self.batch.len(),
            }
        }
    }

    /// Hands in a batch, if need be several times.
    async fn deliver(&mut self) {
        let body = Bytes::from(otlp::request(&self.resource, &self.batch));
        let mut pause = BACKOFF;
        for attempt in 1.. {
            let (why, again) = match self.http.post(otlp::CONTENT_TYPE, body.clone()).await {
                Ok((status, answer)) if status.is_success() => {
                    return self.delivered(self.batch.len(), &answer);
                }
                Ok((status, _)) => (format!("HTTP status {status}"), is_passing(status)),
                Err(error) => (said(&error), !matches!(error, FetchError::Setup(_))),
            };
            if self.trouble == Trouble::None {
                self.trouble = Trouble::Told;
                (self.tell)(&format!("spans cannot be exported to {}: {why}", self.place));
            }
            // Nobody waits for what comes later once we are asked to stop.
            if !again || attempt == ATTEMPTS || self.stopped.is_none() {
                break;
            }
            tokio::select! {
                () = sleep(pause) => pause *= 2,
                () = asked(&mut self.stopped) => self.queue.close(),
            }
        }
        self.counts.refused.fetch_add(self.batch.len() as u64, Relaxed);
    }

    fn delivered(&mut self, spans: usize, answer: &[u8]) {
        let refused = otlp::rejected(answer).min(spans as u64);
        self.counts.refused.fetch_add(refused, Relaxed);
        self.counts.exported.fetch_add(spans as u64 - refused, Relaxed);
        if self.trouble == Trouble::Told {
            self.trouble = Trouble::None;
            (self.tell)("spans are exported again");
        }
    }
}

/// Spans that are given up count as well, those included whose batch was under way.
impl Drop for Shipping {
    fn drop(&mut self) {
        self.queue.close();
        let mut left = self.batch.len() as u64;
        while self.queue.try_recv().is_ok() {
            left += 1;
        }
        self.counts.refused.fetch_add(left, Relaxed);
    }
}

/// Waits until we are asked to stop, the first time only.
async fn asked(stopped: &mut Option<oneshot::Receiver<()>>) {
    match stopped {
        Some(asked) => {
            // The other end is dropped, never used.
            let _ = asked.await;
            *stopped = None;
        }
        None => std::future::pending().await,
    }
}

async fn late(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}

/// Why there was no answer. Of an address that it leads to no more is shown than of the one that was asked.
fn said(error: &FetchError) -> String {
    match error {
        FetchError::Failed(HttpFailure::Redirect(Unfollowed { why, to })) if !to.is_empty() => {
            format!("{why} (it leads to {})", shown(to))
        }
        error => error.to_string(),
    }
}

/// May the same request be taken later? (OTLP, failures over HTTP)
fn is_passing(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 502 | 503 | 504)
}

#[cfg(test)]
mod tests {
    use super::super::context::TraceParent;
    use super::super::span::Kind;
    use super::*;
    use cardan_proto::http::redirect::RedirectRefusal;
    use cardan_proto::method::Method;

    fn span() -> Span {
        let at = TraceParent { trace: [1; 16], span: [1; 8], flags: 1 };
        Span::begin(Kind::Server, at, None, None, &Method::Ping)
    }

    /// A collector that takes nothing costs room and time that are bounded, and no caller ever waits.
    #[tokio::test(start_paused = true)]
    async fn what_finds_no_room_is_counted_and_the_end_does_not_wait() {
        // Connections are made, and nobody ever reads from them.
        let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", mute.local_addr().unwrap());
        let settings = Settings::of(Some(&url), &|_| None).unwrap().unwrap();
        let exporter = Exporter::start(settings, |_| {}).unwrap();
        for _ in 0..QUEUE + 3 {
            exporter.put(span());
        }
        assert_eq!(exporter.tally(), Tally { crowded: 3, ..Tally::default() });
        let begun = Instant::now();
        exporter.close().await;
        assert!(begun.elapsed() <= FLUSH + DELAY, "{:?}", begun.elapsed());
        exporter.put(span());
        // Nobody read them, so they are gone: none is missing from what is told.
        let refused = u64::try_from(QUEUE).unwrap();
        assert_eq!(exporter.tally(), Tally { crowded: 4, refused, ..Tally::default() });
    }

    /// T27: keys in the address that a collector leads to are shown as little as those in its own.
    #[test]
    fn t27_a_redirect_shows_no_path() {
        for (to, shown) in
            [("https://otlp.example/api/s3cret-key/v1/traces", "https://otlp.example"), ("/s3cret", "...")]
        {
            let redirect = Unfollowed { why: RedirectRefusal::ForeignOrigin, to: to.into() };
            let said = said(&FetchError::Failed(HttpFailure::Redirect(redirect)));
            assert!(said.ends_with(&format!("(it leads to {shown})")), "{said}");
        }
    }
}
