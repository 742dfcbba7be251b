//! The daemon itself: servers behind relays, links over a socket, and an end when nobody comes.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cardan_config::Search;
use cardan_gateway::cache::CatalogCache;
use cardan_gateway::catalog::Kind;
use cardan_gateway::fleet::{Fleet, Making, Options, Spec, Upstream};
use cardan_gateway::keys::token;
use cardan_gateway::relay::{self, Explain, Isolation};
use cardan_gateway::reload::{Follow, Following};
use cardan_gateway::warm::{Open, Warm};
use cardan_proto::limits::Limits;
use cardan_proto::limits::fleet::GRACE;
use cardan_proto::session::config::Attribution;
use cardan_transport::socket::{Listener, SocketLink};
use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::args::DaemonArgs;
use crate::cmd::config::variable;
use crate::cmd::demo::unserved;
use crate::cmd::gateway::told::{told_of, turned};
use crate::cmd::servers::Recipe;
use crate::cmd::servers::row::Row;
use crate::daemon::place::{Place, user};
use crate::daemon::talk::{Known, PROMPT, Say, Want, hear, nod, say};
use crate::failure::{Failure, pack_finding};
use crate::hangup::Hangups;
use crate::interrupt::Interrupts;
use crate::log::{Level, Log};

pub(super) async fn run(args: &DaemonArgs, search: Search, place: Place) -> Result<(), Failure> {
    let (stop, hangups) = (Interrupts::watch()?, Hangups::watch()?);
    if args.on_demand {
        // Of a session of its own, so that what happens at the terminal concerns it no more. It has one already at worst.
        let _ = rustix::process::setsid();
    }
    let Some(lock) = hold(&place)? else {
        return match args.on_demand {
            true => word("taken"),
            false => Err(Failure::usage("a daemon runs already for this configuration and folder")
                .next("see it with `cardan daemon status`, or end it with `cardan daemon stop`")),
        };
    };
    let listener = Listener::bind_unix(place.socket()).await.map_err(unserved)?;
    let (daemon, keeping) = Daemon::start(args, search)?;
    let address = format!("unix://{}", place.socket().display());
    args.log.start(&address, &format!("keeping servers at {address}"));
    if args.on_demand {
        word("ready")?;
    }
    let links = daemon.attend_all(&listener, args, &stop, hangups).await;
    // Whoever comes from now on finds nobody and starts another.
    drop((listener, lock));
    let ending = daemon.end(links, keeping);
    stop.unless_twice(ending).await;
    Ok(())
}

/// Says one word to who started us. Nobody may be there any more.
fn word(word: &str) -> Result<(), Failure> {
    let _ = writeln!(io::stdout(), "{word}").and_then(|()| io::stdout().flush());
    Ok(())
}

