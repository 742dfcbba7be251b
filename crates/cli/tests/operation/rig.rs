//! A gateway whose every word on stderr can be waited for, and plain HTTP to ask it things.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use serde_json::Value;

use crate::common::{CARDAN, Scratch, signal};

/// Far longer than anything here takes; a hang fails instead of lasting.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A folder with a configuration and a home of its own.
pub(crate) struct World(pub(crate) Scratch);

impl World {
    pub(crate) fn new(name: &str, config: &str) -> Self {
        let world = Self(Scratch::new(&format!("operation-{name}")));
        fs::write(world.config(), config).unwrap();
        world
    }

    pub(crate) fn config(&self) -> String {
        self.0.file("cardan.toml")
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(CARDAN);
        let home = self.0.file("home");
        command.args(words).env("HOME", home).env_remove("XDG_CACHE_HOME").env_remove("XDG_CONFIG_HOME");
        command.stdin(Stdio::null());
        command
    }

    /// A gateway on a free port.
    pub(crate) fn serve(&self, words: &[&str]) -> Running {
        let config = self.config();
        let all = [&["serve", "--listen", "127.0.0.1:0", "--config", &config], words].concat();
        Running::of(self.command(&all))
    }
}

/// Something that serves on a port, until it is dropped.
pub(crate) struct Running {
    pub(crate) address: String,
    pub(crate) child: Child,
    told: Receiver<String>,
}

impl Running {
    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || lines.map_while(Result::ok).all(|line| tell.send(line).is_ok()));
        let mut running = Self { address: String::new(), child, told };
        let line = running.hears("http://");
        running.address = line.split_once("http://").unwrap().1.split('/').next().unwrap().to_owned();
        running.hears("end with Ctrl-C");
        running
    }

    /// The next line on stderr that has this.
    #[track_caller]
    pub(crate) fn hears(&self, what: &str) -> String {
        loop {
            let line = self.told.recv_timeout(LONG).unwrap_or_else(|_| panic!("{what:?} was never told"));
            if line.contains(what) {
                return line;
            }
        }
    }

    /// The answer to a GET.
    pub(crate) fn get(&self, path: &str, headers: &[&str]) -> Got {
        self.ask("GET", path, headers)
    }

    /// A connection, with a POST to `path` on it.
    pub(crate) fn post(&self, path: &str, headers: &[&str], message: &Value) -> Wire {
        let mut wire = Wire::open(&self.address);
        wire.post(path, headers, message);
        wire
    }

    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[&str]) -> Got {
        Wire::open(&self.address).ask(method, path, headers, "")
    }

    /// Waits until `/readyz` has this word.
    pub(crate) fn stands(&self, word: &str) -> Value {
        loop {
            let said = self.get("/readyz", &[]).json();
            if said["status"] == word {
                return said;
            }
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Waits for its end.
    pub(crate) fn ends(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One connection.
pub(crate) struct Wire(TcpStream);

impl Wire {
    pub(crate) fn open(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        Self(stream)
    }

    /// Sends a request, which is the last on its connection.
    pub(crate) fn send(&mut self, method: &str, path: &str, headers: &[&str], body: &str) {
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        if !headers.iter().any(|header| header.starts_with("Connection:")) {
            head += "Connection: close\r\n";
        }
        if !headers.iter().any(|header| header.starts_with("Host:")) {
            head += "Host: localhost\r\n";
        }
        for header in headers {
            head += &format!("{header}\r\n");
        }
        head += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        self.0.write_all(head.as_bytes()).unwrap();
    }

    /// Posts a message.
    pub(crate) fn post(&mut self, path: &str, headers: &[&str], message: &Value) {
        let json = ["Content-Type: application/json", "Accept: application/json, text/event-stream"];
        self.send("POST", path, &[&json, headers].concat(), &message.to_string());
    }

    /// Reads until this has come.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str) -> String {
        let mut text = String::new();
        while !text.contains(what) {
            let mut some = [0; 4096];
            let read = self.0.read(&mut some).unwrap();
            assert_ne!(read, 0, "{what:?} never came: {text}");
            text += std::str::from_utf8(&some[..read]).unwrap();
        }
        text
    }

    /// All that comes.
    pub(crate) fn rest(mut self) -> String {
        let mut bytes = Vec::new();
        self.0.read_to_end(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    /// Ends it as a process that dies does: the other side hears of a reset.
    pub(crate) fn breaks_off(self) {
        rustix::net::sockopt::set_socket_linger(&self.0, Some(Duration::ZERO)).unwrap();
    }

    /// Waits until the other side closes, whatever it says before.
    pub(crate) fn ends(mut self) {
        std::io::copy(&mut self.0, &mut std::io::sink()).unwrap();
    }

    /// Is it open, as far as is known now?
    pub(crate) fn is_open(&mut self) -> bool {
        self.0.set_nonblocking(true).unwrap();
        loop {
            match self.0.read(&mut [0; 4096]) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
            }
        }
    }

    /// The same, as an answer.
    pub(crate) fn answer(self) -> Got {
        let text = self.rest();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Got { status, head: head.to_lowercase(), spelled: head.to_owned(), body: body.to_owned() }
    }

    fn ask(mut self, method: &str, path: &str, headers: &[&str], body: &str) -> Got {
        self.send(method, path, headers, body);
        self.answer()
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: u16,
    /// In small letters.
    pub(crate) head: String,
    /// The head as it came.
    pub(crate) spelled: String,
    pub(crate) body: String,
}

impl Got {
    /// The session that it opens.
    #[track_caller]
    pub(crate) fn session(&self) -> String {
        let named = self.spelled.lines().filter_map(|line| line.split_once(": "));
        let mut named = named.filter(|(name, _)| name.eq_ignore_ascii_case("mcp-session-id"));
        named.next().unwrap_or_else(|| panic!("no session: {self:?}")).1.to_owned()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A demo server among others.
pub(crate) fn demo(name: &str) -> String {
    format!("[servers.{name}]\ncommand = '{CARDAN}'\nargs = [\"demo\"]\n")
}

/// One that never starts.
pub(crate) const SICK: &str =
    "[servers.sick]\ncommand = \"sh\"\nargs = [\"-c\", \"echo no luck >&2; exit 3\"]\n";
