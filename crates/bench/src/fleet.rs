//! Ten configured servers as real processes, two of them sick: how soon their tools are listed from what they told
//! before, and how soon the others can be used.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::Figure;
use crate::harness::median;

/// Starts of each kind.
const ROUNDS: usize = 21;

/// A client that asks for tools when it starts does not notice a shorter wait.
const LISTED_MS: f64 = 50.0;

/// How long a listing waits for servers of which nothing is known.
const WINDOW_MS: f64 = 250.0;

pub(crate) fn figures(cardan: &Path) -> anyhow::Result<Vec<Figure>> {
    let farm = Farm::new(cardan)?;
    let told = farm.run(&["servers", "--json", "--wait", "60"])?.1;
    ensure!(told["servers"].as_array().is_some_and(|all| all.iter().all(|one| one["up"] == true)), "{told}");
    fs::write(farm.home.join("sick"), "")?;
    let (mut listed, mut alone, mut usable) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (took, told) = farm.run(&["servers", "--json", "--window", "0"])?;
        let known = |one: &Value| one["tools"].as_array().is_some_and(|tools| !tools.is_empty());
        ensure!(
            told["servers"].as_array().is_some_and(|all| all.iter().filter(|one| known(one)).count() == 10)
        );
        listed.push(took);
        alone.push(farm.up("one.toml", 1)?);
        usable.push(farm.up("cardan.toml", 8)?);
    }
    let worst = listed.iter().copied().fold(0.0, f64::max);
    let own = median(alone);
    Ok(vec![
        Figure::new(
            "start to the tools of ten servers, from the cache",
            median(listed),
            "ms",
            Some(LISTED_MS),
        ),
        Figure::new("the same, worst of all starts", worst, "ms", None),
        Figure::new("start to one server that can be used", own, "ms", None),
        Figure::new(
            "start to the eight of ten that are well",
            median(usable),
            "ms",
            Some((WINDOW_MS + own).round()),
        ),
    ])
}

/// A home with ten servers in its configuration.
struct Farm {
    cardan: PathBuf,
    home: PathBuf,
}

impl Farm {
    fn new(cardan: &Path) -> anyhow::Result<Self> {
        let home = std::env::temp_dir().join(format!("cardan-bench-fleet-{}", std::process::id()));
        fs::create_dir_all(&home)?;
        let (demo, sick) = (cardan.display(), home.join("sick"));
        let well = |n| format!("[servers.well-{n}]\ncommand = '{demo}'\nargs = ['demo']\n");
        let ill = |name, how| {
            let line = format!("if [ -e {} ]; then {how}; fi; exec {demo} demo", sick.display());
            format!("[servers.{name}]\ncommand = 'sh'\nargs = ['-c', '{line}']\n")
        };
        let mute = ill("mute", "while read -r line; do :; done; exit");
        let all: String = (1..=8).map(well).chain([mute, ill("dead", "exit 3")]).collect();
        fs::write(home.join("cardan.toml"), all)?;
        fs::write(home.join("one.toml"), well(1))?;
        Ok(Self { cardan: cardan.to_owned(), home })
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.cardan);
        command.args(words).current_dir(&self.home).env("HOME", &self.home);
        for name in ["XDG_CACHE_HOME", "XDG_CONFIG_HOME", "CARDAN_CONFIG"] {
            command.env_remove(name);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command
    }

    /// From the start of a process to the end of the line that it prints.
    fn run(&self, words: &[&str]) -> anyhow::Result<(f64, Value)> {
        let start = Instant::now();
        // Named, since a file that is merely found would have to be trusted first.
        let mut child =
            self.command(words).args(["--config", "cardan.toml"]).spawn().context("cannot run cardan")?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("stdout is piped")?).read_line(&mut line)?;
        let took = millis(start.elapsed());
        child.wait()?;
        Ok((took, serde_json::from_str(&line)?))
    }

    /// From the start of a process until so many servers can be used, with nothing kept from before.
    fn up(&self, file: &str, wanted: usize) -> anyhow::Result<f64> {
        let mut command = self.command(&["servers", "--watch", "--json", "--config", file]);
        let start = Instant::now();
        let mut child = command.env("XDG_CACHE_HOME", self.cold()).spawn().context("cannot run cardan")?;
        let lines = BufReader::new(child.stdout.take().context("stdout is piped")?).lines();
        let mut up = 0;
        for line in lines {
            let event: Value = serde_json::from_str(&line?)?;
            up += usize::from(event["event"] == "state" && event["to"] == "ready");
            if up == wanted {
                break;
            }
        }
        let took = millis(start.elapsed());
        // Politely, so that it ends its servers.
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&child),
            rustix::process::Signal::INT,
        )?;
        child.wait()?;
        ensure!(up == wanted, "{up} of {wanted} servers came up");
        Ok(took)
    }

    fn cold(&self) -> PathBuf {
        let cold = self.home.join("cold");
        let _ = fs::remove_dir_all(&cold);
        cold
    }
}

impl Drop for Farm {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.home);
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
