//! A configuration that is followed while it is in force.
//!
//! Files are looked at every now and then: by their stamps, and by their contents only where a stamp says that there is
//! something to see. What looks the same twice is taken over, so a file that is being written is left alone. What has a
//! new problem is refused as a whole: the old configuration stays in force until the files are right again.
//! Files that values come from are part of it: what a server was started with stays in force as well.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use cardan_config::file::read_plain;
use cardan_config::resolve::Resolved;
use cardan_config::server::{EnvPolicy, Server};
use cardan_config::trust::Standing;
use cardan_config::{Config, Problem, Search};
use cardan_proto::dialect::Dialect;
use cardan_proto::limits::Limits;
use cardan_proto::limits::config::FILE_BYTES;
use cardan_proto::limits::fleet::{READINGS, RECENT, TURNS};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::configured::here;
use crate::fleet::{Fleet, Reloaded, Spec};
use crate::reach::way_to;

/// A configuration, and how its files looked last.
#[derive(Debug)]
pub struct Follow {
    search: Search,
    /// In force.
    config: Arc<Config>,
    /// As they are in force.
    expanded: Vec<Expanded>,
    files: Vec<PathBuf>,
    stamps: Vec<Option<Stamp>>,
    /// Of what was judged last.
    contents: u64,
    phase: Phase,
}

/// How far a change has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Quiet,
    /// Something is different; it is judged when it looks the same again.
    Stirred,
}

/// What a look at the files brought.
#[derive(Debug)]
pub enum Look {
    /// They say what they said.
    Same,
    /// They are changing.
    Changing,
    /// They say something else that is wrong: what is in force stays so.
    Refused(Vec<Problem>),
    /// They say something else, which is in force now.
    Taken(Arc<Config>),
}

impl Follow {
    /// Reads a configuration, to be followed from now on.
    #[must_use]
    pub fn read(search: Search) -> Self {
        let files = search.candidates(&Config::default());
        let Reading { config, expanded, files, stamps, contents } = Reading::of(&search, files, &[]);
        Self { search, config: Arc::new(config), expanded, files, stamps, contents, phase: Phase::Quiet }
    }

    /// The configuration in force.
    #[must_use]
    pub fn config(&self) -> &Arc<Config> {
        &self.config
    }

    /// Looks at the files. Reads them only where something is different.
    pub fn look(&mut self) -> Look {
        let stamps = stamps(&self.files);
        if stamps != self.stamps {
            (self.stamps, self.phase) = (stamps, Phase::Stirred);
            return Look::Changing;
        }
        match self.phase {
            Phase::Quiet => Look::Same,
            Phase::Stirred => self.judge(),
        }
    }

    /// Looks at the files because someone says that they are right: they are judged at once, and whether they say
    /// something else or not.
    pub fn look_now(&mut self) -> Look {
        self.phase = Phase::Quiet;
        self.verdict()
    }

    fn judge(&mut self) -> Look {
        self.phase = Phase::Quiet;
        if contents(&self.files) == self.contents {
            return Look::Same;
        }
        self.verdict()
    }

    fn verdict(&mut self) -> Look {
        // The imports of a file that cannot be read are not known, and those in force still count.
        let mut in_force = self.search.candidates(&self.config);
        in_force.extend(self.expanded.iter().flat_map(|server| server.sources.iter().cloned()));
        let reading = Reading::of(&self.search, self.files.clone(), &in_force);
        (self.files, self.stamps, self.contents) = (reading.files, reading.stamps, reading.contents);
        let known = |new: &&Problem| self.config.problems.iter().any(|old| same(old, new));
        let mut refused: Vec<Problem> =
            reading.config.problems.iter().filter(|new| !known(new)).cloned().collect();
        refused.extend(reading.expanded.iter().filter_map(|new| new.worse_than(&self.expanded)).cloned());
        if !refused.is_empty() {
            return Look::Refused(refused);
        }
        (self.config, self.expanded) = (Arc::new(reading.config), reading.expanded);
        Look::Taken(Arc::clone(&self.config))
    }
}

