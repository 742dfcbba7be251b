//! From a configuration to the servers of a fleet: whose catalog is whose, and what is not shown.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod common;

use std::convert::Infallible;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cardan_client::{Client, way};
use cardan_config::resolve::{Commands, Surroundings};
use cardan_config::{Config, File, Tool};
use cardan_gateway::cache::{CatalogCache, Kept};
use cardan_gateway::catalog::Catalog;
use cardan_gateway::configured::specs;
use cardan_gateway::fleet::{Credentials, Fleet, Health, Known, Making, Options, Spec};
use cardan_gateway::relay::Isolation;
use cardan_proto::era::Revision;
use cardan_proto::limits::Limits;
use cardan_proto::session::config::{CacheHint, CacheScope, EraChoice};
use cardan_proto::upkeep::condition::Condition;
use cardan_proto::upkeep::policy::Policy;
use cardan_runtime::memory;
use cardan_server::Server;
use common::Scratch;
use common::farm::Farm;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// The servers of a file, where the variable TOKEN has this value.
fn specs_of(text: &str, token: Option<&str>) -> Vec<Spec> {
    let file = File::parse(Path::new("cardan.toml"), text, Some(Tool::Cardan)).unwrap();
    let config = Config { servers: file.servers, problems: file.problems, ..Config::default() };
    let env = |name: &str| token.filter(|_| name == "TOKEN").map(str::to_owned);
    let surroundings = Surroundings {
        env: &env,
        inputs: &|_| None,
        home: None,
        workspace: None,
        commands: Commands::Refuse,
    };
    specs(&config, &surroundings, &Client::builder("test", "0"), &Limits::DEFAULT)
}

const WAYS: [&str; 4] = [
    "[servers.a]\nurl = 'http://127.0.0.1:9/mcp'\nbearer_env = 'TOKEN'\nlazy = true",
    "[servers.a]\nurl = 'ws://127.0.0.1:9/ws'\nheaders = { X-Key = '${TOKEN}' }\nlazy = true",
    "[servers.a]\nurl = 'http://127.0.0.1:9/${TOKEN}/mcp'\nlazy = true",
    "[servers.a]\ncommand = 'nothing'\nenv = { KEY = '${TOKEN}' }\nlazy = true",
];

