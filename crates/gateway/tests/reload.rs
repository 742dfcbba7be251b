//! A configuration that changes while it is in force: what is half written waits, what is wrong is refused, and only
//! what changed is touched.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::convert::Infallible;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cardan_client::{Client, way};
use cardan_config::trust::{Standing, Trusted};
use cardan_config::{Config, Search, show};
use cardan_gateway::configured::{self, here};
use cardan_gateway::fleet::{Fleet, Health, Making, Options, Reloaded, Spec};
use cardan_gateway::reload::{Follow, Following, Look, Turn};
use cardan_proto::limits::Limits;
use cardan_proto::limits::fleet::TURNS;
use cardan_proto::session::config::EraChoice;
use cardan_proto::upkeep::condition::Condition;
use cardan_proto::upkeep::policy::Policy;
use cardan_runtime::memory;
use cardan_server::Server;
use common::Scratch;
use common::farm::Farm;

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

/// T15: a file of the user's that cannot be read any more leaves keys and policy in force, as the rest.
#[test]
fn t15_a_broken_file_loosens_nothing() {
    let scratch = Scratch::new("loosens");
    fs::write(file(&scratch), "[servers.a]\ncommand = 'x'\n").unwrap();
    let user = search(&scratch).user_file().unwrap();
    fs::create_dir_all(user.parent().unwrap()).unwrap();
    fs::write(&user, "[policy.'*']\ntools = { deny = ['*'] }\n[[gateway.keys]]\nname = 'ada'\nenv = 'ADA'\n")
        .unwrap();
    let mut follow = Follow::read(search(&scratch));
    let keys = follow.config().gateway.keys.clone();
    assert!(keys.is_some() && follow.config().policies.len() == 1 && follow.config().unread.is_empty());
    fs::write(&user, "[policy.'*'\n").unwrap();
    let Look::Refused(problems) = settled(&mut follow) else { panic!("taken over") };
    assert_eq!(problems[0].file, user);
    assert_eq!((follow.config().gateway.keys.clone(), follow.config().policies.len()), (keys, 1));
}