/// Holds the place for as long as it is kept; nothing: somebody else does.
fn hold(place: &Place) -> Result<Option<File>, Failure> {
    let path = place.lock();
    let failed = |error: io::Error| Failure::usage(format!("{} cannot be held: {error}", path.display()));
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
    let file = file.map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// What all links share.
struct Daemon {
    warm: Warm,
    token: String,
    folder: String,
    /// How many are here.
    links: watch::Sender<usize>,
    /// Someone wants the configuration to be looked at now.
    wishes: mpsc::Sender<()>,
    /// Counts the looks that brought something.
    looks: watch::Receiver<u64>,
    asked_to_stop: Notify,
    /// Those who wait for our end.
    mourners: Mutex<Vec<UnixStream>>,
    cache: Option<CatalogCache>,
}

/// Follows the configuration and tells what happens.
struct Keeping {
    stop: mpsc::Sender<()>,
    task: JoinHandle<()>,
}

impl Daemon {
    fn start(args: &DaemonArgs, search: Search) -> Result<(Arc<Self>, Keeping), Failure> {
        let folder = search.cwd.display().to_string();
        let recipe = Recipe::new(search);
        let follow = Follow::read(recipe.search.clone());
        let cache = CatalogCache::of_user(variable);
        let options = Options { cache: cache.clone(), ..Options::default() };
        let fleet = Fleet::start(kept(recipe.usable(follow.config(), args.log)?), options);
        let token = token().map_err(|error| Failure::usage(format!("no token can be made: {error}")))?;
        let said = token.clone();
        let explain = Explain::new(move |error, found, secrets| {
            let mut told = Failure::from(error).seen(found).hiding(secrets).parcel();
            told["token"] = json!(said);
            told
        });
        let limits = Limits { drain_timeout: GRACE, ..Limits::DEFAULT };
        let options = relay::Options { explain: Some(explain), limits, ..relay::Options::default() };
        let warm = Warm::new(fleet.clone(), options);
        let every = Limits::DEFAULT.config_poll_interval;
        let following = Following::start(fleet, follow, every, move |config| kept(recipe.specs(config)));
        let (wishes, wished) = mpsc::channel(1);
        let (looked, looks) = watch::channel(0);
        let daemon = Arc::new(Self {
            warm,
            token,
            folder,
            links: watch::Sender::new(0),
            wishes,
            looks,
            asked_to_stop: Notify::new(),
            mourners: Mutex::default(),
            cache,
        });
        let keeping = Keeping::start(Arc::clone(&daemon), following, wished, looked, args.log);
        Ok((daemon, keeping))
    }

    /// Serves whoever comes, until it is time to end. What is left then may finish.
    async fn attend_all(
        self: &Arc<Self>,
        listener: &Listener,
        args: &DaemonArgs,
        stop: &Interrupts,
        mut hangups: Hangups,
    ) -> JoinSet<()> {
        let mut links = JoinSet::new();
        let mut idle = std::pin::pin!(self.idle(args.idle));
        loop {
            tokio::select! {
                accepted = listener.accept_unix() => match accepted {
                    Ok(stream) => {
                        let (daemon, here) = (Arc::clone(self), Here::new(&self.links));
                        links.spawn(async move {
                            // Whoever leaves in the middle of a word concerns nobody else.
                            let _ = daemon.attend(stream).await;
                            drop(here);
                        });
                    }
                    Err(error) => {
                        args.log.warn("accept", &error.to_string());
                        tokio::time::sleep(PAUSE).await;
                    }
                },
                Some(_) = links.join_next() => {}
                // Whether somebody wants it or the terminal is gone: it outlives terminals, and looking does no harm.
                _ = hangups.next() => drop(self.wishes.try_send(())),
                () = args.log.asked(stop) => break,
                () = self.asked_to_stop.notified() => break,
                () = &mut idle => {
                    args.log.say(Level::Info, "idle", None, "nobody has called for a while");
                    break;
                }
            }
        }
        links
    }

    /// Waits until nobody has been here for so long.
    async fn idle(&self, after: Duration) {
        if after.is_zero() {
            return std::future::pending().await;
        }
        let mut links = self.links.subscribe();
        loop {
            // The sender lives as long as we do.
            let _ = links.wait_for(|links| *links == 0).await;
            if timeout(after, links.wait_for(|links| *links > 0)).await.is_err() {
                return;
            }
        }
    }

    async fn attend(&self, stream: UnixStream) -> io::Result<()> {
        // The folder lets nobody else in; this is told by the kernel, whatever became of the folder.
        if stream.peer_cred()?.uid() != user() {
            return Ok(());
        }
        let want = timeout(PROMPT, hear(&stream)).await??;
        // A server may take its time to start; whoever waits knows by this that somebody is here.
        nod(&stream).await?;
        match want {
            Want::Peek(known) if !self.runs(&known) => say(&stream, &Say::Cold { why: None }).await,
            Want::Serve { known, tool } => self.serve(stream, &known, tool.as_deref()).await,
            Want::Peek(known) => self.serve(stream, &known, None).await,
            Want::Ping(known) => match self.open(&known).await {
                Ok(open) => match open.ping().await {
                    Ok(()) => say(&stream, &Say::Alive).await,
                    Err(error) => {
                        let secrets = self.upstream(&known).map(|upstream| upstream.secrets().clone());
                        let failure = Failure::from(error).hiding(&secrets.unwrap_or_default()).parcel();
                        say(&stream, &Say::Failed { failure }).await
                    }
                },
                Err(why) => say(&stream, &Say::Cold { why }).await,
            },
            Want::LastWords(known) if !self.runs(&known) => say(&stream, &Say::Cold { why: None }).await,
            Want::LastWords(known) => match self.open(&known).await {
                Ok(open) => {
                    let found = open.last_found().iter().map(pack_finding).collect();
                    say(&stream, &Say::Words { stderr: open.last_words(), found }).await
                }
                Err(why) => say(&stream, &Say::Cold { why }).await,
            },
            Want::Status => say(&stream, &Say::Standing(self.standing())).await,
            Want::Stop => {
                say(&stream, &Say::Bye).await?;
                self.mourners.lock().unwrap_or_else(PoisonError::into_inner).push(stream);
                self.asked_to_stop.notify_one();
                Ok(())
            }
        }
    }

    /// Serves one who speaks with a server.
    async fn serve(&self, stream: UnixStream, known: &Known, tool: Option<&str>) -> io::Result<()> {
        let open = match self.open(known).await {
            Ok(open) => open,
            Err(why) => return say(&stream, &Say::Cold { why }).await,
        };
        let revision = open.revision().date().to_owned();
        let tool = tool.and_then(|tool| self.upstream(known)?.told(Kind::Tools, tool));
        let tool = tool.map(|tool| tool.as_str().to_owned()).filter(|tool| tool.len() <= TOLD_BYTES);
        let greeting = open.greeting().and_then(|greeting| String::from_utf8(greeting.to_vec()).ok());
        let greeting = greeting.filter(|greeting| greeting.len() <= TOLD_BYTES);
        let token = self.token.clone();
        say(&stream, &Say::Ready { revision, greeting, token, tool }).await?;
        open.serve(SocketLink::unix(stream, &Limits::DEFAULT)).await;
        Ok(())
    }

    /// Reaches a server, if it is the one that is meant. An error says why not, where the other way will not tell.
    async fn open(&self, known: &Known) -> Result<Open, Option<String>> {
        let upstream = match self.upstream(known) {
            Some(upstream) => upstream,
            None => {
                self.look_now().await;
                self.upstream(known).ok_or_else(|| {
                    Some(format!(
                        "it has no server `{}` that is configured so, and with these variables",
                        known.server
                    ))
                })?
            }
        };
        // What is wrong with the server is seen by whoever starts it for themselves.
        self.warm.open(&upstream).await.map_err(|_| None)
    }

    fn upstream(&self, known: &Known) -> Option<Arc<Upstream>> {
        let upstream = self.warm.fleet().upstream(&known.server)?;
        (upstream.identity() == known.identity).then_some(upstream)
    }

    fn runs(&self, known: &Known) -> bool {
        self.upstream(known).is_some_and(|upstream| upstream.status().health.is_up())
    }

    /// The files may say something else by now.
    async fn look_now(&self) {
        let mut looks = self.looks.clone();
        looks.borrow_and_update();
        // Full: a look is wanted already.
        let _ = self.wishes.try_send(());
        let _ = timeout(PROMPT, looks.changed()).await;
    }

    fn standing(&self) -> Value {
        let servers = self.warm.fleet().upstreams();
        let rows = servers.iter().map(|upstream| {
            let row = Row::of(upstream);
            let mut said = row.health();
            said["brief"] = json!(row.brief());
            said
        });
        json!({
            "pid": std::process::id(),
            "version": env!("CARGO_PKG_VERSION"),
            "folder": self.folder,
            // Whoever asks is here, too.
            "links": self.links.borrow().saturating_sub(1),
            "servers": rows.collect::<Vec<_>>(),
        })
    }

    /// Lets what runs finish, then ends all servers.
    async fn end(&self, mut links: JoinSet<()>, keeping: Keeping) {
        const WHY: &str = "the daemon ends";
        keeping.stop().await;
        self.warm.close(WHY);
        let left = async { while links.join_next().await.is_some() {} };
        // Who has not finished by then is cut off.
        let _ = timeout(GRACE + Limits::DEFAULT.farewell_timeout, left).await;
        links.shutdown().await;
        self.warm.end(WHY).await;
        if let Some(cache) = &self.cache {
            cache.prune();
        }
    }
}

/// A server or a tool that says more of itself is asked by those who call it.
const TOLD_BYTES: usize = 256 << 10;

/// A lack of descriptors passes.
const PAUSE: Duration = Duration::from_millis(100);

/// Servers for one command after another: started by the first that wants one, shared by those that come, and timed by each
/// command for itself.
fn kept(specs: Vec<Spec>) -> Vec<Spec> {
    // What every command can be asked: one process is enough for those that can be asked no more.
    let asked = json!({ "elicitation": { "form": {}, "url": {} } });
    let kept = specs.into_iter().map(|spec| {
        let isolation = match spec.isolation {
            Isolation::Call => Isolation::Call,
            _ => Isolation::Shared,
        };
        let spec = Spec { lazy: true, call_timeout: None, isolation, ..spec }.lent(&asked);
        // As without a daemon, where commands call one after another: what nobody can claim ends the only call there is.
        let making = spec.making.map(|making| Making {
            connector: making.connector.attribution(Attribution::OnlyCall),
            ..making
        });
        Spec { making, ..spec }
    });
    kept.collect()
}

/// Counted as someone who is here.
struct Here(watch::Sender<usize>);

impl Here {
    fn new(links: &watch::Sender<usize>) -> Self {
        links.send_modify(|links| *links += 1);
        Self(links.clone())
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.0.send_modify(|links| *links -= 1);
    }
}

impl Keeping {
    fn start(
        daemon: Arc<Daemon>,
        mut following: Following,
        mut wished: mpsc::Receiver<()>,
        looked: watch::Sender<u64>,
        log: Log,
    ) -> Self {
        let (stop, mut stopped) = mpsc::channel(1);
        let mut events = daemon.warm.fleet().events();
        let task = tokio::spawn(async move {
            loop {
                tokio::select! {
                    event = events.recv() => match event {
                        Ok(event) => {
                            told_of(daemon.warm.fleet(), &event, log);
                            daemon.warm.sweep();
                        }
                        // What was missed is past.
                        Err(RecvError::Lagged(_)) => {}
                        Err(RecvError::Closed) => break,
                    },
                    Some(turn) = following.next() => {
                        turned(&turn, log);
                        daemon.warm.sweep();
                        looked.send_modify(|looks| *looks += 1);
                    }
                    Some(()) = wished.recv() => following.look_now(),
                    _ = stopped.recv() => break,
                }
            }
            following.stop().await;
        });
        Self { stop, task }
    }

    async fn stop(self) {
        drop(self.stop);
        // It was told to end; how it did does not matter.
        let _ = self.task.await;
    }
}