/// What became of an enabled server when its values were put in, and a way to it was made of them.
#[derive(Debug)]
struct Expanded {
    name: String,
    standing: Standing,
    problem: Option<Problem>,
    /// The files that values were taken from.
    sources: Vec<PathBuf>,
}

impl Expanded {
    fn all(config: &Config, search: &Search) -> Vec<Self> {
        here(config, search, |surroundings| {
            let enabled = config.servers.iter().filter(|server| server.enabled);
            let expanded = enabled.map(|server| {
                let (outcome, sources) = server.resolve_traced(surroundings);
                let name = server.name.clone();
                let problem = match outcome {
                    Ok(resolved) => unreachable(server, &resolved),
                    Err(problem) => Some(problem),
                };
                Self { name, standing: server.origin.standing, problem, sources }
            });
            expanded.collect()
        })
    }

    /// What is wrong with it now, though the one of its name worked: what runs is not taken down for what cannot run. What
    /// came with a project and is not trusted, or not any more, holds up nothing: else whoever writes there could, and
    /// nobody could take trust back while it runs.
    fn worse_than(&self, before: &[Self]) -> Option<&Problem> {
        let problem = self.problem.as_ref()?;
        let seen = matches!(self.standing, Standing::Ours | Standing::Trusted);
        let worked = |old: &Self| old.name == self.name && old.problem.is_none();
        (seen && before.iter().any(worked)).then_some(problem)
    }
}

/// What is wrong with the way to a server, as far as that is known without trying.
fn unreachable(server: &Server, resolved: &Resolved) -> Option<Problem> {
    // Neither variables nor limits make a way a wrong one.
    let error = way_to(resolved, (EnvPolicy::Inherit, Dialect::Standard), &Limits::DEFAULT, None).err()?;
    Some(server.problem(error.field(), resolved.redactor.redact(&error.to_string()).into_owned()))
}

/// A configuration, and how its files looked at the latest before they were read: what changes in between is seen by the
/// next look.
struct Reading {
    config: Config,
    expanded: Vec<Expanded>,
    files: Vec<PathBuf>,
    stamps: Vec<Option<Stamp>>,
    contents: u64,
}

impl Reading {
    fn of(search: &Search, files: Vec<PathBuf>, more: &[PathBuf]) -> Self {
        settled(files, |files| {
            let (stamps, contents) = (stamps(&files), contents(&files));
            let config = Config::load(search);
            let expanded = Expanded::all(&config, search);
            let mut next = search.candidates(&config);
            next.extend(expanded.iter().flat_map(|server| server.sources.iter().cloned()));
            next.extend_from_slice(more);
            next.sort();
            next.dedup();
            (Self { config, expanded, files, stamps, contents }, next)
        })
    }
}

/// Reads until a reading names the files that it looked at, or has been tried often enough.
fn settled<T>(mut files: Vec<PathBuf>, read: impl Fn(Vec<PathBuf>) -> (T, Vec<PathBuf>)) -> T {
    let mut left = READINGS;
    loop {
        left -= 1;
        let (reading, next) = read(files.clone());
        if left == 0 || next == files {
            return reading;
        }
        files = next;
    }
}

/// Is it the same thing that is wrong, wherever it stands by now?
fn same(one: &Problem, two: &Problem) -> bool {
    let what = |problem: &Problem| (problem.file.clone(), problem.server.clone(), problem.message.clone());
    what(one) == what(two)
}

/// What tells that a file was written, without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    bytes: u64,
    changed: Option<SystemTime>,
    place: u64,
    /// Of a file that was written just now: it may be written again before its time moves on.
    contents: Option<u64>,
}

fn stamps(files: &[PathBuf]) -> Vec<Option<Stamp>> {
    files.iter().map(|file| stamp(file)).collect()
}

