//! `interop`: every client through `cardan bridge` to every server, by every transport on either side.
//!
//! What a cell fails at counts as a limit of the peers only where they fail at it without us too; see `judge`.

mod cast;
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
use cast::{Kit, Side, Way};
use judge::{Cell, Judge, Search};
use process::{Cancels, Reports, Serving, run_client};

/// Servers that are tried at a time, unless told otherwise.
const WORKERS: usize = 2;

/// What the reduced form takes: each era, each way and most peers once, on either side.
const QUICK_CLIENTS: [&str; 4] =
    ["node-v1:legacy:http", "node-v2:modern:http", "python-v1:legacy:sse", "python-v2:modern:stdio"];
const QUICK_SERVERS: [&str; 4] =
    ["node-everything:legacy:stdio", "node-v2:modern:http", "python-v1:legacy:sse", "cardan:legacy:ws"];

/// What to run.
#[derive(Debug, Default)]
struct Wanted {
    clients: Vec<String>,
    servers: Vec<String>,
    /// Cells of an earlier run that was broken off are kept.
    resumed: bool,
    workers: Option<usize>,
}

impl Wanted {
    fn quick() -> Self {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Self { clients: words(&QUICK_CLIENTS), servers: words(&QUICK_SERVERS), ..Self::default() }
    }

    fn everything(&self) -> bool {
        self.clients.is_empty() && self.servers.is_empty()
    }
}

/// `interop [--quick] [--client C] [--server S] [--workers N] [--resume]`
pub(crate) fn run(mut args: Args) -> Result<()> {
    let mut wanted = if args.flag("--quick") { Wanted::quick() } else { Wanted::default() };
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

/// The reduced form, as a step of all tests. What is run was built with them.
pub(crate) fn quick(root: &Path) -> Result<()> {
    matrix(root, &Wanted::quick())
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
    say(&format!("interop: {} clients and {} servers", run.clients.len(), servers.len()));
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
    if bad.is_empty() {
        Ok(())
    } else {
        bail!("{} cells are neither green nor explained, see above", bad.len())
    }
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
    cells: Mutex<Cells>,
    /// Every cell as it comes, so that a run that is broken off can be resumed.
    record: Mutex<File>,
}

impl<'a> Run<'a> {
    fn new(root: &'a Path, clients: Vec<Side>, wanted: &Wanted) -> Result<Self> {
        // A part that is tried again takes nothing from what is known of the whole.
        let name = if wanted.everything() { "target/interop.jsonl" } else { "target/interop-part.jsonl" };
        let (path, resumed): (PathBuf, bool) = (root.join(name), wanted.resumed);
        let cells = if resumed {
            table::recorded(&fs::read_to_string(&path).unwrap_or_default())
        } else {
            Cells::new()
        };
        let mut options = File::options();
        let file = options.create(true).append(resumed).write(true).truncate(!resumed).open(&path);
        let record = file.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { root, clients, cells: Mutex::new(cells), record: Mutex::new(record) })
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
        match Column::open(self.root, server) {
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
            let reports = Column::open(self.root, *server).and_then(|column| column.run(*client));
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

/// One server and the bridge before it.
struct Column<'a> {
    root: &'a Path,
    /// How the bridge reaches the server: an address, or `--` and a command.
    behind: Vec<String>,
    bridge: Serving,
    server: Option<Serving>,
    era: &'static str,
}

impl<'a> Column<'a> {
    fn open(root: &'a Path, side: Side) -> Result<Self> {
        let words = side.kit.server(root, side.way);
        let (server, behind) = if side.way == Way::Stdio {
            (None, [vec!["--".to_owned()], words].concat())
        } else {
            let server = Serving::start(&words)?;
            let behind = vec![side.way.url(&server.address)];
            (Some(server), behind)
        };
        let era = side.era.name();
        let bridge = Serving::start(&bridge(root, &["--listen", "127.0.0.1:0"], era, &behind))?;
        Ok(Self { root, behind, bridge, server, era })
    }

    fn run(&self, client: Side) -> Result<Reports> {
        let mut words = client.kit.client(self.root, client.era);
        if client.way == Way::Stdio {
            words.extend(bridge(self.root, &["--stdio"], self.era, &self.behind));
        } else {
            words.push(client.way.url(&self.bridge.address));
        }
        let server = self.server.as_ref().map(|server| &server.cancels);
        let noticed: Vec<&Cancels> = server.into_iter().chain([&self.bridge.cancels]).collect();
        run_client(&words, &noticed)
    }
}

/// A bridge that shows what its server says.
fn bridge(root: &Path, how: &[&str], era: &str, behind: &[String]) -> Vec<String> {
    let cardan = Kit::Ours.server(root, Way::Stdio).swap_remove(0);
    let words = [&[cardan.as_str(), "bridge", "--verbose", "--era", era], how].concat();
    words.into_iter().map(str::to_owned).chain(behind.iter().cloned()).collect()
}