/// A file that is imported counts as soon as it is there, and as soon as it is imported.
#[test]
fn imported_files_are_followed_too() {
    let scratch = Scratch::new("imports");
    let path = search(&scratch).user_file().unwrap();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
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

/// S0-79: files that values come from are part of the configuration: what uses them is touched and nothing else, and one
/// that is gone or broken leaves in force what there is.
#[tokio::test(start_paused = true)]
async fn s0_79_files_of_values_are_followed() {
    let scratch = Scratch::new("values");
    let (path, env, key) =
        (file(&scratch), scratch.path().join("project/.env"), scratch.path().join("project/key"));
    let text = format!(
        "[servers.plain]\nurl = 'tcp://127.0.0.1:1'\n\
         [servers.env]\ncommand = 'cardan-test-nowhere'\nenv_file = '.env'\n\
         [servers.file]\nurl = 'http://127.0.0.1:1/mcp'\nheaders = {{ X = '${{file:{}}}' }}\n\
         [servers.off]\ncommand = 'x'\nenv_file = 'nowhere'\nenabled = false\n",
        key.display()
    );
    fs::write(&path, text).unwrap();
    fs::write(&env, "A=1\n").unwrap();
    fs::write(&key, "one-canary").unwrap();
    let search = Search { file: Some(path.clone()), ..search(&scratch) };
    let follow = Follow::read(search.clone());
    let specs = move |config: &Config| {
        let connector = Client::builder("test", "0");
        here(config, &search, |around| configured::specs(config, around, &connector, &Limits::DEFAULT))
    };
    let fleet = Fleet::start(specs(follow.config()), Options::default());
    let mut following = Following::start(fleet.clone(), follow, EVERY, specs);
    for (file, text, touched) in [(&env, "A=2\n", "env"), (&key, "two-canary", "file")] {
        fs::write(file, text).unwrap();
        let Some(Turn::Taken(reloaded)) = following.next().await else { panic!("not taken over") };
        assert_eq!(reloaded.restarted, [touched]);
        assert_eq!(reloaded.kept.len(), 2);
    }
    fs::write(&env, "no variable\n").unwrap();
    let Some(Turn::Refused(problems)) = following.next().await else { panic!("not refused") };
    let told = problems[0].to_string();
    assert!(
        told.contains("cardan.toml:5:1: server `env`: `env_file`") && told.contains(".env:1: NAME"),
        "{told}"
    );
    fs::remove_file(&key).unwrap();
    let Some(Turn::Refused(problems)) = following.next().await else { panic!("not refused") };
    let told: Vec<_> = problems.iter().map(ToString::to_string).collect();
    assert!(
        told.len() == 2 && told[1].contains("server `file`: `X`") && told[1].contains("cannot be read"),
        "{told:?}"
    );
    let broken = |status: &cardan_gateway::fleet::Status| status.health == Health::Misconfigured;
    assert!(!fleet.status().iter().any(broken), "what was in force stays so: {:#?}", fleet.status());
    fs::write(&env, "A=2\n").unwrap();
    let Some(Turn::Refused(problems)) = following.next().await else { panic!("not refused") };
    assert_eq!(problems.len(), 1, "one of two is mended: {problems:?}");
    fs::write(&key, "two-canary").unwrap();
    let Some(Turn::Taken(reloaded)) = following.next().await else { panic!("not taken over") };
    assert_eq!(reloaded.kept.len(), 3, "all is as it was: {reloaded:?}");
    following.stop().await;
    fleet.close("the test is over").await;
}

/// S0-79: a value that is of no use takes no server down that runs, whatever else is said of it now; one that is new, or
/// never worked, hinders nothing.
#[test]
fn s0_79_a_bad_value_takes_nothing_down() {
    let scratch = Scratch::new("bad-values");
    let path = file(&scratch);
    fs::write(scratch.path().join("project/none.pem"), "no certificate").unwrap();
    let good = "[servers.a]\nurl = 'https://127.0.0.1:1/mcp'\n";
    fs::write(&path, good).unwrap();
    let mut follow = Follow::read(Search { file: Some(path.clone()), ..search(&scratch) });
    for (name, line) in [
        ("variable", "url = 'https://127.0.0.1:1/${CARDAN_TEST_NOWHERE}'"),
        ("address", "url = 'https://127.0.0.1:99999/mcp'"),
        ("header", "url = 'https://127.0.0.1:1/mcp'\nheaders = { X = \"a\\nb\" }"),
        ("socket", "url = 'wss://127.0.0.1:1/mcp'\nheaders = { X = \"a\\nb\" }"),
        ("certificates", "url = 'https://127.0.0.1:1/mcp'\nca = 'none.pem'"),
    ] {
        let new = "[servers.b]\ncommand = 'y'\n";
        fs::write(&path, format!("{new}[servers.a]\n{line}\n")).unwrap();
        let Look::Refused(problems) = settled(&mut follow) else { panic!("taken over: {name}") };
        let told = problems[0].to_string();
        assert!(
            problems.len() == 1 && told.contains("cardan.toml:") && told.contains("server `a`"),
            "{told}"
        );
        assert_eq!(names(follow.config()), ["a"], "{name}: the old stays in force");
        fs::write(&path, format!("{good}[servers.{name}]\n{line}\n")).unwrap();
        let look = settled(&mut follow);
        let known = matches!(&look, Look::Taken(config) if names(config) == ["a", name]);
        // What is wrong without any value is refused wherever it stands.
        assert!(known, "{name}: {look:?}");
        fs::write(&path, good).unwrap();
        assert!(matches!(settled(&mut follow), Look::Taken(_)), "{name}");
    }
}

/// T24: what came with a project and is to be trusted anew holds up no other change.
#[test]
fn t24_what_nobody_has_seen_holds_up_nothing() {
    let scratch = Scratch::new("unseen");
    let path = file(&scratch);
    fs::write(&path, "[servers.a]\ncommand = 'x'\n").unwrap();
    let search = search(&scratch);
    let config = Config::load(&search);
    Trusted::add(&config.servers, &config, &search).unwrap();
    let mut follow = Follow::read(search);
    assert_eq!(follow.config().servers[0].origin.standing, Standing::Trusted);
    fs::write(&path, "[servers.a]\ncommand = 'y'\n").unwrap();
    let Look::Taken(config) = settled(&mut follow) else { panic!("not taken over") };
    assert_eq!(config.servers[0].origin.standing, Standing::Unseen);
}

/// A server that misses its file from the start is shown as such, hinders nobody, and is started when the file comes.
#[test]
fn a_file_of_values_may_come_later() {
    let scratch = Scratch::new("values-later");
    let path = file(&scratch);
    let server = "[servers.a]\ncommand = 'x'\nenv_file = ['one', 'two']\n";
    fs::write(&path, server).unwrap();
    // Named, and so trusted: of one that is not, nobody knows which files it needs.
    let mut follow = Follow::read(Search { file: Some(path.clone()), ..search(&scratch) });
    fs::write(&path, format!("{server}[servers.b]\ncommand = 'y'\n")).unwrap();
    assert!(matches!(settled(&mut follow), Look::Taken(_)), "known to be wrong, so it hinders nothing");
    for file in ["one", "two"] {
        fs::write(scratch.path().join("project").join(file), "A=1\n").unwrap();
        assert!(matches!(settled(&mut follow), Look::Taken(_)), "{file}");
    }
    fs::remove_file(scratch.path().join("project/two")).unwrap();
    assert!(matches!(settled(&mut follow), Look::Refused(_)), "it worked");
}

/// T24: what is trusted while a gateway runs is taken over, and what came with a project stands still until then.
#[test]
fn t24_trust_is_taken_over() {
    let scratch = Scratch::new("trust-later");
    let path = file(&scratch);
    fs::write(&path, "[servers.a]\ncommand = 'x'\n").unwrap();
    let search = search(&scratch);
    let mut follow = Follow::read(search.clone());
    let standing = |config: &Config| config.servers[0].origin.standing;
    assert_eq!(standing(follow.config()), Standing::Unseen);
    Trusted::add(&follow.config().servers, follow.config(), &search).unwrap();
    assert!(matches!(settled(&mut follow), Look::Taken(_)));
    assert_eq!(standing(follow.config()), Standing::Trusted);
    // Taking it back is no mistake to be kept out, though the file says what it said.
    fs::remove_file(Trusted::file(&search.folders).unwrap()).unwrap();
    assert!(matches!(settled(&mut follow), Look::Taken(_)));
    assert_eq!(standing(follow.config()), Standing::Unseen);
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

/// A fleet that follows the file, with a look every so often.
fn followed(scratch: &Scratch, every: Duration) -> (Fleet, Following) {
    let follow = Follow::read(search(scratch));
    let reached = Arc::new(Mutex::new(Vec::new()));
    let fleet = Fleet::start(specs(follow.config(), &reached), Options::default());
    let following = Following::start(fleet.clone(), follow, every, move |config| specs(config, &reached));
    (fleet, following)
}

/// Whoever says that the files are right is believed at once, and gets an answer even where nothing changed.
#[tokio::test(start_paused = true)]
async fn a_look_that_is_asked_for_is_taken_at_once() {
    let scratch = Scratch::new("now");
    let path = file(&scratch);
    fs::write(&path, "[servers.a]\ncommand = 'one'\n").unwrap();
    // By itself it would look far later than this test lasts.
    let never = Duration::from_secs(1 << 30);
    let (fleet, mut following) = followed(&scratch, never);
    let begun = tokio::time::Instant::now();
    fs::write(&path, "[servers.a]\ncommand = 'one'\n[servers.b]\ncommand = 'two'\n").unwrap();
    following.look_now();
    let Some(Turn::Taken(reloaded)) = following.next().await else { panic!("not taken over") };
    assert_eq!((reloaded.added, reloaded.kept), (vec!["b".to_owned()], vec!["a".to_owned()]));
    following.look_now();
    let Some(Turn::Taken(reloaded)) = following.next().await else { panic!("no answer") };
    assert_eq!(reloaded.kept, ["a", "b"]);
    fs::write(&path, "[servers.a]\ncommand = 'one'\n[servers.b").unwrap();
    following.look_now();
    let Some(Turn::Refused(_)) = following.next().await else { panic!("not refused") };
    assert!(begun.elapsed() < never, "nobody waited for the clock");
    following.stop().await;
    fleet.close("the test is over").await;
}

/// S2-42: a retry that is asked for tries at once what is suspended, with its window cleared; a look alone tries nothing,
/// however often, and neither touches what is up.
#[tokio::test(start_paused = true)]
async fn s2_42_a_retry_tries_what_is_not_up() {
    let scratch = Scratch::new("retry");
    let path = file(&scratch);
    fs::write(&path, "[servers.a]\ncommand = 'one'\n[servers.b]\ncommand = 'two'\n").unwrap();
    let (well, sick) = (Farm::default(), Farm::default());
    sick.0.down.store(true, Ordering::SeqCst);
    let specs = {
        let (well, sick) = (well.clone(), sick.clone());
        move |_: &Config| vec![well.spec("a", EraChoice::Auto), sick.spec("b", EraChoice::Auto)]
    };
    let follow = Follow::read(search(&scratch));
    let fleet = Fleet::start(specs(follow.config()), Options::default());
    let suspended = || {
        let health = fleet.upstream("b").unwrap().status().health;
        matches!(health, Health::Kept(Condition::Suspended { .. }))
    };
    let mut events = fleet.events();
    while !suspended() {
        events.recv().await.unwrap();
    }
    let spent = sick.dials();
    let mut following = Following::start(fleet.clone(), follow, Duration::from_secs(1 << 30), specs);
    for _ in 0..20 {
        following.look_now();
        assert!(matches!(following.next().await, Some(Turn::Taken(_))));
    }
    assert_eq!((sick.dials(), suspended()), (spent, true), "a look is no retry");
    following.retry_now();
    assert!(following.next().await.is_some());
    assert!(!suspended());
    while !suspended() {
        events.recv().await.unwrap();
    }
    assert_eq!(sick.dials(), 2 * spent, "as often as at first");
    sick.0.down.store(false, Ordering::SeqCst);
    following.retry_now();
    assert!(following.next().await.is_some());
    while fleet.upstream("b").unwrap().status().health != Health::Kept(Condition::READY) {
        events.recv().await.unwrap();
    }
    following.retry_now();
    assert!(following.next().await.is_some());
    assert_eq!((well.dials(), sick.dials()), (1, 2 * spent + 1), "what is up is left alone");
    following.stop().await;
    fleet.close("the test is over").await;
}

/// However often someone asks for a look, the regular ones go on.
#[tokio::test(start_paused = true)]
async fn looks_that_are_asked_for_put_off_no_other() {
    let scratch = Scratch::new("pace");
    let path = file(&scratch);
    fs::write(&path, "[servers.a]\ncommand = 'one'\n").unwrap();
    let (fleet, mut following) = followed(&scratch, EVERY);
    for _ in 0..100 {
        following.look_now();
        assert!(following.next().await.is_some());
    }
    fs::write(&path, "[servers.a]\ncommand = 'two'\n").unwrap();
    // One look sees it, the next that it stands still.
    let told = tokio::time::timeout(3 * EVERY, following.next()).await;
    assert!(matches!(told, Ok(Some(Turn::Taken(_)))), "{told:?}");
    following.stop().await;
    fleet.close("the test is over").await;
}

/// With so many turns that nobody has read, no further look is taken; reading one lets the next follow.
#[tokio::test(start_paused = true)]
async fn turns_that_nobody_reads_are_bounded() {
    let scratch = Scratch::new("turns");
    let follow = Follow::read(search(&scratch));
    let fleet = Fleet::start(Vec::new(), Options::default());
    let taken = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&taken);
    let specs = move |_: &Config| {
        count.fetch_add(1, Ordering::Relaxed);
        Vec::new()
    };
    let mut following = Following::start(fleet.clone(), follow, Duration::from_secs(1 << 30), specs);
    for _ in 0..TURNS * 2 {
        following.look_now();
        // The clock goes on only when there is nothing left to do.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(taken.load(Ordering::Relaxed), TURNS + 1, "the last waits to be told");
    for _ in 0..TURNS + 2 {
        assert!(following.next().await.is_some(), "none is lost, and the wish that waited is heard");
    }
    following.stop().await;
    fleet.close("the test is over").await;
}