fn stamp(file: &Path) -> Option<Stamp> {
    let about = fs::metadata(file).ok()?;
    let changed = about.modified().ok();
    let recent = changed.and_then(|at| at.elapsed().ok()).is_none_or(|ago| ago < RECENT);
    #[cfg(unix)]
    let place = std::os::unix::fs::MetadataExt::ino(&about);
    #[cfg(not(unix))]
    let place = 0;
    let contents = recent.then(|| contents(&[file.to_owned()]));
    Some(Stamp { bytes: about.len(), changed, place, contents })
}

/// Told apart, not guarded: nobody gains anything by two configurations that look the same.
fn contents(files: &[PathBuf]) -> u64 {
    let mut hash = DefaultHasher::new();
    for file in files {
        // What cannot be read whole is not used either.
        (file, read_plain(file, FILE_BYTES).ok()).hash(&mut hash);
    }
    hash.finish()
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// It is in force.
    Taken(Reloaded),
    /// It is wrong, and what was in force stays so.
    Refused(Vec<Problem>),
}

/// A fleet that goes over to whatever its configuration says. Stops following when it is dropped.
#[derive(Debug)]
pub struct Following {
    turns: mpsc::Receiver<Turn>,
    /// Someone wants a look now.
    wanted: Arc<Notify>,
    /// They want more than that.
    retry: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Following {
    /// Begins to follow, with a look every so often. Needs a tokio runtime.
    pub fn start(
        fleet: Fleet,
        mut follow: Follow,
        every: Duration,
        specs: impl Fn(&Config) -> Vec<Spec> + Send + 'static,
    ) -> Self {
        let (tell, turns) = mpsc::channel(TURNS);
        let wanted = Arc::new(Notify::new());
        let retry = Arc::new(AtomicBool::new(false));
        let (asked, again) = (Arc::clone(&wanted), Arc::clone(&retry));
        let task = tokio::spawn(async move {
            loop {
                // From here on, so that neither slow looks nor wishes bring the pace out of step.
                let look = tokio::select! {
                    () = sleep(every) => Follow::look,
                    () = asked.notified() => Follow::look_now,
                };
                // A slow disk hinders nobody.
                let looked = tokio::task::spawn_blocking(move || (look(&mut follow), follow)).await;
                let Ok((look, back)) = looked else { return };
                follow = back;
                let turn = match look {
                    Look::Same | Look::Changing => continue,
                    Look::Refused(problems) => Turn::Refused(problems),
                    Look::Taken(config) => Turn::Taken(fleet.reload(specs(&config)).await),
                };
                // After the reload: what that replaces is not tried before.
                if again.swap(false, Ordering::SeqCst) {
                    fleet.retry();
                }
                if tell.send(turn).await.is_err() {
                    return;
                }
            }
        });
        Self { turns, wanted, retry, task }
    }

    /// Looks at the files at once, without waiting for them to stand still, and tells what became of it even where they
    /// say what they said. Several wishes before the look are one.
    pub fn look_now(&self) {
        self.wanted.notify_one();
    }

    /// The same, and then tries at once whatever is not up. For a person who says so: they have mended something, and not
    /// always in a file.
    pub fn retry_now(&self) {
        self.retry.store(true, Ordering::SeqCst);
        self.look_now();
    }

    /// The next change and what became of it; nothing: there will be none.
    pub async fn next(&mut self) -> Option<Turn> {
        self.turns.recv().await
    }

    /// Stops following. What a reload has taken out of the fleet by then is ended by the fleet.
    pub async fn stop(mut self) {
        self.task.abort();
        self.turns.close();
        // It was told to end; how it did does not matter.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// What names the same files twice is read no more; what names others for ever is read so often, and the last counts.
    #[test]
    fn readings_are_bounded() {
        let file = |number: usize| vec![PathBuf::from(number.to_string())];
        for (last, readings) in [(0, 1), (1, 2), (READINGS - 1, READINGS), (usize::MAX, READINGS)] {
            let read = Cell::new(0);
            let counted = settled(file(0), |files| {
                read.set(read.get() + 1);
                let number: usize = files[0].to_string_lossy().parse().expect("a number");
                (number, file((number + 1).min(last)))
            });
            assert_eq!((read.get(), counted), (readings, readings - 1), "up to {last}");
        }
    }
}