/// INT-7: a catalog that was told to one credential is not shown to another, and the name under which it is kept says
/// nothing of either.
#[tokio::test]
async fn int_7_a_catalog_is_for_the_credential_that_it_was_told_to() {
    for (at, text) in WAYS.into_iter().enumerate() {
        let scratch = Scratch::new(&format!("credential-{at}"));
        let cache = CatalogCache::new(scratch.path());
        let mut catalog = Catalog::new(Revision::LATEST_MODERN, None);
        catalog.tools.private = true;
        let [first] = &specs_of(text, Some("canary-one"))[..] else { panic!("one server") };
        assert!(first.digest.len() >= 32 && first.digest.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert!(!format!("{first:?}").contains("canary"), "{text}");
        cache.save(&first.digest, &Kept::now("a", catalog)).unwrap();
        for (token, known) in [("canary-one", true), ("canary-two", false)] {
            let options = Options { cache: Some(cache.clone()), ..Options::default() };
            let fleet = Fleet::start(specs_of(text, Some(token)), options);
            let status = fleet.upstream("a").unwrap().status();
            assert_eq!(matches!(status.known, Known::Cached(_)), known, "{text} {token}");
            fleet.close("the test goes on").await;
        }
        let renamed = text.replace("servers.a", "servers.b");
        assert_eq!(specs_of(&renamed, Some("canary-one"))[0].digest, first.digest, "names say nothing");
    }
}

/// A time for calls is known to who passes them on; none, or for ever, leaves it to the client.
#[test]
fn the_time_for_calls_is_taken_over() {
    for (more, silent) in [
        ("call_timeout = '2m'", Some(Duration::from_secs(120))),
        ("call_timeout = 0", None),
        ("lazy = true", None),
    ] {
        let specs = specs_of(&format!("[servers.a]\ncommand = 'nothing'\n{more}"), None);
        assert_eq!(specs[0].call_timeout, silent, "{more}");
    }
}

#[test]
fn who_shares_sessions_is_taken_over() {
    for (more, isolation) in [
        ("sessions = 'shared'", Isolation::Shared),
        ("sessions = 'principal'", Isolation::Principal),
        ("sessions = 'client'", Isolation::Client),
        ("sessions = 'call'", Isolation::Call),
        ("", Isolation::Client),
    ] {
        let specs = specs_of(&format!("[servers.a]\ncommand = 'nothing'\n{more}"), None);
        assert_eq!(specs[0].isolation, isolation, "{more}");
    }
}

/// S0-12, S1-C5: an address, a header, a certificate and a pipe that are of no use are told with file, line and key, and
/// without their values.
#[test]
fn what_is_of_no_use_is_told_with_its_place() {
    let rows = [
        ("[servers.a]\nurl = 'http://127.0.0.1:99999/mcp'", "cardan.toml:2:1: server `a`: `url`: "),
        (
            "[servers.a]\nurl = 'ws://127.0.0.1:9/ws'\nheaders = { 'X Y' = 'canary' }",
            "cardan.toml:3:1: server `a`: `headers`: ",
        ),
        (
            "[servers.a]\nurl = 'http://127.0.0.1:9/mcp'\nheaders = { 'X Y' = 'canary' }",
            "cardan.toml:3:1: server `a`: `headers`: ",
        ),
        (
            "[servers.a]\nurl = 'https://127.0.0.1:9/mcp'\nca = '/no/such/file.pem'",
            "cardan.toml:3:1: server `a`: `ca`: ",
        ),
        ("[servers.a]\ntype = 'pipe'\nurl = 'pipe://x'", "cardan.toml:3:1: server `a`: `url`: "),
        (
            "[servers.a]\ntype = 'http'\nurl = 'pipe:///x'",
            "cardan.toml:3:1: server `a`: `url`: HTTP over a named pipe",
        ),
    ];
    for (text, place) in rows {
        let specs = specs_of(text, None);
        let problem = specs[0].making.as_ref().expect_err(text);
        assert!(problem.starts_with(place) && !problem.contains("canary"), "{text}: {problem}");
    }
}

/// Another credential is another connection; what cannot be expanded is listed with its problem, without values.
#[tokio::test]
async fn another_credential_is_another_connection() {
    for text in WAYS {
        let [one, two, same] =
            ["canary-one", "canary-two", "canary-one"].map(|token| specs_of(text, Some(token)));
        let fleet = Fleet::start(one, Options::default());
        assert_eq!(fleet.reload(same).await.kept, ["a"]);
        assert_eq!(fleet.reload(two).await.restarted, ["a"]);
        assert_eq!(fleet.reload(specs_of(text, None)).await.restarted, ["a"]);
        let status = fleet.upstream("a").unwrap().status();
        assert_eq!(status.health, Health::Misconfigured);
        assert!(status.cause.unwrap().contains("the variable TOKEN is not set"));
        fleet.close("the test goes on").await;
    }
}

/// T27, S1-C5: what a helper printed is known as a secret from then on: a server that repeats it is shown without it, in
/// events, in the status and in errors of calls.
#[tokio::test]
async fn t27_what_a_helper_brings_is_not_shown() {
    let door = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = door.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        loop {
            let Ok((mut stream, _)) = door.accept().await else { return };
            let mut asked = [0; 8192];
            let read = stream.read(&mut asked).await.unwrap_or_default();
            let asked = String::from_utf8_lossy(&asked[..read]).into_owned();
            let token = asked
                .lines()
                .find_map(|line| line.split_once("Bearer "))
                .map_or("nobody", |(_, token)| token);
            let body = format!("{token} is not welcome");
            let head = format!(
                "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer error=\"invalid_token\", \
                                error_description=\"{token}\"\r\nContent-Length: {}\r\nConnection: close",
                body.len()
            );
            let _ = stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await;
        }
    });
    let helper = r#"echo '{\"Authorization\": \"Bearer canary-from-helper\"}'"#;
    let text = format!("[servers.a]\nurl = 'http://{address}/mcp'\nheaders_helper = \"{helper}\"\n");
    let fleet = Fleet::start(Vec::new(), Options::default());
    let mut events = fleet.events();
    fleet.reload(specs_of(&text, None)).await;
    fleet.started(Duration::from_secs(60)).await;
    let mut told = String::new();
    while let Ok(event) = events.try_recv() {
        told += &format!("{event:?}\n");
    }
    told += &format!("{:?}", fleet.status());
    assert!(told.contains("is not welcome"), "the server was reached, and was shown: {told}");
    assert!(told.contains("[redacted]") && !told.contains("canary"), "{told}");
    fleet.close("the test is over").await;
    serving.abort();
}

