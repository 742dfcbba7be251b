//! A real nginx of one test's own: one process, no privilege, nothing outside a scratch folder.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::common::Scratch;

/// Far longer than anything here takes.
const DEADLINE: Duration = Duration::from_secs(60);

/// How often a port may be taken from under us before that is no accident.
const STARTS: usize = 5;

/// Silence of the server behind it that nginx bears, in seconds.
pub(crate) const PROXY_READ_TIMEOUT_S: u64 = 3;

/// A running nginx, until it is dropped.
pub(crate) struct Nginx {
    /// Where it listens.
    pub(crate) address: String,
    child: Child,
    /// What it logs, requests and errors alike.
    lines: mpsc::Receiver<String>,
    _scratch: Scratch,
}

/// Whether there is an nginx to start. Says so when not.
pub(crate) fn installed() -> bool {
    let found = program().is_some();
    if !found {
        assert!(std::env::var_os("CARDAN_PEERS").is_none(), "nginx is required and not installed");
        eprintln!(
            "skipped: nginx is not installed; `cargo xtask test` unpacks it, or install the package nginx-light"
        );
    }
    found
}

fn program() -> Option<PathBuf> {
    let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers/nginx/usr/sbin/nginx");
    let runs = |program: &PathBuf| {
        Command::new(program).arg("-v").stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    [unpacked, "nginx".into(), "/usr/sbin/nginx".into()].into_iter().find(runs)
}

impl Nginx {
    /// In front of `upstream`, with more lines of configuration for all that is passed on.
    pub(crate) fn start(name: &str, upstream: &str, more: &str) -> Self {
        let scratch = Scratch::new(&format!("nginx-{name}"));
        for _ in 0..STARTS {
            // Nobody holds the port between here and there, so somebody else may get it.
            let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            std::fs::write(scratch.file("nginx.conf"), config(&free.to_string(), upstream, more)).unwrap();
            let mut command = Command::new(program().expect("the caller has asked"));
            command.args(["-p", &scratch.file(""), "-c", &scratch.file("nginx.conf"), "-e", "stderr"]);
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            let mut told = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
            let mut said = Vec::new();
            // It names itself when its sockets are open, or its reason when it gives up.
            let ready =
                told.by_ref().inspect(|line| said.push(line.clone())).any(|line| line.contains(": nginx/"));
            if !ready {
                child.wait().unwrap();
                assert!(said.iter().any(|line| line.contains("Address already in use")), "{said:#?}");
                continue;
            }
            let (tell, lines) = mpsc::channel();
            thread::spawn(move || told.try_for_each(|line| tell.send(line)));
            return Self { address: free.to_string(), child, lines, _scratch: scratch };
        }
        panic!("no port of {STARTS} could be kept")
    }

    /// Waits until it has cut a POST, because the server behind it said nothing.
    #[track_caller]
    pub(crate) fn cuts(&self) {
        self.logs("a cut POST", |line| line.contains("upstream timed out") && line.contains("\"POST /mcp"));
    }

    /// Waits until a GET that named the last event it had is answered and done.
    #[track_caller]
    pub(crate) fn resumes(&self) {
        self.logs("a resuming GET", |line| {
            line.starts_with("told GET /mcp 200 after=") && !line.ends_with("after=-")
        });
    }

    #[track_caller]
    fn logs(&self, what: &str, is: impl Fn(&str) -> bool) {
        let mut seen = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(DEADLINE) {
            if is(&line) {
                return;
            }
            seen.push(line);
        }
        panic!("{what} was not logged: {seen:#?}")
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What people write: `proxy_pass`, everything else as nginx has it, but for the size of requests, which is
/// that of `Limits::body_bytes`. Buffering is on, and
/// HTTP/1.0 is spoken to the server. WebSockets alone need two lines more.
fn config(address: &str, upstream: &str, more: &str) -> String {
    format!(
        r#"daemon off;
master_process off;
pid nginx.pid;
error_log stderr notice;
events {{ worker_connections 256; }}
http {{
    log_format told 'told $request_method $uri $status after=$http_last_event_id';
    access_log /dev/stderr told;
    client_body_temp_path body;
    proxy_temp_path proxied;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    server {{
        listen {address};
        proxy_read_timeout {PROXY_READ_TIMEOUT_S}s;
        client_max_body_size 4m;
        {more}
        location / {{ proxy_pass http://{upstream}; }}
        location /ws {{
            proxy_pass http://{upstream};
            proxy_http_version 1.1;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection upgrade;
        }}
    }}
}}
"#
    )
}
