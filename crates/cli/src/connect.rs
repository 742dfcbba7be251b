//! One session with one server for the length of a command.

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cardan_client::{CallError, Client, Connector, Page, ToolTask};
use cardan_dial::Http;
use cardan_proto::era::Era;
use cardan_proto::finding::{Rule, Strictness};
use cardan_proto::jsonrpc::fault::code;
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::model::{Raw, Tool};
use cardan_proto::secret::Redactor;
use cardan_proto::session::config::{Attribution, Shapes};
use cardan_proto::session::event::{CallOptions, Delivery, LogLevel, Progress, Refusal, Vetting, Wanted};
use cardan_transport::socket;
use cardan_transport::spawn::{EnvPolicy, Spawn};
use cardan_ws::{Dial, dial};

use crate::answers::Person;
use crate::apart;
use crate::args::Options;
use crate::catalogs::Shelf;
use crate::ear::Ear;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::memory::Memory;
use crate::named::Named;
use crate::output::{print_frame, tell};
use crate::progress::{self, Bounds, during};
use crate::talk::console::Console;
use crate::target::Target;
use crate::trace::Trace;
use crate::warm::{Warm, Wish};
use crate::watch::{Loudness, Watch};

/// A session, and everything that is told about it.
pub(crate) struct Connection {
    client: Client,
    target: Target,
    /// What is known of the daemon, if the session goes through it.
    warm: Option<Warm>,
    /// Where what the server offers is kept, if it is a configured one.
    shelf: Option<Shelf>,
    watch: Watch,
    person: Person,
    interrupts: Interrupts,
    /// What the command is for is not sent but shown.
    rehearsal: Option<Trace>,
    /// How long it took until calls could flow.
    pub(crate) opened_in: Duration,
    /// How long any one call may take.
    bounds: Bounds,
}

/// After Ctrl-C: how long the server may take to leave. A second Ctrl-C ends the wait.
const FAREWELL: Duration = Duration::from_secs(1);

/// How often a server may want visits before it takes one call.
const MAX_VISITS: usize = 3;

/// What a person is told while a call runs that says nothing itself.
const WAITING: &str = "waiting for the answer";

/// The same while its work runs as a task.
const RUNNING: &str = "waiting for the task";

impl Connection {
    /// Starts or dials the server and opens a session.
    pub(crate) async fn open(target: &Target, options: &Options) -> Result<Self, Failure> {
        Self::open_with(target, options, None, None).await
    }

    /// The same for who listens.
    pub(crate) async fn open_listening(
        target: &Target,
        options: &Options,
        ear: Ear,
    ) -> Result<Self, Failure> {
        Self::open_with(target, options, None, Some(ear)).await
    }

    /// The same for whoever calls this tool.
    pub(crate) async fn open_for(target: &Target, options: &Options, tool: &str) -> Result<Self, Failure> {
        Self::open_with(target, options, Some(tool), None).await
    }

    async fn open_with(
        target: &Target,
        options: &Options,
        tool: Option<&str>,
        ear: Option<Ear>,
    ) -> Result<Self, Failure> {
        let interrupts = Interrupts::watch()?;
        let loudness = if options.verbose { Loudness::Verbose } else { Loudness::Normal };
        let limits = limits(options.timeout);
        let console = if options.no_input { None } else { Console::find() };
        let door = tokio::select! {
            door = Door::asking(target, &limits, console.as_ref()) => door?,
            () = interrupts.first() => return Err(interrupted().delivered(Delivery::NotSent)),
        };
        let (shelf, call_limits) = match &door {
            Door::Named(named) => (named.shelf(), named.bounded(&limits, options)),
            _ => (None, limits.clone()),
        };
        let (watch, person) = (
            Watch::new(loudness, options.strictness(), door.secrets(), ear),
            Person::new(options, target, console, door.sampling(), door.secrets()),
        );
        let trace = Trace::wanted(options, watch.secrets());
        let memory = Memory::of(target, shelf.as_ref(), options);
        let mut connector = connector(options, &watch, &person, &limits)?;
        if let Some(memory) = &memory {
            connector = memory.lent(connector);
        }
        if let Some(trace) = &trace {
            connector = connector.tap(trace.tap());
        }
        let start = Instant::now();
        if options.quiet {
            progress::silence();
        }
        let opening = async {
            tokio::select! {
                opened = apart(|| reach(door, &connector, &watch, &limits, (options, tool))) => opened,
                () = interrupts.first() => Err(interrupted().delivered(Delivery::NotSent)),
            }
        };
        let opened = during("opening a session", Bounds::within(call_limits.open_timeout), opening).await;
        if let Some(memory) = memory {
            memory.keep();
        }
        let (client, warm) = opened.map_err(|failure| watch.explained(failure))?;
        let opened_in = start.elapsed();
        if let Some(server) = client.server().implementation {
            person.meets(server.name);
        }
        match (client.settled().revision.era(), options.log_level) {
            (_, Some(level)) => client.set_level(level),
            // Modern servers say nothing unless asked; legacy ones have a default of their own.
            (Era::Modern, None) => client.set_level(LogLevel::Info),
            (Era::Legacy, None) => {}
        }
        let rehearsal = trace.filter(|_| options.dry_run);
        let bounds = Bounds::of(&call_limits);
        let target = target.clone();
        Ok(Self { client, target, warm, shelf, watch, person, interrupts, rehearsal, opened_in, bounds })
    }

