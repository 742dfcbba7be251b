//! `cardan completions`: what real shells offer when Tab is pressed.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::pty::{Pty, Seat};
use common::{CARDAN, Ran, Scratch, finish};

/// A user with configured servers, of which it is known what they offer.
struct World {
    scratch: Scratch,
    env: Vec<(&'static str, String)>,
}

/// A server whose names are as nasty as names can be.
const NASTY: &str = r#"
import json, sys
tools = [
    {"name": "plain", "description": "Does it.\nMore \u001b[31mred", "inputSchema": {"type": "object", "properties": {
        "how": {"enum": ["slow", "very fast", "$HOME"]}, "sure": {"type": "boolean"},
        "days": {"type": "array", "items": {"enum": ["mo", "tu"]}}}, "required": ["sure"]}},
    {"name": "two words", "inputSchema": {"type": "object"}},
    {"name": "a:b=c", "inputSchema": {"type": "object"}},
    {"name": "q'uote", "inputSchema": {"type": "object"}},
    {"name": "$(touch pwned)", "inputSchema": {"type": "object"}},
    {"name": "x'; touch pwned #", "inputSchema": {"type": "object"}},
    {"name": "line\nbreak", "inputSchema": {"type": "object"}},
    {"name": "es\u001b[2Jcape", "inputSchema": {"type": "object"}},
]
for line in sys.stdin:
    message = json.loads(line)
    if message.get("id") is None:
        continue
    result = {"tools/list": {"tools": tools}, "initialize": {"protocolVersion": "2025-06-18", "capabilities":
        {"tools": {}}, "serverInfo": {"name": "nasty", "version": "1"}}}.get(message["method"])
    if message["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": "called " + json.dumps(message["params"]["name"])}]}
    answer = {"result": result} if result else {"error": {"code": -32601, "message": "no"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"#;

impl World {
    fn new(name: &str) -> Self {
        let scratch = Scratch::new(&format!("tab-{name}"));
        fs::create_dir(scratch.file("home")).unwrap();
        fs::write(scratch.file("nasty.py"), NASTY).unwrap();
        fs::write(scratch.file("letter.txt"), "hello").unwrap();
        let nasty = scratch.file("nasty.py");
        let config = format!(
            "[servers.demo]\ncommand = '{CARDAN}'\nargs = [\"demo\"]\n\
             [servers.nasty]\ncommand = \"python3\"\nargs = ['{nasty}']\n"
        );
        fs::write(scratch.file("cardan.toml"), config).unwrap();
        // A program that is called like no other.
        fs::create_dir(scratch.file("bin")).unwrap();
        let server = scratch.file("bin/serve-demo-here");
        fs::write(&server, format!("#!/bin/sh\nexec '{CARDAN}' demo\n")).unwrap();
        fs::set_permissions(&server, fs::Permissions::from_mode(0o755)).unwrap();
        let folder = Path::new(CARDAN).parent().unwrap().display().to_string();
        let path = format!("{folder}:{}:{}", scratch.file("bin"), std::env::var("PATH").unwrap());
        let env = vec![
            ("HOME", scratch.file("home")),
            ("XDG_CACHE_HOME", scratch.file("cache")),
            ("XDG_CONFIG_HOME", scratch.file("config")),
            ("XDG_DATA_HOME", scratch.file("data")),
            ("XDG_STATE_HOME", scratch.file("state")),
            ("XDG_RUNTIME_DIR", String::new()),
            ("TMPDIR", scratch.file("")),
            ("CARDAN_CONFIG", scratch.file("cardan.toml")),
            ("CARDAN_DAEMON", "0".to_owned()),
            ("PATH", path),
            ("LC_ALL", "C.UTF-8".to_owned()),
            ("NO_COLOR", "1".to_owned()),
        ];
        let world = Self { scratch, env };
        world.run(CARDAN, &["servers", "--wait", "60"]).exits(0);
        world
    }

    fn run(&self, program: impl AsRef<Path>, words: &[&str]) -> Ran {
        let mut command = Command::new(program.as_ref());
        command.args(words).envs(self.env.iter().cloned()).current_dir(self.scratch.file(""));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(command.spawn().unwrap())
    }

    fn sit(&self, program: &Path, words: &[&str], more: &[(&str, String)]) -> Seat {
        let mut pty = Pty::new(120);
        for (name, value) in self
            .env
            .iter()
            .map(|(name, value)| (*name, value))
            .chain(more.iter().map(|(name, value)| (*name, value)))
        {
            pty = pty.env(name, value);
        }
        let cd = format!("cd '{}' && exec \"$0\" \"$@\"", self.scratch.file(""));
        pty.program("sh").start(&[&["-c", &cd, program.to_str().unwrap()], words].concat())
    }

    /// What bash would put in place of the end of this line.
    fn bash(&self, line: &str) -> Vec<String> {
        let script = "source <(cardan completions bash); COMP_LINE=$1; COMP_POINT=${#1}; _cardan cardan \"${1##* }\"; \
                      [ ${#COMPREPLY[@]} = 0 ] || printf '%s\\n' \"${COMPREPLY[@]}\"";
        let ran = self.run("bash", &["--norc", "--noprofile", "-c", script, "bash", line]).exits(0);
        assert_eq!(ran.stderr, "");
        ran.stdout.lines().map(str::to_owned).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.run(CARDAN, &["daemon", "stop", "--all"]);
    }
}

/// A shell that is not everywhere, and the folder it was unpacked to.
struct Shell {
    program: PathBuf,
    place: Option<PathBuf>,
}

impl Shell {
    /// Says so where it is not there.
    fn find(name: &str, unpacked: &str) -> Option<Self> {
        let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers").join(name);
        if place.join(unpacked).is_file() {
            let place = place.canonicalize().unwrap();
            return Some(Self { program: place.join(unpacked), place: Some(place) });
        }
        if Command::new(name).arg("--version").stdout(Stdio::null()).status().is_ok() {
            return Some(Self { program: name.into(), place: None });
        }
        assert!(std::env::var_os("CARDAN_PEERS").is_none(), "{name} is required and not installed");
        eprintln!("skipped: {name} is not installed; `cargo xtask test` installs it");
        None
    }

    /// What zsh has to be told where it was unpacked.
    fn places(&self) -> String {
        let Some(place) = &self.place else { return String::new() };
        let mut modules = Vec::new();
        for library in self.libraries() {
            let versions = fs::read_dir(Path::new(&library).join("zsh")).into_iter().flatten().flatten();
            modules.extend(versions.map(|version| version.path().display().to_string()));
        }
        let functions = place.join("usr/share/zsh/functions");
        format!("module_path=({})\nfpath=({1} {1}/**/*(/N))\n", modules.join(" "), functions.display())
    }

    /// The folders below `usr/lib` that were unpacked.
    fn libraries(&self) -> Vec<String> {
        let folder = self.place.iter().map(|place| place.join("usr/lib"));
        let entries = folder.flat_map(|folder| fs::read_dir(folder).unwrap()).flatten();
        entries.map(|entry| entry.path().display().to_string()).collect()
    }
}

/// CLI-51: servers, tools, arguments, their values, addresses, prompts and files.
#[test]
fn bash_is_offered_what_there_is() {
    let world = World::new("bash");
    for (line, offered) in [
        ("cardan ca", &["call "][..]),
        ("cardan call --er", &["--era "]),
        ("cardan call --era ", &["auto ", "legacy ", "modern "]),
        ("cardan call --era=m", &["modern "]),
        ("cardan call ", &["demo ", "nasty "]),
        ("cardan config explain n", &["nasty "]),
        ("cardan call demo a", &["add ", "ask "]),
        ("cardan call demo add ", &["a=", "b="]),
        ("cardan call demo add a=2 ", &["b="]),
        ("cardan call demo note level=e", &["error ", "emergency "]),
        ("cardan call nasty plain ", &["sure=", "days=", "how="]),
        ("cardan call nasty plain sure=", &["true ", "false "]),
        ("cardan call nasty plain days=mo ", &["sure=", "days=", "how="]),
        ("cardan call nasty plain days=t", &["tu "]),
        ("cardan call nasty plain how=", &["slow ", "very\\ fast ", "\\$HOME "]),
        ("cardan call nasty plain how='v", &["very fast"]),
        ("cardan call nasty plain how=\"$", &["\\$HOME"]),
        ("cardan call nasty tw", &["two\\ words "]),
        ("cardan call nasty a", &["a:b=c "]),
        ("cardan call nasty a:", &["b=c "]),
        ("cardan call nasty q", &["q\\'uote "]),
        ("cardan call nasty '$", &["$(touch pwned)"]),
        ("cardan call nasty \\$", &["\\$\\(touch\\ pwned\\) "]),
        ("cardan call nasty 'x", &["x'\\''; touch pwned #"]),
        ("cardan call nasty l", &[]),
        ("cardan call nasty e", &[]),
        ("cardan call demo echo message=@le", &["letter.txt "]),
        ("cardan call demo --config card", &["cardan.toml "]),
        ("cardan call --config cardan.toml n", &["nasty "]),
        ("cardan list demo t", &["tools ", "templates "]),
        ("cardan read demo demo://cl", &["//clock "]),
        ("cardan read demo demo://f", &["//file/"]),
        ("cardan prompt demo gr", &["greet "]),
        ("cardan prompt demo greet ", &["name="]),
        ("cardan prompt demo greet name=", &[]),
        ("cardan complete demo demo", &["demo://file/\\{name\\} "]),
        ("cardan call absent ", &[]),
        ("cardan call demo absent ", &[]),
        ("cardan nonsense ", &[]),
        ("cardan call demo add -- sh letter", &["letter.txt "]),
        ("cardan call add -- serve-demo-h", &["serve-demo-here "]),
        ("cardan config add here -- serve-demo-h", &["serve-demo-here "]),
        ("cardan call add -- ./letter", &["./letter.txt "]),
        ("cardan search -- serve-demo-h", &[]),
    ] {
        assert_eq!(world.bash(line), offered, "{line}");
    }
    assert!(!Path::new(&world.scratch.file("pwned")).exists());
}

/// CLI-50: where bash-completion is loaded it completes the command behind `--`, under each of its names.
#[test]
fn bash_completion_completes_what_is_behind_the_dashes() {
    let world = World::new("bash-completion");
    for name in ["_command_offset", "_comp_command_offset"] {
        let script = "source <(cardan completions bash); eval \"$1() { COMPREPLY=(\\\"from \\$1\\\"); }\"; \
                      COMP_WORDS=(cardan call add a = 2 -- np); COMP_CWORD=7; COMP_LINE='cardan call add a=2 -- np'; \
                      COMP_POINT=${#COMP_LINE}; _cardan cardan np; echo \"${COMPREPLY[@]}\"";
        let ran = world.run("bash", &["--norc", "--noprofile", "-c", script, "bash", name]).exits(0);
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("from 7\n", ""), "{name}");
    }
}

/// CLI-51: Tab starts no server, and asks one only where a daemon has it running.
#[test]
fn tab_starts_nothing() {
    let world = World::new("starts-nothing");
    let values = || world.bash("cardan prompt demo greet name=");
    assert_eq!(values(), [""; 0]);
    let call = |tool: &str| world.run(CARDAN, &["call", "demo", tool, "--daemon"]).exits(0);
    let proposed = world.run(CARDAN, &["complete", "demo", "greet", "name="]).exits(0).stdout;
    assert!(!proposed.is_empty());
    // A daemon that has the server asleep is no reason to start it.
    world.run(CARDAN, &["list", "nasty", "--daemon"]).exits(0);
    assert_eq!(values(), [""; 0]);
    let stands = world.run(CARDAN, &["daemon", "status"]).exits(0).stdout;
    assert!(stands.contains("demo: asleep"), "{stands}");
    call("count");
    let proposed: Vec<String> = proposed.lines().map(|value| format!("{value} ")).collect();
    // Asked for a moment only: on a machine that is busy the moment may be over before the answer is there.
    let asked = (0..100).map(|_| values()).find(|values| !values.is_empty());
    assert_eq!(asked.expect("an answer in time"), proposed);
}

/// CLI-51: nothing is read for a word that stands before the cursor, so that nobody waits for what the shell's stdin brings.
#[test]
fn cli_51_tab_reads_no_stdin() {
    let world = World::new("stdin");
    for word in ["other=-", "other:=-", "other=@-"] {
        let mut command = Command::new(CARDAN);
        command.args(["__complete", "zsh", "prompt", "demo", "greet", word, "name="]);
        command.envs(world.env.iter().cloned()).current_dir(world.scratch.file(""));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let open = child.stdin.take();
        finish(child).exits(0).prints("");
        drop(open);
    }
}

/// CLI-50, CLI-51: at a terminal, with the keys that people press.
#[test]
fn bash_completes_at_a_terminal() {
    let world = World::new("bash-tty");
    let mut seat = world.sit(Path::new("bash"), &["--norc", "--noprofile", "-i"], &[]);
    seat.types("source <(cardan completions bash); PS1='ready> '\r").sees("ready> ");
    // Nothing leaves a quote that is open; bash closes it.
    seat.types("cardan call nasty 'x\t").sees("touch pwned #");
    seat.types("\r").sees("called \"x'; touch pwned #\"").sees("ready> ");
    assert!(!Path::new(&world.scratch.file("pwned")).exists());
    pressed(seat);
}

/// CLI-50, CLI-51: the same in zsh.
#[test]
fn zsh_completes_at_a_terminal() {
    let Some(shell) = Shell::find("zsh", "bin/zsh") else { return };
    let world = World::new("zsh-tty");
    let home = world.scratch.file("home");
    fs::write(format!("{home}/.zshenv"), format!("setopt no_global_rcs extended_glob\n{}", shell.places()))
        .unwrap();
    let rc = "autoload -Uz compinit && compinit -u -D\nsource <(cardan completions zsh)\nPS1='ready> '\nunsetopt prompt_sp\n";
    fs::write(format!("{home}/.zshrc"), rc).unwrap();
    let mut seat = world.sit(&shell.program, &["-i"], &[("ZDOTDIR", home)]);
    seat.sees("ready> ");
    pressed(seat);
}

/// CLI-50, CLI-51: the same in fish, which also tells without a terminal what it would offer.
#[test]
fn fish_completes() {
    let Some(shell) = Shell::find("fish", "usr/bin/fish") else { return };
    let mut world = World::new("fish");
    let libraries = shell.libraries().join(":");
    if !libraries.is_empty() {
        world.env.push(("LD_LIBRARY_PATH", libraries));
    }
    let offers = |line: &str| {
        let script = "cardan completions fish | source; complete -C \"$argv[1]\"";
        let ran = world.run(&shell.program, &["--no-config", "-c", script, line]).exits(0);
        ran.stdout
    };
    assert_eq!(
        offers("cardan config exp"),
        "explain\tTell why: files and their order, what shadows what, what a server says\nexport\tCopy servers into another tool's file\n"
    );
    assert_eq!(offers("cardan call nasty pl"), "plain\tDoes it.\n");
    assert_eq!(offers("cardan read demo demo://cl"), "demo://clock\tThe current time.\n");
    assert_eq!(offers("cardan call demo note level=er"), "level=error\n");
    assert!(offers("cardan call add -- serve-demo-h").starts_with("serve-demo-here"), "programs");
    assert_eq!(offers("cardan call add -- sh lett"), "letter.txt\n");
    let init = "cardan completions fish | source; function fish_prompt; echo -n 'ready> '; end; function fish_greeting; end";
    let mut seat = world.sit(&shell.program, &["--no-config", "-i", "-C", init], &[]);
    seat.sees("ready> ");
    pressed(seat);
}

/// Presses keys: what is completed is run, so that it is whole and nothing else.
fn pressed(mut seat: Seat) {
    // Each word is completed by itself, a name and its equals sign leave the cursor where the value goes.
    seat.types("cardan cal\tdem\tnot\tlev\twar\tmes\tx\r")
        .sees("warning: demo: x")
        .sees("noted")
        .sees("ready> ");
    // A colon breaks words for some shells; the address stays whole.
    seat.types("cardan read demo demo://cl\t--json\r").sees("\"uri\":\"demo://clock\"").sees("ready> ");
    seat.types("cardan call nasty tw\t\r").sees("called \"two words\"").sees("ready> ");
    seat.types("cardan call nasty a:\t\r").sees("called \"a:b=c\"").sees("ready> ");
    // Behind the dashes a program, then its files.
    seat.types("cardan call add a=40 b=2 -- serve-demo-h\tlett\t\r").sees("42").sees("ready> ");
    seat.types("exit\r");
    seat.end();
}

/// CLI-55: one search finds what any server offers, and says how old that is and of whom nothing is known.
#[test]
fn a_search_finds_across_servers() {
    let world = World::new("search");
    let config = world.scratch.file("cardan.toml");
    let more = "[servers.silent]\ncommand = \"no-such-program-here\"\n";
    fs::write(&config, fs::read_to_string(&config).unwrap() + more).unwrap();
    let found = world.run(CARDAN, &["search", "MESSAGE", "back"]).exits(0);
    assert!(found.stdout.starts_with("demo tool echo: Says the message back. (told "), "{found:?}");
    found.tells(&["not known what these offer: silent"]);
    let told = world.run(CARDAN, &["search", "two", "words", "--json"]).exits(0).json();
    assert_eq!((&told["found"][0]["server"], &told["found"][0]["kind"]), (&"nasty".into(), &"tool".into()));
    assert!(told["found"][0]["age_ms"].is_u64() && told["unknown"][0] == "silent", "{told}");
    let red = world.run(CARDAN, &["search", "red"]).exits(0).stdout;
    assert!(!red.contains('\u{1b}'), "{red:?}");
    world.run(CARDAN, &["search", "nothing-like-this"]).exits(5).prints("");
}

/// CLI-51: whoever has listed a server can complete and search what it offers.
#[test]
fn listing_is_enough_to_know() {
    let world = World::new("list");
    fs::remove_dir_all(world.scratch.file("cache")).unwrap();
    let offered = || world.bash("cardan call demo ad");
    assert_eq!(offered(), [""; 0]);
    world.run(CARDAN, &["list", "demo", "tools"]).exits(0);
    assert_eq!(offered(), [""; 0], "a part of it would hide the rest from others");
    world.run(CARDAN, &["list", "demo"]).exits(0);
    assert_eq!(offered(), ["add "]);
    assert_eq!(world.bash("cardan read demo demo://cl"), ["//clock "]);
}

/// docs/completion.md: every line that it says to write does what it says.
#[test]
fn every_line_of_the_page_works() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/completion.md");
    let page = fs::read_to_string(page).unwrap();
    let lines: Vec<_> =
        page.lines().filter(|line| line.starts_with("cardan ") || line.starts_with("source ")).collect();
    assert_eq!(lines.len(), 5, "the page has changed");
    let world = World::new("page");
    for line in lines {
        let shell = match line {
            line if line.contains("zsh") => Shell::find("zsh", "bin/zsh"),
            line if line.contains("fish") => Shell::find("fish", "usr/bin/fish"),
            _ => Some(Shell { program: "bash".into(), place: None }),
        };
        let Some(shell) = shell else { continue };
        let libraries = shell.libraries().join(":");
        let mut command = Command::new(&shell.program);
        if !libraries.is_empty() {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        // Without `compinit`, which the page asks for, zsh has nobody to tell.
        let before = match line.contains("zsh") {
            true => format!("{}compdef() {{ :; }}\n", shell.places()),
            false => String::new(),
        };
        command.args(["-c", &format!("{before}{line}")]).envs(world.env.iter().cloned());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let ran = finish(command.spawn().unwrap()).exits(0);
        assert_eq!((ran.stderr.as_str(), ran.stdout.is_empty()), ("", line.contains("source")), "{line}");
    }
}
