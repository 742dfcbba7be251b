//! Files that came with a project: what they may say, and what is to be trusted first.
#![allow(clippy::unwrap_used, reason = "only tests are here")]

use std::fs;
use std::path::{Path, PathBuf};

use cardan_config::{Config, Search};

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
