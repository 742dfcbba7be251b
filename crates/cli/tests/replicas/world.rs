//! Redis, an upstream, and replicas of one gateway before it.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::common::{Scratch, Serving, recorder, signal};
use crate::rig::{LONG, Running};

pub(crate) const KEY: &str = "a secret that the replicas of this test share";

/// A real Redis, until it is dropped.
pub(crate) struct Redis {
    child: Child,
    pub(crate) port: u16,
    program: PathBuf,
}

impl Redis {
    /// Where it is installed. Says so when not.
    pub(crate) fn start() -> Option<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let program = root.join("target/peers/python-redis/bin/redis-server");
        if !program.exists() {
            assert!(std::env::var_os("CARDAN_PEERS").is_none(), "python-redis is required and not installed");
            eprintln!("skipped: Redis is not installed; `cargo xtask peers` installs it");
            return None;
        }
        Some(Self::run(program, free_port()))
    }

    fn run(program: PathBuf, port: u16) -> Self {
        let mut child = Command::new(&program)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains("Ready to accept connections")), "Redis did not start");
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, port, program }
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Another one in its place, with nothing in it.
    pub(crate) fn again(&mut self) {
        *self = Self::run(self.program.clone(), self.port);
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Says a command and gives all that comes back.
    pub(crate) fn say(&self, words: &[&[u8]]) -> Vec<u8> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let mut out = Vec::new();
        for words in [words, &[b"QUIT"]] {
            out.extend(format!("*{}\r\n", words.len()).into_bytes());
            for word in words {
                out.extend(format!("${}\r\n", word.len()).into_bytes());
                out.extend_from_slice(word);
                out.extend(b"\r\n");
            }
        }
        stream.write_all(&out).unwrap();
        let mut said = Vec::new();
        stream.read_to_end(&mut said).unwrap();
        said.truncate(said.len() - b"+OK\r\n".len());
        said
    }

    /// All keys of this kind.
    pub(crate) fn keys(&self, kind: &str) -> Vec<String> {
        let said = String::from_utf8(self.say(&[b"KEYS", b"*"])).unwrap();
        said.lines().filter(|line| line.contains(kind)).map(str::to_owned).collect()
    }

    /// A field of a hash.
    pub(crate) fn field(&self, key: &str, field: &str) -> Vec<u8> {
        let said = self.say(&[b"HGET", key.as_bytes(), field.as_bytes()]);
        let at = said.iter().position(|byte| *byte == b'\n').unwrap();
        said[at + 1..said.len() - 2].to_vec()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Replicas of one gateway, and all that they need.
pub(crate) struct World {
    pub(crate) replicas: Vec<Running>,
    pub(crate) redis: Redis,
    pub(crate) scratch: Scratch,
    _upstream: Serving,
    /// Where the replicas reach it.
    behind: String,
    more: String,
    lease: &'static str,
}

/// A lease that outlasts a test, whatever else this machine does.
pub(crate) const WHOLE: &str = "60s";

/// One whose end is waited for.
pub(crate) const BRIEF: &str = "8s";

impl World {
    /// Three replicas; `more` stands in their configuration as well. Nothing: there is no Redis.
    pub(crate) fn start(name: &str, lease: &'static str, more: &str) -> Option<Self> {
        let redis = Redis::start()?;
        let ports = [redis.port; 3];
        Some(Self::before(redis, name, lease, more, &ports))
    }

    /// One replica for each of these ports, behind which is the store.
    pub(crate) fn before(redis: Redis, name: &str, lease: &'static str, more: &str, ports: &[u16]) -> Self {
        Self::reaching(redis, name, lease, more, ports, str::to_owned)
    }

    /// The same, and all that the upstream is sent.
    pub(crate) fn recorded(
        redis: Redis,
        name: &str,
        lease: &'static str,
        ports: &[u16],
    ) -> (Self, Arc<Mutex<Vec<u8>>>) {
        let mut sent = Arc::default();
        let world = Self::reaching(redis, name, lease, "", ports, |upstream| {
            let (address, kept) = recorder(upstream.to_owned());
            sent = kept;
            address
        });
        (world, sent)
    }

    fn reaching(
        redis: Redis,
        name: &str,
        lease: &'static str,
        more: &str,
        ports: &[u16],
        reach: impl FnOnce(&str) -> String,
    ) -> Self {
        let scratch = Scratch::new(&format!("replicas-{name}"));
        let upstream = Serving::start(&[]);
        let (behind, more) = (reach(&upstream.address), more.to_owned());
        let mut world =
            Self { replicas: Vec::new(), redis, scratch, _upstream: upstream, behind, more, lease };
        for port in ports {
            let replica = world.serve(*port);
            world.replicas.push(replica);
        }
        world
    }

    /// One more replica.
    pub(crate) fn serve(&self, store: u16) -> Running {
        let (port, store) = (free_port(), format!("redis://127.0.0.1:{store}"));
        self.serve_at(port, &store, &format!("http://127.0.0.1:{port}"), None)
    }

    /// One more replica on this port, which reaches the store there and is reached by others there, trusting these roots.
    pub(crate) fn serve_at(&self, port: u16, store: &str, address: &str, roots: Option<&str>) -> Running {
        let replicas =
            documented().replace("redis://127.0.0.1:6379", store).replace("http://10.0.0.5:2273", address);
        let config = format!(
            "[gateway]\nnaming = \"never\"\n{}\n{replicas}\nlease = \"{}\"\n[servers.demo]\nurl = \"http://{}/mcp\"\n",
            self.more, self.lease, self.behind
        );
        let (file, home) =
            (self.scratch.file(&format!("{port}.toml")), self.scratch.file(&format!("home-{port}")));
        fs::write(&file, config).unwrap();
        let mut command = Command::new(crate::common::CARDAN);
        command.args(["serve", "--listen", &format!("127.0.0.1:{port}"), "--config", &file]);
        command.env("HOME", home).env("CARDAN_REPLICAS_KEY", KEY).stdin(Stdio::null());
        command.env_remove("XDG_CACHE_HOME").env_remove("XDG_CONFIG_HOME");
        command.envs(roots.map(|roots| ("SSL_CERT_FILE", roots)));
        let replica = Running::of(command);
        replica.stands("ready");
        replica
    }

    pub(crate) fn at(&self, number: usize) -> &str {
        &self.replicas[number].address
    }

    /// A counter of a replica.
    #[track_caller]
    pub(crate) fn count(&self, number: usize, name: &str) -> u64 {
        let page = self.replicas[number].get("/metrics", &[]).body;
        let line = page.lines().find(|line| line.starts_with(&format!("{name} ")));
        let line = line.unwrap_or_else(|| panic!("no {name}: {page}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    pub(crate) fn counts(&self, name: &str) -> u64 {
        (0..self.replicas.len()).map(|number| self.count(number, name)).sum()
    }

    /// What `/readyz` says of the store.
    pub(crate) fn store_status(&self, number: usize) -> String {
        let said = self.replicas[number].get("/readyz", &[]).json();
        said["replicas"]["status"].as_str().unwrap_or_default().to_owned()
    }
}

/// The example of the documentation.
fn documented() -> String {
    let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/gateway.md"));
    let (_, section) = text.split_once("\n## Several replicas\n").unwrap();
    let (_, example) = section.split_once("```toml\n").unwrap();
    let example = example.split_once("```").unwrap().0.to_owned();
    for said in ["redis://127.0.0.1:6379/0", "http://10.0.0.5:2273", "${CARDAN_REPLICAS_KEY}"] {
        assert!(example.contains(said), "{said}: {example}");
    }
    example
}

/// Tries until it is so, not for ever.
#[track_caller]
pub(crate) fn until(what: &str, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < LONG, "never: {what}");
        std::thread::yield_now();
    }
}
