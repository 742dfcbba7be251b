//! A configuration that changes while it is in force: what is half written waits, what is wrong is refused, and only
//! what changed is touched.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::convert::Infallible;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cardan_client::{Client, way};
use cardan_config::{Config, Search, show};
use cardan_gateway::fleet::{Fleet, Making, Options, Reloaded, Spec};
use cardan_gateway::reload::{Follow, Following, Look, Turn};
use cardan_proto::limits::Limits;
use cardan_proto::upkeep::policy::Policy;
use cardan_runtime::memory;
use cardan_server::Server;
use common::Scratch;

const EVERY: Duration = Limits::DEFAULT.config_poll_interval;

/// A project of its own inside a home of its own.
fn search(scratch: &Scratch) -> Search {
    let home = scratch.path().to_owned();
    fs::create_dir_all(home.join("project/.git")).unwrap();
    let cwd = home.join("project");
    Search::of(None, cwd, &|name| (name == "HOME").then(|| home.display().to_string()))
}

/// The project's file, where its folder is there.
fn file(scratch: &Scratch) -> PathBuf {
    search(scratch).cwd.join("cardan.toml")
}

fn names(config: &Config) -> Vec<&str> {
    config.servers.iter().map(|server| server.name.as_str()).collect()
}

/// Looks until the files stand still. A file grows old meanwhile at most once.
fn settled(follow: &mut Follow) -> Look {
    for _ in 0..4 {
        match follow.look() {
            Look::Changing => {}
            other => return other,
        }
    }
    panic!("the files do not stand still");
}

#[test]
fn a_change_is_taken_over_when_it_stands_still() {
    let scratch = Scratch::new("follow");
    let path = file(&scratch);
    let mut follow = Follow::read(search(&scratch));
    assert!(follow.config().servers.is_empty());
    assert!(matches!(settled(&mut follow), Look::Same));
    fs::write(&path, "[servers.a]\ncommand = 'x'\n[ser").unwrap();
    assert!(matches!(follow.look(), Look::Changing), "it is new");
    fs::write(&path, "[servers.a]\ncommand = 'x'\n[servers.b]\ncommand").unwrap();
    assert!(matches!(follow.look(), Look::Changing), "it is being written");
    fs::write(&path, "[servers.a]\ncommand = 'x'\n[servers.b]\ncommand = 'y'\n").unwrap();
    let Look::Taken(config) = settled(&mut follow) else { panic!("not taken over") };
    assert_eq!(names(&config), ["a", "b"]);
    assert!(matches!(settled(&mut follow), Look::Same), "once");
    // The same length, and on most file systems the same time.
    fs::write(&path, "[servers.a]\ncommand = 'x'\n[servers.b]\ncommand = 'z'\n").unwrap();
    let Look::Taken(config) = settled(&mut follow) else { panic!("not taken over") };
    assert_eq!(show::summary(&config.servers[1]), "z");
    let text = fs::read(&path).unwrap();
    fs::write(&path, text).unwrap();
    assert!(matches!(settled(&mut follow), Look::Same), "written, but as it was");
    fs::remove_file(&path).unwrap();
    let Look::Taken(config) = settled(&mut follow) else { panic!("not taken over") };
    assert!(config.servers.is_empty());
}

#[test]
fn what_is_wrong_is_refused_and_the_old_stays_in_force() {
    let scratch = Scratch::new("refused");
    let path = file(&scratch);
    // Wrong from the start: that is known, and hinders no change.
    let known = "[servers.odd]\nnothing = 1\n";
    fs::write(&path, format!("{known}[servers.a]\ncommand = 'x'\n")).unwrap();
    let mut follow = Follow::read(search(&scratch));
    assert_eq!((names(follow.config()), follow.config().problems.len()), (vec!["a"], 1));
    for (wrong, told) in [
        ("[servers.a]\ncommand = 'x'\n[servers.b", "cardan.toml:3"),
        ("[servers.a]\ncomand = 'x'\n", "server `a`"),
        ("[servers.a]\ncommand = 'x'\n[server.b]\n", "cardan.toml:3"),
    ] {
        fs::write(&path, wrong).unwrap();
        let Look::Refused(problems) = settled(&mut follow) else { panic!("taken over: {wrong}") };
        assert!(problems[0].to_string().contains(told), "{problems:?}");
        assert_eq!(names(follow.config()), ["a"], "{wrong}");
        assert!(matches!(settled(&mut follow), Look::Same), "told once");
    }
    // Above, so that all else stands in other lines.
    fs::write(&path, format!("# better\n\n{known}[servers.a]\ncommand = 'x'\n[servers.b]\ncommand = 'y'\n"))
        .unwrap();
    let Look::Taken(config) = settled(&mut follow) else { panic!("not taken over") };
    assert_eq!(names(&config), ["a", "b"]);
}

