//! Results that a server allows to be kept, until they are stale or a change note says so.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use cardan_proto::method::Method;
use cardan_proto::session::event::Change;
use serde::Deserialize;
use tokio::time::{Duration, Instant};

/// Kept results of one client, and so of one authorization context: private ones may be kept too.
#[derive(Debug)]
pub(crate) struct Cache {
    max_entries: usize,
    /// Counts change notes: what was asked for before one may be older than it.
    changes: AtomicU64,
    entries: Mutex<HashMap<(Method, Option<Bytes>), Kept>>,
}

#[derive(Debug)]
struct Kept {
    result: Bytes,
    until: Instant,
    uri: Option<Box<str>>,
}

/// How many changes were told when a call was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Generation(u64);

impl Cache {
    pub(crate) fn new(max_entries: usize) -> Self {
        Self { max_entries, changes: AtomicU64::default(), entries: Mutex::default() }
    }

    /// A fresh result of the same method and params, if there is one.
    pub(crate) fn get(&self, method: &Method, params: Option<&Bytes>) -> Option<Bytes> {
        if !method.is_cacheable() {
            return None;
        }
        let mut entries = self.lock();
        let key = (method.clone(), params.cloned());
        let kept = entries.get(&key)?;
        if kept.until > Instant::now() {
            return Some(kept.result.clone());
        }
        entries.remove(&key);
        None
    }

    /// Keeps a result for as long as the server says. No hint, zero or less: not at all.
    pub(crate) fn put(&self, method: &Method, params: Option<&Bytes>, result: &Bytes, asked: Generation) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Hint {
            ttl_ms: Option<i64>,
        }
        #[derive(Deserialize)]
        struct Uri {
            uri: Option<Box<str>>,
        }
        if !method.is_cacheable() {
            return;
        }
        let hint: Option<Hint> = serde_json::from_slice(result).ok();
        let ttl =
            hint.and_then(|hint| hint.ttl_ms).and_then(|ms| u64::try_from(ms).ok()).filter(|ms| *ms > 0);
        let Some(until) = ttl.and_then(|ms| Instant::now().checked_add(Duration::from_millis(ms))) else {
            return;
        };
        let uri =
            params.and_then(|params| serde_json::from_slice::<Uri>(params).ok()).and_then(|uri| uri.uri);
        let mut entries = self.lock();
        // A change note may have overtaken the result on its way to us.
        if asked != self.generation() {
            return;
        }
        if entries.len() >= self.max_entries {
            let now = Instant::now();
            entries.retain(|_, kept| kept.until > now);
        }
        if entries.len() < self.max_entries {
            entries.insert((method.clone(), params.cloned()), Kept { result: result.clone(), until, uri });
        }
    }

    /// To be taken before a call whose result may be kept.
    pub(crate) fn generation(&self) -> Generation {
        Generation(self.changes.load(Ordering::Acquire))
    }

    /// A change note makes what it is about stale at once.
    pub(crate) fn changed(&self, change: &Change) {
        let mut entries = self.lock();
        self.changes.fetch_add(1, Ordering::Release);
        entries.retain(|(method, _), kept| match change {
            Change::Tools => *method != Method::ToolsList,
            Change::Prompts => *method != Method::PromptsList,
            Change::Resources => !matches!(method, Method::ResourcesList | Method::ResourcesTemplatesList),
            Change::Resource(_) => {
                let read = *method == Method::ResourcesRead;
                !(read && kept.uri.as_ref().is_some_and(|kept| change.touches(kept)))
            }
            // What is asked of a task is never kept.
            Change::Task { .. } => true,
        });
    }

    /// Changes may have gone unnoticed: everything is stale.
    pub(crate) fn clear(&self) {
        let mut entries = self.lock();
        self.changes.fetch_add(1, Ordering::Release);
        entries.clear();
    }

    /// A cursor that the server no longer takes: all pages of the list are stale.
    pub(crate) fn forget(&self, list: &Method) {
        self.lock().retain(|(method, _), _| method != list);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(Method, Option<Bytes>), Kept>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(uri: &str) -> Bytes {
        Bytes::from(serde_json::json!({ "uri": uri }).to_string())
    }

    /// `limits.cache_entries`: more are not kept, unless some of those kept are stale.
    #[tokio::test(start_paused = true)]
    async fn a_full_cache_keeps_what_it_has() {
        let cache = Cache::new(2);
        let put = |uri: &str, hint: &'static str| {
            let result = Bytes::from_static(hint.as_bytes());
            cache.put(&Method::ResourcesRead, Some(&read(uri)), &result, cache.generation());
        };
        let has = |uri: &str| cache.get(&Method::ResourcesRead, Some(&read(uri))).is_some();
        put("a:1", "{\"ttlMs\":1000}");
        put("a:2", "{\"ttlMs\":9000}");
        put("a:3", "{\"ttlMs\":9000}");
        assert!(has("a:1") && has("a:2") && !has("a:3"));
        tokio::time::advance(Duration::from_secs(2)).await;
        put("a:3", "{\"ttlMs\":9000}");
        assert!(!has("a:1") && has("a:2") && has("a:3"));
    }

    /// CACHE-10, SUB-16: a change makes stale what it is about, what lies below and what lies above, and
    /// no neighbour whose address merely begins alike.
    #[test]
    fn a_change_reaches_no_neighbour() {
        let rows = [
            ("file:///a", true),
            ("file:///a/b", true),
            ("file:///a/b/c", true),
            ("file:///a/b#part", true),
            ("file:///a/bc", false),
            ("file:///a/", true),
            ("file:///", true),
            ("file:///a/b.txt", false),
            ("file:///c", false),
        ];
        for (uri, stale) in rows {
            let cache = Cache::new(8);
            let result = Bytes::from_static(b"{\"ttlMs\":60000}");
            cache.put(&Method::ResourcesRead, Some(&read(uri)), &result, cache.generation());
            cache.changed(&Change::Resource("file:///a/b".into()));
            assert_eq!(cache.get(&Method::ResourcesRead, Some(&read(uri))).is_none(), stale, "{uri}");
        }
    }
}