/// S1-C5: a header with a short word for its value leaves errors readable.
#[tokio::test]
async fn short_values_do_not_mangle_errors() {
    let text = "[servers.a]\nurl = 'http://no host/mcp'\nheaders = { X-Way = 'http', X-Kind = 'no', X-Key = 'canary-1' }\n";
    let [spec] = &specs_of(text, None)[..] else { panic!("one server") };
    let told = spec.making.as_ref().unwrap_err();
    assert!(told.starts_with("cardan.toml:2:1: server `a`: `url`: http://no host/mcp: "), "{told}");
}

/// What can change while a server runs needs no restart.
#[tokio::test]
async fn some_settings_change_while_a_server_runs() {
    let of = |more: &str| specs_of(&format!("[servers.a]\ncommand = 'nothing'\n{more}"), None);
    let fleet = Fleet::start(of("lazy = true"), Options::default());
    for more in ["lazy = true\nidle_stop = '5m'", "lazy = true\nconcurrency = 2", "lazy = true"] {
        assert_eq!(fleet.reload(of(more)).await.kept, ["a"], "{more}");
    }
    assert_eq!(fleet.upstream("a").unwrap().status().health, Health::Asleep);
    assert_eq!(fleet.reload(of("")).await.kept, ["a"]);
    assert_ne!(fleet.upstream("a").unwrap().status().health, Health::Asleep, "it is to run at once now");
    assert_eq!(fleet.reload(of("call_timeout = '5s'")).await.restarted, ["a"]);
    fleet.close("the test is over").await;
}

/// The servers of a file, with servers of a farm at the ends of their ways.
fn farmed(text: &str, farm: &Farm) -> Vec<Spec> {
    let mut specs = specs_of(text, None);
    for spec in &mut specs {
        let Ok(making) = &mut spec.making else { panic!("{:?}", spec.making) };
        making.way = farm.spec("x", EraChoice::Auto).making.unwrap().way;
    }
    specs
}

/// Until the only server of a fleet stands so.
async fn until(fleet: &Fleet, stands: impl Fn(Condition) -> bool) {
    let mut events = fleet.events();
    while !matches!(fleet.status()[0].health, Health::Kept(condition) if stands(condition)) {
        events.recv().await.unwrap();
    }
}