/// A file that is imported counts as soon as it is there, and as soon as it is imported.
#[test]
fn imported_files_are_followed_too() {
    let scratch = Scratch::new("imports");
    let path = file(&scratch);
    fs::write(&path, "").unwrap();
    let mut follow = Follow::read(search(&scratch));
    let imported = scratch.path().join("project/.cursor/mcp.json");
    fs::create_dir_all(imported.parent().unwrap()).unwrap();
    fs::write(&imported, "{\"mcpServers\": {\"a\": {\"command\": \"x\"}}}").unwrap();
    assert!(matches!(settled(&mut follow), Look::Same), "nobody imports it");
    fs::write(&path, "imports = ['cursor']\n").unwrap();
    let Look::Taken(config) = settled(&mut follow) else { panic!("not taken over") };
    assert_eq!(names(&config), ["a"]);
    fs::write(&imported, "{\"mcpServers\": {}}").unwrap();
    let Look::Taken(config) = settled(&mut follow) else { panic!("not taken over") };
    assert!(config.servers.is_empty());
}

/// Servers in memory by the names of a configuration, and who was reached.
fn specs(config: &Config, reached: &Arc<Mutex<Vec<String>>>) -> Vec<Spec> {
    let spec = |server: &cardan_config::Server| {
        let (name, reached) = (show::summary(server), Arc::clone(reached));
        let way = way(move || {
            reached.lock().unwrap().push(name.clone());
            let (ours, theirs) = memory::pair(&Limits::DEFAULT);
            let server = Server::builder("s", "1").tool("t", "t", async || "done").build();
            tokio::spawn(async move { server.serve(theirs).await });
            async move { Ok::<_, Infallible>(ours) }
        });
        let making = Making { connector: Client::builder("test", "0"), way, policy: Policy::CHILD };
        Spec::new(&server.name, "stdio", server.digest().to_string(), making)
    };
    config.servers.iter().map(spec).collect()
}

/// S0-79: a fleet goes over to what its file says, touches only what changed, and bears a broken file.
#[tokio::test(start_paused = true)]
async fn s0_79_a_fleet_follows_its_file() {
    let scratch = Scratch::new("following");
    let path = file(&scratch);
    let put = |text: &str| fs::write(&path, text).unwrap();
    put(
        "[servers.same]\ncommand = 'one'\n[servers.other]\ncommand = 'two'\n[servers.gone]\ncommand = 'three'\n",
    );
    let follow = Follow::read(search(&scratch));
    let reached = Arc::new(Mutex::new(Vec::new()));
    let fleet = Fleet::start(specs(follow.config(), &reached), Options::default());
    fleet.settle(Duration::from_secs(60)).await;
    let met = Arc::clone(&reached);
    let mut following = Following::start(fleet.clone(), follow, EVERY, move |config| specs(config, &met));
    put("[servers.same]\ncommand = 'one'\n[servers.other");
    let Some(Turn::Refused(problems)) = following.next().await else { panic!("not refused") };
    assert!(problems[0].to_string().contains("cardan.toml:3"), "{problems:?}");
    assert!(fleet.status().iter().all(|status| status.health.is_up()) && fleet.status().len() == 3);
    put(
        "[servers.new]\ncommand = 'four'\n[servers.same]\ncommand = 'one'\n[servers.other]\ncommand = 'five'\n",
    );
    let turn = following.next().await.unwrap();
    let names = |name: &str| vec![name.to_owned()];
    let expected = Reloaded {
        added: names("new"),
        removed: names("gone"),
        restarted: names("other"),
        kept: names("same"),
    };
    assert_eq!(turn, Turn::Taken(expected));
    fleet.settle(Duration::from_secs(60)).await;
    let mut reached = reached.lock().unwrap().clone();
    reached.sort();
    assert_eq!(reached, ["five", "four", "one", "three", "two"], "each once");
    following.stop().await;
    fleet.close("the test is over").await;
}

/// Nothing is read and nobody is touched while nothing changes.
#[tokio::test(start_paused = true)]
async fn nothing_happens_while_nothing_changes() {
    let scratch = Scratch::new("quiet");
    fs::write(file(&scratch), "[servers.a]\ncommand = 'one'\n").unwrap();
    let follow = Follow::read(search(&scratch));
    let reached = Arc::new(Mutex::new(Vec::new()));
    let fleet = Fleet::start(specs(follow.config(), &reached), Options::default());
    let met = Arc::clone(&reached);
    let mut following = Following::start(fleet.clone(), follow, EVERY, move |config| specs(config, &met));
    let quiet = tokio::time::timeout(Duration::from_secs(600), following.next()).await;
    assert!(quiet.is_err(), "{quiet:?}");
    assert_eq!(*reached.lock().unwrap(), ["one"]);
    drop(following);
    fleet.close("the test is over").await;
}
