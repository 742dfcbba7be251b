//! A page with a script, served from an origin of its own, and the browser that opens it.
//!
//! The script is a module whose default export gets the address of the server under test. What it returns is posted back to
//! where the page came from.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::common::{Scratch, signal_pid};

/// Far longer than anything here takes.
const DEADLINE: Duration = Duration::from_secs(60);

/// A page.
pub(crate) struct Page {
    /// Where it comes from, as browsers write it.
    pub(crate) origin: String,
    told: mpsc::Receiver<Value>,
    modules: Arc<OnceLock<PathBuf>>,
    scratch: Scratch,
}

/// Whether there is a browser. Says so when not.
pub(crate) fn installed() -> bool {
    let found = browser().is_file();
    if !found {
        assert!(std::env::var_os("CARDAN_PEERS").is_none(), "chromium is required and not installed");
        eprintln!("skipped: chromium is not installed; `cargo xtask test` unpacks it");
    }
    found
}

/// The script that starts it.
fn browser() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers/chromium/browser")
}

/// The packages of a peer, where it is installed. Says so when not.
pub(crate) fn modules(name: &str) -> Option<PathBuf> {
    crate::common::peer(name, "")?;
    Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers").join(name).join("node_modules"))
}

impl Page {
    pub(crate) fn new(name: &str, script: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let (tell, told) = mpsc::channel();
        let modules = Arc::new(OnceLock::new());
        let site = Site { script, modules: Arc::clone(&modules), tell };
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let site = site.clone();
                // A browser opens connections ahead, and may never use them.
                thread::spawn(move || site.serve(stream));
            }
        });
        Self { origin, told, modules, scratch: Scratch::new(&format!("browser-{name}")) }
    }

    /// With packages that its script can import.
    pub(crate) fn with(self, modules: PathBuf) -> Self {
        self.modules.set(modules).unwrap();
        self
    }

    /// The same by another name of this machine, which makes another origin of it.
    pub(crate) fn called(mut self, name: &str) -> Self {
        self.origin = self.origin.replace("127.0.0.1", name);
        self
    }

    /// Opens it, and brings what its script made of the server at this address.
    #[track_caller]
    pub(crate) fn visit(&self, address: &str) -> Value {
        let log = self.scratch.file("log");
        let mut command = Command::new("sh");
        // The sandbox is not to be had as root, nor in many containers; all pages are ours. A browser that can be debugged stays.
        command.arg(browser()).args(["--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]);
        command.arg(format!("--user-data-dir={}", self.scratch.file("profile")));
        command.arg(format!("{}/#{address}", self.origin)).env("HOME", self.scratch.file("home"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log).unwrap());
        let _running = Running(command.spawn().unwrap());
        match self.told.recv_timeout(DEADLINE) {
            Ok(told) => told,
            Err(_) => panic!("the page told nothing: {}", fs::read_to_string(&log).unwrap_or_default()),
        }
    }
}

/// A browser, until it is dropped.
struct Running(Child);

impl Drop for Running {
    /// It is asked to end, so that none of its processes is left to write to a folder that is being removed.
    fn drop(&mut self) {
        let pid = self.0.id();
        signal_pid(pid, "TERM");
        let (tell, ended) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| tell.send(self.0.wait()));
            if ended.recv_timeout(DEADLINE).is_err() {
                signal_pid(pid, "KILL");
            }
        });
    }
}

/// What a page comes from.
#[derive(Clone)]
struct Site {
    script: &'static str,
    modules: Arc<OnceLock<PathBuf>>,
    tell: mpsc::Sender<Value>,
}

impl Site {
    /// Answers one request. A browser that leaves in the middle is no failure of a test.
    fn serve(&self, stream: TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let mut words = line.split(' ');
        let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
        let mut length = 0;
        while line != "\r\n" {
            line.clear();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let (status, kind, answer) = self.answer(&method, &path, &body);
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            answer.len()
        );
        let stream = reader.get_mut();
        stream.write_all(&[head.as_bytes(), &answer].concat()).ok()?;
        // Last: the browser is ended then.
        if method == "POST" {
            self.tell.send(serde_json::from_slice(&body).unwrap()).ok()?;
        }
        Some(())
    }

    fn answer(&self, method: &str, path: &str, body: &[u8]) -> (&str, &str, Vec<u8>) {
        let script = "text/javascript";
        let module = path.strip_prefix("/node_modules/").zip(self.modules.get());
        match (method, path, module) {
            ("POST", "/outcome", _) if !body.is_empty() => ("204 No Content", "text/plain", Vec::new()),
            ("GET", "/", _) => ("200 OK", "text/html", include_bytes!("page.html").to_vec()),
            ("GET", "/page.mjs", _) => ("200 OK", script, self.script.into()),
            ("GET", _, Some((module, folder))) => match fs::read(folder.join(module)) {
                Ok(text) => ("200 OK", script, text),
                Err(_) => ("404 Not Found", script, Vec::new()),
            },
            _ => ("404 Not Found", "text/plain", Vec::new()),
        }
    }
}
