//! `interop`: every client through `cardan bridge` to every server, by every transport on either side; or, with `--gateway`,
//! through `cardan serve` to every server among others.
//!
//! What a cell fails at counts as a limit of the peers only where they fail at it without us too; see `judge`.

mod cast;
mod column;
mod judge;
mod picture;
pub(crate) mod process;
mod table;
mod witness;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Instant,
};

use anyhow::{Context as _, Result, bail};

use crate::{
    args::Args,
    peers,
    run::{build, say, show},
    walk,
};
use cast::Side;
use column::{Between, Column};
use judge::{Cell, Judge, Search};
use process::Reports;

/// Servers that are tried at a time, unless told otherwise.
const WORKERS: usize = 2;

/// What the reduced form takes: each era, each way and most peers once, on either side.
const QUICK_CLIENTS: [&str; 4] =
    ["node-v1:legacy:http", "node-v2:modern:http", "python-v1:legacy:sse", "python-v2:modern:stdio"];
const QUICK_SERVERS: [&str; 4] =
    ["node-everything:legacy:stdio", "node-v2:modern:http", "python-v1:legacy:sse", "cardan:legacy:ws"];

/// The same for a gateway: each kind of client over HTTP, and each other way once, at servers of either era and way.
const GATEWAY_CLIENTS: [&str; 13] = [
    "node-v1:legacy:http",
    "node-v2:legacy:http",
    "node-v2:modern:http",
    "python-v1:legacy:http",
    "python-v2:legacy:http",
    "python-v2:modern:http",
    "rmcp:legacy:http",
    "rmcp:modern:http",
    "cardan:legacy:http",
    "cardan:modern:http",
    "node-v1:legacy:ws",
    "python-v1:legacy:sse",
    "rmcp:modern:stdio",
];
const GATEWAY_SERVERS: [&str; 3] =
    ["node-everything:legacy:stdio", "node-v1:legacy:http", "rmcp:modern:http"];

/// What to run.
#[derive(Debug, Default)]
struct Wanted {
    clients: Vec<String>,
    servers: Vec<String>,
    between: Between,
    /// Cells of an earlier run that was broken off are kept.
    resumed: bool,
    workers: Option<usize>,
}

impl Wanted {
    fn quick(between: Between) -> Self {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let (clients, servers) = match between {
            Between::Bridge => (words(&QUICK_CLIENTS), words(&QUICK_SERVERS)),
            Between::Gateway => (words(&GATEWAY_CLIENTS), words(&GATEWAY_SERVERS)),
        };
        Self { clients, servers, between, ..Self::default() }
    }

    /// The page is about bridges.
    fn everything(&self) -> bool {
        self.clients.is_empty() && self.servers.is_empty() && self.between == Between::Bridge
    }
}

/// `interop [--gateway] [--quick] [--client C] [--server S] [--workers N] [--resume]`
pub(crate) fn run(mut args: Args) -> Result<()> {
    let between = if args.flag("--gateway") { Between::Gateway } else { Between::Bridge };
    let mut wanted = Wanted { between, ..Wanted::default() };
    if args.flag("--quick") {
        wanted = Wanted::quick(between);
    }
    wanted.resumed = args.flag("--resume");
    wanted.workers = args.number("--workers")?;
    if let Some(client) = args.value("--client")? {
        wanted.clients = vec![client];
    }
    if let Some(server) = args.value("--server")? {
        wanted.servers = vec![server];
    }
    args.finish()?;
    let root = walk::root();
    // One after the other: together they would want other features of the same crates.
    build(&root, &["-p", "cardan-cli", "--bin", "cardan"])?;
    build(&root, &["-p", "cardan-conformance", "--bin", "interop-client"])?;
    matrix(&root, &wanted)
}

/// The reduced forms, as a step of all tests. What is run was built with them.
pub(crate) fn quick(root: &Path) -> Result<()> {
    matrix(root, &Wanted::quick(Between::Bridge))?;
    matrix(root, &Wanted::quick(Between::Gateway))
}

fn chosen(sides: Vec<Side>, wanted: &[String], what: &str) -> Result<Vec<Side>> {
    let all = sides.iter().map(|side| side.word()).collect::<Vec<_>>().join(", ");
    let takes = |side: &Side| wanted.is_empty() || wanted.iter().any(|word| side.is(word));
    let chosen: Vec<Side> = sides.into_iter().filter(takes).collect();
    if chosen.is_empty() {
        bail!("no such {what}; there are {all}, and what these begin with up to a colon");
    }
    Ok(chosen)
}

