//! What tests of kept connections share: how long they wait, what for, and where peers are.

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use cardan::client::Watcher;
use cardan::proto::upkeep::condition::Transition;

/// Whatever one test waits for happens within this, also on a machine that is busy: some peers take seconds to start.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what} took too long"))
}

/// The next transition to a condition that begins so.
pub(crate) async fn until(watcher: &mut Watcher<Transition>, wanted: &str) -> Transition {
    within(wanted, async {
        loop {
            let transition = watcher.next().await.expect("it is kept");
            if transition.to.to_string().starts_with(wanted) {
                return transition;
            }
        }
    })
    .await
}

/// The conditions that were told of.
pub(crate) fn told(mut watcher: Watcher<Transition>) -> Vec<String> {
    std::iter::from_fn(|| watcher.try_next()).map(|transition| transition.to.to_string()).collect()
}

/// How a peer is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carried {
    Child,
    Http,
}

/// The command line of the server on the Python SDK, or of the reference server of the field; nothing when it is not
/// installed.
pub(crate) fn peer(name: &str, carried: Carried) -> Option<Vec<PathBuf>> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = root.join("peers").join(name);
    let (installed, command) = match (name, carried) {
        ("python-v1", _) => {
            let python = root.join("target/peers").join(name).join("bin/python");
            let mut command = vec![python.clone(), folder.join("server.py")];
            command.extend((carried == Carried::Http).then(|| "--http".into()));
            (python.exists(), command)
        }
        (_, carried) => {
            let modules = folder.join("node_modules");
            let script = modules.join("@modelcontextprotocol/server-everything/dist/index.js");
            let how = if carried == Carried::Http { "streamableHttp" } else { "stdio" };
            (modules.is_dir(), vec!["node".into(), script, how.into()])
        }
    };
    if !installed {
        assert!(std::env::var_os("CARDAN_PEERS").is_none(), "{name} is required and not installed");
        eprintln!("skipped: {name} is not installed; `cargo xtask test` installs it");
        return None;
    }
    Some(command)
}
