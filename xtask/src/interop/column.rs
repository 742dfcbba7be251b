//! One server, and what stands before it: a bridge, or a gateway with other servers beside it.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

use super::{
    cast::{Era, Kit, Side, Way},
    process::{Cancels, Env, Reports, Serving, overhear, run_client},
};

/// What stands between clients and servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Between {
    #[default]
    Bridge,
    Gateway,
}

/// Who is served by a gateway beside the server that is meant.
const COMPANY: [Side; 4] = [
    Side { kit: Kit::Everything, era: Era::Legacy, way: Way::Stdio },
    Side { kit: Kit::Node1, era: Era::Legacy, way: Way::Http },
    Side { kit: Kit::Python2, era: Era::Modern, way: Way::Http },
    Side { kit: Kit::Rmcp, era: Era::Modern, way: Way::Stdio },
];

/// Longest time until every server behind a gateway has told what it offers.
const WAIT_S: &str = "60";

/// All that clients need to be run, one after the other.
pub(super) struct Column<'a> {
    root: &'a Path,
    /// Where clients find it that know an address, and the command for those that start one.
    listening: Serving,
    command: Vec<String>,
    /// What clients and whatever they start are told by the environment.
    env: Env,
    /// Servers behind it that are reached by address.
    servers: Vec<Serving>,
    /// What the others say.
    overheard: Vec<Cancels>,
}

impl<'a> Column<'a> {
    pub(super) fn open(root: &'a Path, side: Side, between: Between) -> Result<Self> {
        match between {
            Between::Bridge => Self::bridged(root, side),
            Between::Gateway => Self::gathered(root, side),
        }
    }

    fn bridged(root: &'a Path, side: Side) -> Result<Self> {
        let (mut servers, words) = (Vec::new(), side.kit.server(root, side.way));
        let behind = if side.way == Way::Stdio {
            [vec!["--".to_owned()], words].concat()
        } else {
            let server = Serving::start(&words)?;
            let behind = vec![side.way.url(&server.address)];
            servers.push(server);
            behind
        };
        let bridge = |how: &[&str]| {
            // A bridge shows what its server says.
            let words = [&["bridge", "--verbose", "--era", side.era.name()], how].concat();
            [cardan(root, &words), behind.clone()].concat()
        };
        let listening = Serving::start(&bridge(&["--listen", "127.0.0.1:0"]))?;
        let command = bridge(&["--stdio"]);
        Ok(Self { root, listening, command, env: Env::new(), servers, overheard: Vec::new() })
    }

    /// The server comes first of several: what they have in common, the addresses of resources, leads to it.
    fn gathered(root: &'a Path, side: Side) -> Result<Self> {
        let home = home(root, side)?;
        let (mut config, mut servers, mut overheard) = (String::new(), Vec::new(), Vec::new());
        let others = COMPANY.into_iter().filter(|other| other.kit != side.kit);
        for one in [side].into_iter().chain(others) {
            let words = one.kit.server(root, one.way);
            let _ = writeln!(config, "[servers.{}]\nera = \"{}\"", one.kit.word(), one.era.name());
            if one.way == Way::Stdio {
                let said = home.join(one.kit.word());
                overheard.push(overhear(&said)?);
                let words = [
                    ["sh", "-c", "exec \"$@\" 2>\"$0\""].map(str::to_owned).to_vec(),
                    vec![text(&said)],
                    words,
                ];
                let _ = writeln!(config, "command = {:?}", words.concat());
            } else {
                let server = Serving::start(&words)?;
                let _ = writeln!(config, "url = {:?}", one.way.url(&server.address));
                servers.push(server);
            }
        }
        let file = text(&home.join("cardan.toml"));
        fs::write(&file, config).with_context(|| format!("cannot write {file}"))?;
        let prefix = format!("{}__", side.kit.word());
        let env = vec![("HOME", text(&home)), ("XDG_CACHE_HOME", text(&home)), ("PEER_PREFIX", prefix)];
        learn(root, &file, &env)?;
        let serve = |how: &[&str]| cardan(root, &[&["serve", "--config", &file], how].concat());
        let listening = Serving::start_with(&serve(&["--listen", "127.0.0.1:0"]), &env)?;
        Ok(Self { root, listening, command: serve(&["--stdio"]), env, servers, overheard })
    }

    /// Lets one client run its script.
    pub(super) fn run(&self, client: Side) -> Result<Reports> {
        let mut words = client.kit.client(self.root, client.era);
        if client.way == Way::Stdio {
            words.extend(self.command.iter().cloned());
        } else {
            words.push(client.way.url(&self.listening.address));
        }
        let serving = self.servers.iter().chain([&self.listening]).map(|one| &one.cancels);
        let noticed: Vec<&Cancels> = serving.chain(&self.overheard).collect();
        run_client(&words, &self.env, &noticed)
    }
}

fn cardan(root: &Path, words: &[&str]) -> Vec<String> {
    let program = Kit::Ours.server(root, Way::Stdio).swap_remove(0);
    [program].into_iter().chain(words.iter().map(|word| (*word).to_owned())).collect()
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A gateway's own home: nothing is known there from before.
fn home(root: &Path, side: Side) -> Result<PathBuf> {
    let home = root.join("target/interop").join(side.word().replace(':', "-"));
    let _ = fs::remove_dir_all(&home);
    fs::create_dir_all(&home).with_context(|| format!("cannot make {}", home.display()))?;
    Ok(home)
}

/// What servers offer is known from then on, so that the first list is whole.
fn learn(root: &Path, file: &str, env: &Env) -> Result<()> {
    let words = cardan(root, &["servers", "--config", file, "--wait", WAIT_S]);
    let mut learning = Command::new(&words[0]);
    let told = learning.args(&words[1..]).envs(env.iter().cloned()).output()?;
    ensure!(told.status.success(), "not every server starts: {}", String::from_utf8_lossy(&told.stdout));
    Ok(())
}
