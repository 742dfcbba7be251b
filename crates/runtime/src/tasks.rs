//! Handlers that did not finish at once: polled when woken, dropped by name.
//!
//! Each has a waker of its own, so waking one polls one. No task is spawned: handlers live and die
//! with the driver that owns them.

use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use cardan_proto::fast::FastMap;

use crate::service::Handler;

/// What came of polling a handler.
#[derive(Debug)]
pub(crate) enum Polled<T> {
    Ready(T),
    Panicked,
}

/// A set of running handlers by name.
pub(crate) struct Tasks<K, T> {
    running: FastMap<K, Task<T>>,
    /// Made for the first handler that has to wait: most sessions over HTTP never have one.
    ready: Option<Arc<Ready<K>>>,
}

struct Task<T> {
    handler: Handler<T>,
    waker: Waker,
}

/// Names of the handlers to be polled, and the driver to be woken.
struct Ready<K> {
    inner: Mutex<ReadyState<K>>,
}

struct ReadyState<K> {
    names: Vec<K>,
    driver: Option<Waker>,
}

impl<K> Ready<K> {
    fn new() -> Self {
        Self { inner: Mutex::new(ReadyState { names: Vec::new(), driver: None }) }
    }
}

struct TaskWaker<K> {
    name: K,
    ready: Arc<Ready<K>>,
}

impl<K: Copy + Send + Sync + 'static> Wake for TaskWaker<K> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let driver = {
            let mut state = self.ready.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            state.names.push(self.name);
            state.driver.take()
        };
        if let Some(driver) = driver {
            driver.wake();
        }
    }
}

impl<K, T> Tasks<K, T>
where
    K: Copy + Eq + Hash + Send + Sync + 'static,
{
    pub(crate) fn new() -> Self {
        Self { running: FastMap::default(), ready: None }
    }

    /// Polls a new handler in place; only one that is not ready is kept.
    pub(crate) fn start(
        &mut self,
        name: K,
        mut handler: Handler<T>,
        cx: &mut Context<'_>,
    ) -> Option<Polled<T>> {
        // The first poll wakes the driver itself: it polls again with a waker of the handler's own.
        match guarded(&mut handler, cx) {
            Some(polled) => Some(polled),
            None => {
                let ready = Arc::clone(self.ready.get_or_insert_with(|| Arc::new(Ready::new())));
                let waker = Waker::from(Arc::new(TaskWaker { name, ready }));
                let mut own = Context::from_waker(&waker);
                if let Some(polled) = guarded(&mut handler, &mut own) {
                    return Some(polled);
                }
                self.running.insert(name, Task { handler, waker });
                None
            }
        }
    }

    /// Drops a handler. True if it was running.
    pub(crate) fn stop(&mut self, name: K) -> bool {
        self.running.remove(&name).map(let_go).is_some()
    }

    pub(crate) fn clear(&mut self) {
        self.running.drain().for_each(|(_, task)| let_go(task));
    }

    /// Polls those that were woken, each once; hands on each that finished. One that wakes itself gets its
    /// next turn after the link has had its own.
    pub(crate) fn poll(&mut self, cx: &Context<'_>, mut finished: impl FnMut(K, Polled<T>)) {
        let names = self.woken(cx);
        for name in names {
            let Some(task) = self.running.get_mut(&name) else { continue };
            let waker = task.waker.clone();
            if let Some(polled) = guarded(&mut task.handler, &mut Context::from_waker(&waker)) {
                self.stop(name);
                finished(name, polled);
            }
        }
    }

    /// Names to be polled now. Whoever wakes one from here on wakes the driver too.
    fn woken(&self, cx: &Context<'_>) -> Vec<K> {
        let Some(ready) = &self.ready else { return Vec::new() };
        let mut state = ready.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !self.running.is_empty() && !state.driver.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
            state.driver = Some(cx.waker().clone());
        }
        std::mem::take(&mut state.names)
    }
}

/// Drops a handler. What it owns may panic on the way out: that is nobody else's end.
fn let_go<T>(task: Task<T>) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(task)));
}

/// Polls once. A panic is caught: it is one call's failure, not the link's.
fn guarded<T>(handler: &mut Handler<T>, cx: &mut Context<'_>) -> Option<Polled<T>> {
    match catch_unwind(AssertUnwindSafe(|| handler.as_mut().poll(cx))) {
        Ok(Poll::Ready(value)) => Some(Polled::Ready(value)),
        Ok(Poll::Pending) => None,
        Err(_) => Some(Polled::Panicked),
    }
}