    /// The client, for what needs no progress.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// How another command is written for this server.
    pub(crate) fn command(&self, verb: &str, more: &str) -> String {
        self.target.command(verb, more)
    }

    /// The tool that is to be called, where it is known without a question.
    pub(crate) fn tool(&self) -> Option<&Tool> {
        self.warm.as_ref().and_then(Warm::tool)
    }

    /// The person, for what a command needs to know.
    pub(crate) fn person(&self) -> &Person {
        &self.person
    }

    /// Keeps what the server offers, all of it, for those who complete and search.
    pub(crate) fn learn<'a>(&self, lists: impl Iterator<Item = (Method, &'a [Raw])>) {
        if let Some(shelf) = &self.shelf {
            shelf.learn(&self.client.settled(), lists);
        }
    }

    /// Tells how what was listed deviates from its shape, where that was not told as it came: who lists wants to know.
    pub(crate) fn tell_misshapen(&self) {
        self.watch.tell_misshapen();
    }

    /// Tells what a command found in a result that the link takes for sound. Fails where nothing may be wrong.
    pub(crate) fn found(&self, rule: Rule, detail: &str, message: String) -> Result<(), Failure> {
        self.watch.found_beside(rule, detail);
        match self.watch.strictness() {
            Strictness::Strict => Err(Failure::of_result(message)),
            Strictness::Standard | Strictness::Lenient => Ok(()),
        }
    }

    /// Asks the server whether it lives.
    pub(crate) async fn ping(&self) -> Result<(), Failure> {
        let Some(warm) = &self.warm else { return self.unless_interrupted(self.client.ping()).await };
        self.unless_left(warm.ping())
            .await
            .map_err(Failure::underway)?
            .map_err(|failure| self.watch.explained(failure))
    }

    /// Makes a call: progress is told, Ctrl-C cancels it on the wire. It is made again after the visits that a server wants
    /// to see first.
    pub(crate) async fn call(&self, method: Method, params: Option<Bytes>) -> Result<Raw, Failure> {
        self.call_with(method, params, Vetting::Vetted).await
    }

    /// The same for what the server may not have.
    pub(crate) async fn call_with(
        &self,
        method: Method,
        params: Option<Bytes>,
        vetting: Vetting,
    ) -> Result<Raw, Failure> {
        self.hold();
        let options = CallOptions { progress: Wanted::Yes, vetting, ..CallOptions::default() };
        tokio::select! {
            failure = self.rehearsed() => Err(failure),
            outcome = during(WAITING, self.bounds, self.repeated(method, params, options)) => outcome,
        }
    }

    async fn repeated(
        &self,
        method: Method,
        params: Option<Bytes>,
        options: CallOptions,
    ) -> Result<Raw, Failure> {
        let begun = Instant::now();
        for _ in 0..MAX_VISITS {
            match self.attempt(method.clone(), params.clone(), options).await {
                Err(CallError::Fault(fault)) if fault.code == code::URL_ELICITATION_REQUIRED => {
                    let visited = self.unless_late(begun, self.person.visit_first(&fault)).await?;
                    visited.unwrap_or_else(|| Err(self.explained(CallError::Fault(fault))))?;
                }
                outcome => return outcome.map_err(|error| self.explained(error)),
            }
        }
        self.attempt(method, params, options).await.map_err(|error| self.explained(error))
    }

    /// Waits for visits that a call needs, no longer than for the call, and not for a server that is gone.
    async fn unless_late<T>(&self, begun: Instant, visits: impl Future<Output = T>) -> Result<T, Failure> {
        let late = async {
            let Some(deadline) = self.bounds.total else { return std::future::pending().await };
            tokio::time::sleep(deadline.saturating_sub(begun.elapsed())).await;
            let secs = deadline.as_secs_f64();
            let message = format!("the visit that the server wants first had not ended after {secs:.1} s");
            Failure::new(Exit::Timeout, message).next("visit it, and allow more time with --timeout")
        };
        tokio::select! {
            // The server has answered: that is how the visit is known.
            visited = self.unless_left(visits) => visited.map_err(|failure| failure.delivered(Delivery::Sent)),
            failure = late => Err(self.watch.explained(failure.delivered(Delivery::Sent))),
            cause = self.client.until_ended() => {
                let report = self.client.report();
                Err(self.explained(CallError::Lost { cause, delivery: Delivery::Sent, report }))
            }
        }
    }

    async fn attempt(
        &self,
        method: Method,
        params: Option<Bytes>,
        options: CallOptions,
    ) -> Result<Raw, CallError> {
        let mut call = self.client.start(method, params, options);
        loop {
            tokio::select! {
                progress = call.progress() => match progress {
                    Some(progress) => progress::told(&progress, self.watch.secrets()),
                    None => return call.await,
                },
                () = self.interrupts.first() => {
                    call.cancel("interrupted by the user");
                    return call.await;
                }
            }
        }
    }

    /// Waits for a task of the server's: what it says of itself is told, Ctrl-C and the deadline cancel it on the wire.
    pub(crate) async fn finished(&self, mut task: ToolTask<'_>) -> Result<Raw, Failure> {
        let mut told = Progress { progress: 0.0, total: None, message: None };
        let waited = {
            let wait = task.wait_telling(|seen| {
                if seen.status_message.is_some() && seen.status_message != told.message {
                    (told.progress, told.message) = (told.progress + 1.0, seen.status_message.clone());
                    progress::told(&told, self.watch.secrets());
                }
            });
            let late = async {
                let Some(deadline) = self.bounds.total else { return std::future::pending().await };
                tokio::time::sleep(deadline).await;
                deadline
            };
            tokio::select! {
                done = during(RUNNING, self.bounds.of_task(), wait) => Ok(done),
                () = self.interrupts.first() => Err(interrupted()),
                after = late => {
                    let message = format!("the task had not ended after {:.1} s", after.as_secs_f64());
                    Err(Failure::new(Exit::Timeout, message).next("allow more time with --timeout"))
                }
            }
        };
        match waited {
            Ok(done) => done.map_err(|error| self.explained(error)),
            Err(failure) => {
                // A second Ctrl-C, or a server that does not answer, ends the wait for that.
                tokio::select! {
                    _ = tokio::time::timeout(FAREWELL, task.cancel()) => {}
                    () = self.interrupts.second() => {}
                }
                Err(self.watch.explained(failure.delivered(Delivery::Sent)))
            }
        }
    }

    /// All entries of a list.
    pub(crate) async fn all<P: Page>(&self, list: Method) -> Result<Vec<P::Entry>, Failure> {
        let (mut pages, mut entries) = (self.client.pages::<P>(list), Vec::new());
        loop {
            // Each page has a call and so a deadline of its own.
            let page = self.unless_interrupted(async { pages.next().await.transpose() });
            match during(WAITING, self.bounds, page).await? {
                Some(page) => entries.extend(page.entries()),
                None => return Ok(entries),
            }
        }
    }

    /// Waits for `work`, which is what the command is for; Ctrl-C drops it, and what is dropped is cancelled on the wire.
    pub(crate) async fn unless_interrupted<T>(
        &self,
        work: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, Failure> {
        self.hold();
        tokio::select! {
            failure = self.rehearsed() => Err(failure),
            done = self.looked_up(work) => done.map_err(Failure::underway),
        }
    }

    /// The same for what only prepares it.
    pub(crate) async fn looked_up<T>(
        &self,
        work: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, Failure> {
        self.unless_left(work).await?.map_err(|error| self.explained(error))
    }

    /// The same for work that cannot fail.
    pub(crate) async fn unless_left<T>(&self, work: impl Future<Output = T>) -> Result<T, Failure> {
        tokio::select! {
            done = work => Ok(done),
            () = self.interrupts.first() => Err(interrupted()),
        }
    }

    /// Is what the command is for shown and not sent?
    pub(crate) fn is_rehearsal(&self) -> bool {
        self.rehearsal.is_some()
    }

    /// In a rehearsal nothing is sent from now on.
    fn hold(&self) {
        if let Some(trace) = &self.rehearsal {
            trace.hold();
        }
    }

    /// Shows the first message that was held back, and ends the command with that.
    async fn rehearsed(&self) -> Failure {
        let Some(trace) = &self.rehearsal else { return std::future::pending().await };
        let shown = print_frame(trace.held().await);
        shown.err().unwrap_or_else(Failure::rehearsed)
    }

    /// Ends the session. Input that nobody gave is the reason for whatever came of it.
    pub(crate) async fn finish(self, outcome: Result<(), Failure>) -> Result<(), Failure> {
        let Self { client, target, warm, watch, person, interrupts, rehearsal, .. } = self;
        let outcome = outcome.map_err(|failure| match failure.exit() {
            Exit::NotFound => {
                failure.or_next(|| format!("see what there is with `{}`", target.command("list", "")))
            }
            _ => failure,
        });
        let outcome = match rehearsal {
            Some(_) => outcome,
            None => outcome.map_err(Failure::behind_answer),
        };
        // A call is also given up for want of an answer; only a person interrupts.
        let outcome = match interrupts.any() {
            true => outcome,
            false => match person.failure().or_else(|| person.refused(&outcome)) {
                Some(failure) => Err(failure.unanswered(&outcome)),
                None => outcome,
            },
        };
        let outcome = outcome.map_err(Failure::in_session);
        let hurry = outcome.as_ref().is_err_and(|failure| failure.exit() == Exit::Interrupted);
        let peer = client.peer().clone();
        let closing = client.close("done");
        if hurry {
            tokio::select! {
                _ = tokio::time::timeout(FAREWELL, closing) => {}
                () = interrupts.second() => {}
            }
            return outcome;
        }
        tokio::select! {
            _ = closing => {}
            () = interrupts.first() => {}
        }
        let Err(failure) = outcome else { return Ok(()) };
        // All that it said is here once its process has ended.
        let (stderr, found) = match warm {
            Some(warm) => warm.last_words().await,
            None => (peer.report().stderr, Vec::new()),
        };
        Err(watch.explained(failure.last_words(&stderr).seen(found)))
    }

    fn explained(&self, error: CallError) -> Failure {
        let told = self.warm.as_ref().and_then(|warm| warm.failure(&error));
        let refused = matches!(error, CallError::Refused(Refusal::Capability(_) | Refusal::NotInRevision(_)));
        let failure = told.unwrap_or_else(|| Failure::from(error));
        self.watch.explained(match refused {
            true => failure.next(format!("see what the server can do with `{}`", self.command("info", ""))),
            false => failure,
        })
    }
}

fn interrupted() -> Failure {
    Failure::new(Exit::Interrupted, "interrupted by the user")
}

fn limits(timeout: Option<Duration>) -> Limits {
    let mut limits = Limits::DEFAULT;
    if let Some(timeout) = timeout {
        limits.call_idle_timeout = timeout;
        limits.call_total_timeout = timeout;
        // Opening always ends; without a bound of ours it has its own.
        if !timeout.is_zero() {
            limits.open_timeout = timeout;
            limits.probe_timeout = limits.probe_timeout.min(timeout);
        }
    }
    limits
}

fn connector(
    options: &Options,
    watch: &Watch,
    person: &Person,
    limits: &Limits,
) -> Result<Connector, Failure> {
    let (watch, secrets) = (watch.clone(), watch.secrets().clone());
    let asked = person.clone();
    Ok(Client::builder("cardan", env!("CARGO_PKG_VERSION"))
        .answer(person.answerers(options)?)
        .observe(move |event| {
            asked.event(event);
            watch.event(event);
        })
        .era(options.era())
        .strictness(options.strictness())
        .attribution(Attribution::OnlyCall)
        .shapes(Shapes::Checked)
        .secrets(secrets)
        .limits(limits.clone()))
}

/// How the server is reached.
pub(crate) enum Door<'a> {
    Spawn(Box<Spawn>),
    Unix(&'a Path),
    Tcp(&'a str),
    Http(Box<Http>, Redactor),
    Ws(&'a str, Box<Dial>, Redactor),
    Named(Box<Named>),
}

impl<'a> Door<'a> {
    pub(crate) fn of(target: &'a Target, limits: &Limits) -> Result<Self, Failure> {
        Ok(match target {
            Target::Command { program, args, env, cwd } => {
                let mut spawn = Spawn::new(program).args(args).env_policy(EnvPolicy::Inherit);
                for (name, value) in env {
                    spawn = spawn.env(name, value);
                }
                if let Some(cwd) = cwd {
                    spawn = spawn.cwd(cwd);
                }
                Self::Spawn(Box::new(spawn))
            }
            Target::Unix(path) => Self::Unix(path),
            Target::Tcp(address) => Self::Tcp(address),
            Target::Http { url, access } => {
                let (http, secrets) = access.http(url)?;
                Self::Http(Box::new(http), secrets)
            }
            Target::Ws { url, access } => {
                let (dial, secrets) = access.socket(url, limits)?;
                Self::Ws(url, Box::new(dial), secrets)
            }
            Target::Named { name, config } => Self::Named(Box::new(Named::find(name, config.clone())?)),
        })
    }

    /// The same where somebody may be asked for what is missing.
    async fn asking(target: &'a Target, limits: &Limits, console: Option<&Console>) -> Result<Self, Failure> {
        match (target, console) {
            (Target::Named { name, config }, Some(console)) => {
                let named = Named::find_asking(name, config.clone(), console).await?;
                Ok(Self::Named(Box::new(named)))
            }
            _ => Self::of(target, limits),
        }
    }

    /// The command that answers for the model, where one is configured.
    fn sampling(&self) -> Option<String> {
        match self {
            Self::Named(named) => named.sampling(),
            _ => None,
        }
    }

    /// What we gave to the server and nobody else should read.
    pub(crate) fn secrets(&self) -> Redactor {
        match self {
            Self::Spawn(spawn) => spawn.redactor(),
            Self::Http(_, secrets) | Self::Ws(_, _, secrets) => secrets.clone(),
            Self::Named(named) => named.secrets(),
            Self::Unix(_) | Self::Tcp(_) => Redactor::default(),
        }
    }
}

async fn reach(
    door: Door<'_>,
    connector: &Connector,
    watch: &Watch,
    limits: &Limits,
    (options, tool): (&Options, Option<&str>),
) -> Result<(Client, Option<Warm>), Failure> {
    if !matches!(door, Door::Named(_)) {
        Wish::of(options, None).cold("only configured servers are kept");
    }
    let client = match door {
        Door::Named(named) => {
            if let Some((client, warm)) = Warm::open(&named, connector, limits, options, tool).await? {
                return Ok((client, Some(warm)));
            }
            named.reach(connector.clone(), watch.loudness(), limits, options).await
        }
        Door::Spawn(mut spawn) => {
            if watch.loudness() == Loudness::Verbose {
                *spawn = spawn.on_stderr(|line| tell(&format!("server: {line}")));
            }
            let dial = async || spawn.spawn(limits);
            connector.connect(dial).await.map_err(Failure::of_connecting)
        }
        Door::Unix(path) => {
            let dial = async || socket::connect_unix(path, limits).await;
            connector.connect(dial).await.map_err(|error| Failure::of_dialling(error, None))
        }
        Door::Http(http, _) => {
            let http = http.limits(limits);
            let dial = async || http.link();
            connector.connect(dial).await.map_err(Failure::of_connecting)
        }
        Door::Tcp(address) => {
            let dial = async || socket::connect_host(address, limits).await;
            connector.connect(dial).await.map_err(|error| Failure::of_dialling(error, Some(address)))
        }
        Door::Ws(url, options, _) => {
            let dial = async || dial(url, &options).await;
            connector.connect(dial).await.map_err(Failure::of_connecting)
        }
    };
    Ok((client?, None))
}
