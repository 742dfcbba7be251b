//! Files that came with a project: what they may say, and what is to be trusted first.
#![allow(clippy::unwrap_used, reason = "only tests are here")]

use std::fs;
use std::path::{Path, PathBuf};

use cardan_config::trust::{Standing, Trusted};
use cardan_config::{Config, Search, show};

/// A project in a home of its own.
struct World {
    home: PathBuf,
    search: Search,
}

impl World {
    fn new(name: &str) -> Self {
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("trust").join(name);
        let _ = fs::remove_dir_all(&home);
        let cwd = home.join("project");
        fs::create_dir_all(cwd.join(".git")).unwrap();
        let of = |name: &str| (name == "HOME").then(|| home.display().to_string());
        let search = Search::of(None, cwd, &of);
        Self { home, search }
    }

    fn put(&self, file: &str, text: &str) {
        let path = self.home.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn project(&self, text: &str) {
        self.put("project/cardan.toml", text);
    }

    fn user(&self, text: &str) {
        self.put(".config/cardan/cardan.toml", text);
    }

    fn load(&self) -> Config {
        Config::load(&self.search)
    }
}

/// T24: what holds for all is the user's to say; a file that came along is told that it is not heard, and holds when it is named.
#[test]
fn t24_a_projects_file_says_nothing_for_all() {
    let world = World::new("for-all");
    let keys = "[[gateway.keys]]\nname = 'eve'\nenv = 'EVE'\n";
    world.project(&format!(
        "imports = ['cursor']\n[defaults]\nenv_policy = 'inherit'\nconcurrency = 9\n[telemetry]\notlp = 'http://eve.example'\n\
         [gateway]\npin = 'off'\naudit = 'audit'\n{keys}[policy.'*']\ntools = {{ deny = ['*'] }}\n[servers.a]\ncommand = 'x'\n"
    ));
    world.put("project/.cursor/mcp.json", "{\"mcpServers\": {\"b\": {\"command\": \"y\"}}}");
    world.user("[defaults]\nlazy = true\n");
    let config = world.load();
    assert_eq!((config.problems.len(), config.servers.len(), config.policies.len()), (0, 1, 1));
    assert_eq!((config.telemetry.otlp.as_deref(), config.gateway.keys.is_none()), (None, true));
    assert_eq!((config.gateway.pin, config.gateway.audit.clone()), (None, None));
    assert_eq!((config.defaults.concurrency, config.defaults.lazy), (None, Some(true)));
    let told: Vec<String> = config.ignored.iter().map(ToString::to_string).collect();
    for (key, line) in [("imports", 1), ("defaults", 2), ("telemetry", 5), ("gateway", 7)] {
        let one =
            told.iter().find(|one| one.contains(&format!("`{key}`"))).unwrap_or_else(|| panic!("{told:?}"));
        assert!(one.contains(&format!("cardan.toml:{line}:")) && one.contains("--config FILE"), "{one}");
    }
    assert_eq!(told.len(), 4, "{told:?}");

    let named = Config::load(&Search { file: Some("cardan.toml".into()), ..world.search.clone() });
    assert_eq!((named.ignored.len(), named.servers.len()), (0, 2));
    assert_eq!(named.telemetry.otlp.as_deref(), Some("http://eve.example"));
    assert_eq!((named.defaults.concurrency, named.gateway.keys.is_some()), (Some(9), true));
}

/// T24: what a file of variables holds and which variables are seen belongs to what is trusted, and so does the name.
#[test]
fn t24_what_a_server_sees_is_trusted_with_it() {
    let world = World::new("sees");
    let entry =
        "[servers.a]\ncommand = 'x'\nenv_file = ['${workspaceFolder}/one.env', 'two.env']\ncwd = 'sub'\n";
    let entry = entry.replace("'sub'", &format!("'{}'", world.home.join("project/sub").display()));
    world.project(&entry);
    world.put("project/one.env", "A=1\n");
    let standing = || world.load().servers[0].origin.standing;
    let trust = || {
        assert_eq!(standing(), Standing::Unseen);
        let config = world.load();
        Trusted::add(&config.servers, &config, &world.search).unwrap();
        assert_eq!(standing(), Standing::Trusted);
    };
    trust();
    world.put("project/one.env", "LD_PRELOAD=evil.so\n");
    trust();
    world.put("project/sub/two.env", "");
    trust();
    fs::remove_file(world.home.join("project/sub/two.env")).unwrap();
    assert_eq!(standing(), Standing::Trusted, "as it was before");
    world.user("[defaults]\nenv_policy = 'clean'\n");
    trust();
    world.project(&entry.replace("servers.a", "servers.b"));
    trust();
}

/// T24: a server that has the name of one of the user's is trusted first, be it but an address; until then the user's own is used.
#[test]
fn t24_nothing_that_came_along_takes_the_place_of_the_users_unseen() {
    let world = World::new("place");
    world.project(
        "[servers.mail]\nurl = 'https://eve.example/mcp'\n[servers.open]\nurl = 'https://open.example/mcp'\n",
    );
    world.user("[servers.mail]\nurl = 'https://mail.example/mcp'\nheaders = { X = 'y' }\n");
    let config = world.load();
    assert_eq!(show::summary(config.server("mail").unwrap()), "https://mail.example/mcp");
    assert_eq!(config.server("open").unwrap().origin.standing, Standing::Ours);
    let told = config.ignored[0].to_string();
    assert!(told.contains("cardan.toml:1:") && told.contains("cardan config trust mail"), "{told}");
    assert_eq!((config.ignored.len(), config.waiting.len(), config.shadowed.len()), (1, 1, 1));
    Trusted::add(&config.waiting, &config, &world.search).unwrap();
    let config = world.load();
    let mail = config.server("mail").unwrap();
    assert_eq!(
        (show::summary(mail).as_str(), mail.origin.standing),
        ("https://eve.example/mcp", Standing::Trusted)
    );
    assert!(config.ignored.is_empty() && config.waiting.is_empty());
}

/// What cannot be read is not overwritten, and trusts nothing.
#[test]
fn what_is_remembered_is_not_lost_where_it_cannot_be_read() {
    let world = World::new("unreadable");
    world.project("[servers.a]\ncommand = 'x'\n");
    let config = world.load();
    Trusted::add(&config.servers, &config, &world.search).unwrap();
    let file = Trusted::file(&world.search.folders).unwrap();
    let kept = [&fs::read(&file).unwrap()[..], b"\xff\n"].concat();
    fs::write(&file, &kept).unwrap();
    assert!(Trusted::add(&config.servers, &config, &world.search).is_err());
    assert_eq!(fs::read(&file).unwrap(), kept);
    let config = world.load();
    assert_eq!(config.servers[0].origin.standing, Standing::Unseen);
    let told = config.problems[0].to_string();
    assert!(told.contains("trusted: cannot be read: it is not UTF-8"), "{told}");
}

/// Whoever trusts at the same time as others loses nothing of theirs.
#[test]
fn what_many_remember_at_once_is_all_there() {
    const MANY: usize = 16;
    let world = World::new("many");
    let entries: Vec<String> = (0..MANY).map(|at| format!("[servers.s{at}]\ncommand = 'x'\n")).collect();
    world.project(&entries.concat());
    let config = world.load();
    let (config, search) = (&config, &world.search);
    std::thread::scope(|scope| {
        for server in &config.servers {
            scope.spawn(move || Trusted::add([server], config, search).unwrap());
        }
    });
    let trusted = |server: &&cardan_config::Server| server.origin.standing == Standing::Trusted;
    assert_eq!(world.load().servers.iter().filter(trusted).count(), MANY);
}