fn matrix(root: &Path, wanted: &Wanted) -> Result<()> {
    let clients = chosen(cast::clients(), &wanted.clients, "client")?;
    let servers = chosen(cast::servers(), &wanted.servers, "server")?;
    peers::set_up(root)?;
    let (start, run) = (Instant::now(), Run::new(root, clients, wanted)?);
    let between = match wanted.between {
        Between::Bridge => "with a bridge in between",
        Between::Gateway => "each among others behind a gateway",
    };
    say(&format!("interop: {} clients and {} servers, {between}", run.clients.len(), servers.len()));
    let queue = Mutex::new(servers.clone().into_iter());
    thread::scope(|scope| {
        for _ in 0..wanted.workers.unwrap_or(WORKERS) {
            scope.spawn(|| {
                while let Some(server) = { lock(&queue).next() } {
                    run.column(server);
                }
            });
        }
    });
    let mut judge = Judge::new(root);
    let first = judge.all(&lock(&run.cells), &Again::new(), Search::Near);
    let again = run.again(&first);
    let judged = judge.all(&lock(&run.cells), &again, Search::Far);
    let text = table::markdown(&run.clients, &servers, &judged);
    show(&text);
    say(&format!("interop: {} cells in {} s", judged.len(), start.elapsed().as_secs()));
    if wanted.everything() {
        table::write(&root.join("docs/interop.md"), &text)?;
        let picture = root.join("docs/interop.svg");
        fs::write(&picture, picture::svg(&run.clients, &servers, &judged))
            .with_context(|| format!("cannot write {}", picture.display()))?;
    }
    verdict(&judged)
}

fn verdict(judged: &Judged) -> Result<()> {
    let bad: Vec<String> =
        judged.iter().filter_map(|((client, server), cell)| cell.complaint(*client, *server)).collect();
    show(&bad.concat());
    if !bad.is_empty() {
        bail!("{} cells are neither green nor explained, see above", bad.len());
    }
    let (lucky, borne) = (judged.values().filter(|cell| cell.is_lucky()).count(), borne(judged.len()));
    if lucky > borne {
        bail!(
            "{lucky} cells were green at the second try only, and no more than {borne} are put down to a busy machine"
        );
    }
    Ok(())
}

/// How many cells may fail once without a reason that is seen: more of them are no chance.
fn borne(cells: usize) -> usize {
    2.max(cells / 100)
}

/// What was reported, by client and server.
type Cells = BTreeMap<(Side, Side), Reports>;

/// What is to be said of it.
type Judged = BTreeMap<(Side, Side), Cell>;

/// Cells that were tried a second time, what had failed at the first, and why.
type Again = BTreeMap<(Side, Side), Vec<(&'static str, String)>>;

struct Run<'a> {
    root: &'a Path,
    clients: Vec<Side>,
    between: Between,
    cells: Mutex<Cells>,
    /// Every cell as it comes, so that a run that is broken off can be resumed.
    record: Mutex<File>,
}

impl<'a> Run<'a> {
    fn new(root: &'a Path, clients: Vec<Side>, wanted: &Wanted) -> Result<Self> {
        // A part that is tried again takes nothing from what is known of the whole.
        let name = match wanted.between {
            Between::Gateway => "target/interop-gateway.jsonl",
            Between::Bridge if wanted.everything() => "target/interop.jsonl",
            Between::Bridge => "target/interop-part.jsonl",
        };
        let (path, resumed): (PathBuf, bool) = (root.join(name), wanted.resumed);
        let cells = if resumed {
            table::recorded(&fs::read_to_string(&path).unwrap_or_default())
        } else {
            Cells::new()
        };
        let mut options = File::options();
        let file = options.create(true).append(resumed).write(true).truncate(!resumed).open(&path);
        let record = file.with_context(|| format!("cannot write {}", path.display()))?;
        let between = wanted.between;
        Ok(Self { root, clients, between, cells: Mutex::new(cells), record: Mutex::new(record) })
    }

    /// All clients before one server.
    fn column(&self, server: Side) {
        let open: Vec<Side> = self
            .clients
            .iter()
            .copied()
            .filter(|client| !lock(&self.cells).contains_key(&(*client, server)))
            .collect();
        if open.is_empty() {
            return;
        }
        match Column::open(self.root, server, self.between) {
            Ok(column) => {
                for client in open {
                    self.keep(client, server, column.run(client).unwrap_or_else(|why| process::broken(&why)));
                }
            }
            Err(why) => {
                for client in open {
                    self.keep(client, server, process::broken(&why));
                }
            }
        }
    }

    /// Tries what failed once more, with nothing beside it: the deadlines of the clients are short where a machine is
    /// busy. The table tells that it was so.
    fn again(&self, judged: &Judged) -> Again {
        let mut again = Again::new();
        for ((client, server), cell) in judged.iter().filter(|(_, cell)| !cell.failed.is_empty()) {
            let reports =
                Column::open(self.root, *server, self.between).and_then(|column| column.run(*client));
            self.keep(*client, *server, reports.unwrap_or_else(|why| process::broken(&why)));
            again.insert((*client, *server), cell.failed.clone());
        }
        again
    }

    fn keep(&self, client: Side, server: Side, reports: Reports) {
        say(&format!("interop: {} > {}: {}", client.word(), server.word(), judge::short(&reports)));
        let _ = writeln!(lock(&self.record), "{}", table::record(client, server, &reports));
        lock(&self.cells).insert((client, server), reports);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
