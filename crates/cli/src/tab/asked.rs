//! Values that a server proposes: asked only where a daemon has it running, and not for long.

use std::time::Duration;

use super::known::file;
use super::walk::Walk;
use crate::arguments::is_whole;
use crate::cmd::complete::params;
use crate::named::Named;
use crate::warm;

/// Whoever presses Tab does not wait.
const PATIENCE: Duration = Duration::from_millis(100);

/// What the server proposes for an argument of a prompt or template; nothing where it would have to be started or waited for.
pub(super) fn asked(walk: &Walk<'_>, of: &str, (key, typed): (&str, &str), given: &[&str]) -> Vec<String> {
    let Some(server) = walk.words.first() else { return Vec::new() };
    let Ok(named) = Named::find(server, file(walk)) else { return Vec::new() };
    let pair = format!("{key}={typed}");
    // No file is read, and nobody types into stdin, which is the shell's.
    let given = given.iter().copied().filter(|word| is_whole(word));
    let words = std::iter::once(pair.as_str()).chain(given).map(str::to_owned).collect();
    let Ok(params) = params(of.to_owned(), words) else { return Vec::new() };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    let asking = async {
        let client = warm::peek(&named).await?;
        Some(client.complete(&params).await.ok()?.completion.values)
    };
    let values = runtime.block_on(async { tokio::time::timeout(PATIENCE, asking).await });
    runtime.shutdown_background();
    values.ok().flatten().unwrap_or_default()
}