/// S2-42: the numbers of the file are those by which a fleet keeps the connection; others are taken over without a new
/// process, by a server that was given up and by one that runs, and leave the names of catalogs and pins alone.
#[tokio::test(start_paused = true)]
async fn s2_42_the_numbers_of_the_file_are_kept_to() {
    let of = |more: &str, farm: &Farm| {
        farmed(&format!("[servers.a]\ncommand = 'nothing'\n[servers.a.reconnect]\n{more}"), farm)
    };
    let farm = Farm::default();
    farm.0.down.store(true, Ordering::SeqCst);
    let few = "attempts = 2\nwait_min = '1ms'\nwait_max = '2ms'\n";
    let start = tokio::time::Instant::now();
    let fleet = Fleet::start(of(few, &farm), Options::default());
    until(&fleet, |condition| condition == Condition::Suspended { until: None }).await;
    assert_eq!(farm.dials(), 3, "the first and two attempts");
    assert!(start.elapsed() < Duration::from_millis(10), "{:?}", start.elapsed());
    // Quiet attempts, which a process has only where the file says so.
    let quiet = format!("{few}quiet_min = '1h'\n");
    assert_eq!(fleet.reload(of(&quiet, &farm)).await.kept, ["a"]);
    until(&fleet, |condition| matches!(condition, Condition::Suspended { until: Some(_) })).await;
    assert_eq!(farm.dials(), 6, "it was tried at once, and counted anew");
    farm.0.down.store(false, Ordering::SeqCst);
    until(&fleet, Condition::is_up).await;
    assert!(start.elapsed() >= Duration::from_secs(1800), "{:?}", start.elapsed());
    // A link that is up stays; when it is lost, the newest numbers hold.
    assert_eq!(fleet.reload(of("attempts = 0\n", &farm)).await.kept, ["a"]);
    assert_eq!((fleet.status()[0].health.is_up(), farm.dials()), (true, 7));
    farm.kill();
    until(&fleet, |condition| condition == Condition::Suspended { until: None }).await;
    assert_eq!(farm.dials(), 7);
    fleet.close("the test is over").await;
    let [one, two] =
        ["attempts = 2\n", "attempts = 3\ncalls = 'fail'\n"].map(|more| of(more, &farm).remove(0));
    assert_eq!((one.digest, one.pinned, one.identity), (two.digest, two.pinned, two.identity));
}

/// INT-7: where a helper brings the credentials, nobody knows whose a private list is, so it is not kept.
#[tokio::test(start_paused = true)]
async fn int_7_what_is_private_is_not_kept_for_whoever_comes_next() {
    let helped = "[servers.a]\nurl = 'https://x/mcp'\nheaders_helper = 'print-headers'\n";
    assert_eq!(specs_of(helped, None)[0].credentials, Credentials::Helped);
    assert_eq!(specs_of(WAYS[0], Some("x"))[0].credentials, Credentials::Known);
    let rows = [
        (CacheScope::Private, Credentials::Helped, false),
        (CacheScope::Private, Credentials::Known, true),
        (CacheScope::Public, Credentials::Helped, true),
    ];
    for (scope, credentials, kept) in rows {
        let scratch = Scratch::new(&format!("helped-{scope:?}-{credentials:?}"));
        let cache = CatalogCache::new(scratch.path());
        let way = way(move || {
            let (ours, theirs) = memory::pair(&Limits::DEFAULT);
            let hint = CacheHint { ttl: Duration::from_secs(60), scope };
            let server = Server::builder("s", "1").cache(hint).tool("t", "t", async || "done").build();
            tokio::spawn(async move { server.serve(theirs).await });
            async move { Ok::<_, Infallible>(ours) }
        });
        let connector = Client::builder("test", "0").era(EraChoice::Modern);
        let making = Making { connector, way, policy: Policy::REMOTE };
        let spec = Spec { credentials, ..Spec::new("a", "http", "aa", making) };
        let options = Options { cache: Some(cache.clone()), ..Options::default() };
        let fleet = Fleet::start(vec![spec], options);
        fleet.started(Duration::from_secs(60)).await;
        assert_eq!(fleet.upstream("a").unwrap().status().tools, Some(1));
        // It is written down after it is in force.
        fleet.close("the test goes on").await;
        assert_eq!(cache.load("aa").is_some(), kept, "{scope:?} {credentials:?}");
    }
}
