//! How a daemon begins and ends, and in whose way it is.

use super::*;

/// CLI-31: whoever comes when nobody is there starts a daemon; of several that start at once one stays, and all use it.
#[test]
fn of_many_that_start_at_once_one_stays() {
    let world = World::new("race", &demo("demo", "modern"));
    let many: Vec<_> =
        (0..8).map(|_| world.spawn(&["call", "demo", "add", "a=2", "b=3", "--daemon"])).collect();
    for child in many {
        let ran = finish(child).exits(0).prints("{\"sum\":5}\n");
        assert_eq!(ran.stderr, "", "each went through the daemon");
    }
    world.pid();
    assert_eq!(world.log().matches("\"event\":\"start\"").count(), 1);
}

/// CLI-31: the socket that a killed daemon leaves behind is in nobody's way.
#[test]
fn a_dead_daemon_is_replaced() {
    let world = World::new("stale", &demo("demo", "modern"));
    world.run(&["call", "demo", "count", "--daemon"]).exits(0);
    let dead = world.pid();
    signal_pid(dead, "KILL");
    while Path::new(&format!("/proc/{dead}/fd")).read_dir().is_ok_and(|mut fds| fds.next().is_some()) {
        thread::yield_now();
    }
    world.run(&["daemon", "status"]).exits(4);
    world.run(&["call", "demo", "count", "--daemon"]).exits(0);
    assert_ne!(world.pid(), dead);
}

/// CLI-32, CLI-48: a daemon that dies while a call runs is told as that: it is not the server that left, and nobody knows what became of the call.
#[test]
fn a_daemon_that_dies_in_a_call_is_told() {
    if !has_python() {
        return;
    }
    let scratch = Scratch::new("warm-killed-log");
    let log = Fifo::new(&scratch, "log");
    let world = World::new("killed", &odd("hang", &log.path));
    for form in [&[][..], &["--json"]] {
        let child = world.spawn(&[&["call", "hang", "odd", "--daemon"], form].concat());
        log.message("tools/call");
        signal_pid(world.pid(), "KILL");
        let ran = finish(child).exits(13).prints("");
        let ran = ran.tells(&["the daemon ended while it waited for the server", "daemon-"]);
        assert!(!ran.stderr.contains("closed the link"), "{ran:?}");
        ran.tells(match form.is_empty() {
            true => &["delivery: whether the server ran it is not known", "before it is made again"],
            false => &[r#""delivery":"unknown""#],
        });
    }
}

/// CLI-31: what a script has open is not held by the daemon that it happens to start.
#[test]
fn a_daemon_holds_nothing_of_who_started_it() {
    let world = World::new("holds", &demo("demo", "modern"));
    // Shells take such numbers for themselves: `exec {fd}>held`.
    let script = "exec 9>held 11>high; flock 9; flock 11; \"$0\" call demo count --daemon";
    let mut command = Command::new("bash");
    world.dress(&mut command).args(["-c", script, CARDAN]);
    finish(start(command)).exits(0);
    world.pid();
    for file in ["held", "high"] {
        let free = Command::new("flock").args(["--nonblock", &world.0.file(file), "true"]).status().unwrap();
        assert!(free.success(), "{file}");
    }
}

/// CLI-31: a daemon that hangs keeps nobody from working, nor from ending others.
#[test]
fn a_daemon_that_hangs_is_left_aside() {
    let world = World::new("hangs", &demo("demo", "modern"));
    let call = |folder: &str| {
        let mut command = world.command(&["call", "demo", "count", "--daemon", "--timeout", "20"]);
        fs::create_dir_all(world.0.file(folder)).unwrap();
        command.current_dir(world.0.file(folder));
        finish(start(command)).exits(0)
    };
    for folder in ["one", "two"] {
        assert_eq!(call(folder).stderr, "");
    }
    // In the order in which all are ended.
    let first = world.daemons()[0].clone();
    let (pid, folder) =
        (first["pid"].as_u64().unwrap().try_into().unwrap(), first["folder"].as_str().unwrap());
    signal_pid(pid, "STOP");
    call(Path::new(folder).file_name().unwrap().to_str().unwrap())
        .tells(&["not through the daemon: it cannot be reached: it was asked"]);
    let all = world.run(&["daemon", "stop", "--all"]);
    signal_pid(pid, "CONT");
    all.exits(4).tells(&["cannot be asked"]);
    assert!(world.daemons().len() <= 1, "the other has ended");
}

/// CLI-31: a daemon ends when nobody has called for a while, and takes its socket and servers with it.
#[test]
fn an_idle_daemon_ends() {
    let scratch = Scratch::new("warm-idle-pids");
    let pids = scratch.file("pids");
    let world = World::new("idle", &marked(&pids));
    let mut daemon = start(world.command(&["daemon", "--idle", "1"]));
    let mut told = BufReader::new(daemon.stderr.take().unwrap());
    let mut line = String::new();
    told.read_line(&mut line).unwrap();
    assert!(line.starts_with("keeping servers at unix://"), "{line}");
    world.run(&["daemon"]).exits(1).tells(&["a daemon runs already"]);
    world.run(&["call", "demo", "count", "--daemon"]).exits(0);
    finish(daemon).exits(0);
    let pid = fs::read_to_string(&pids).unwrap().trim().to_owned();
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "the server is gone");
    world.run(&["daemon", "status"]).exits(4);
}

/// CLI-31: what runs when a daemon is asked to end may finish.
#[test]
fn what_runs_may_finish() {
    let world = World::new("drain", &demo("demo", "modern"));
    let mut child = world.spawn(&["call", "demo", "slow", "steps=20", "delay_ms=100", "--daemon"]);
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    told.read_line(&mut line).unwrap();
    assert!(line.starts_with("progress: 1 of 20"), "{line}");
    world.run(&["daemon", "stop"]).exits(0);
    thread::spawn(move || std::io::copy(&mut told, &mut std::io::sink()));
    finish(child).exits(0);
    assert!(world.daemons().is_empty());
}

/// CLI-31: it outlives the terminal that it was started from, and whoever hangs up on it.
#[test]
fn it_outlives_its_terminal() {
    let world = World::new("terminal", &demo("demo", "modern"));
    let told = Fifo::new(&world.0, "told");
    // It holds the terminal, as a window does.
    let mut window = Command::new("script");
    let line = format!("exec '{CARDAN}' daemon 2> '{}'", told.path);
    world.dress(window.args(["-qc", &line, "/dev/null"])).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut window = window.spawn().expect("script of util-linux is installed");
    while !told.line().contains("keeping servers at") {}
    let count = || world.run(&["call", "demo", "count", "--daemon"]).exits(0).stdout;
    let (daemon, first) = (world.pid(), count());
    window.kill().unwrap();
    window.wait().unwrap();
    let second = count();
    assert_ne!(first, second, "the server runs on");
    signal_pid(daemon, "HUP");
    assert_ne!(count(), second, "the server runs on");
    assert_eq!(world.pid(), daemon);
}
