//! Many catalogs as one: names, order, collisions.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::collections::HashMap;

use cardan_gateway::catalog::{Catalog, Kind, List};
use cardan_gateway::merge::{Claim, Collision, Merged, Naming, Source};
use cardan_gateway::rules::{Pattern, RuleSet, Rules};
use cardan_proto::era::Revision;
use cardan_sim::rng::Rng;

fn catalog(tools: &str, resources: &str) -> Catalog {
    let list = |kind, text: &str| List::of(kind, serde_json::from_str(text).unwrap()).unwrap();
    let mut catalog = Catalog::new(Revision::LATEST_LEGACY, None);
    (catalog.tools, catalog.resources) = (list(Kind::Tools, tools), list(Kind::Resources, resources));
    catalog
}

fn names(merged: &Merged, kind: Kind) -> Vec<&str> {
    merged.list(kind).iter().map(|shown| &*shown.key).collect()
}

fn told(merged: &Merged) -> Vec<String> {
    merged.collisions.iter().map(ToString::to_string).collect()
}

/// Two servers with a tool of the same name, and a resource of the same address.
fn two() -> (Catalog, Catalog) {
    let one = catalog(r#"[{"name":"add"},{"name":"get","n":1.50}]"#, r#"[{"uri":"a:1","name":"x"}]"#);
    let two = catalog(r#"[{"name":"get"},{"name":"put"}]"#, r#"[{"uri":"a:1","name":"y"},{"uri":"a:2"}]"#);
    (one, two)
}

fn merged(naming: &Naming) -> Merged {
    let (one, two) = two();
    let rules = RuleSet::default();
    let sources = [("one", &one), ("two", &two)];
    let sources =
        sources.map(|(server, catalog)| Source { server, catalog, rules: &rules, claim: Claim::Sure });
    Merged::of(&sources, naming)
}

#[test]
fn a_prefix_keeps_all_names_apart() {
    let merged = merged(&Naming::Prefix(Naming::SEPARATOR.into()));
    assert_eq!(names(&merged, Kind::Tools), ["one__add", "one__get", "two__get", "two__put"]);
    let get = merged.find(Kind::Tools, "one__get").unwrap();
    assert_eq!((get.route.source, &*get.route.key), (0, "get"));
    assert_eq!(get.raw.as_str(), r#"{"name":"one__get","n":1.50}"#, "every other byte stays");
    assert_eq!(names(&merged, Kind::Resources), ["a:1", "a:2"], "addresses stay what they are");
    assert_eq!(
        told(&merged),
        ["`a:1` of two gives way to that of one, so it is not shown; its server served alone has it"]
    );
}

#[test]
fn without_prefix_the_first_has_the_name() {
    let merged = merged(&Naming::Never("__".into()));
    assert_eq!(names(&merged, Kind::Tools), ["add", "get", "put"]);
    assert_eq!(merged.find(Kind::Tools, "get").unwrap().route.source, 0);
    assert_eq!(merged.collisions.len(), 2);
    assert_eq!(merged.collisions[0].now, None);
}

#[test]
fn by_priority_only_the_later_one_is_renamed() {
    let merged = merged(&Naming::Priority("-".into()));
    assert_eq!(names(&merged, Kind::Tools), ["add", "get", "two-get", "put"]);
    let get = merged.find(Kind::Tools, "two-get").unwrap();
    assert_eq!((get.route.source, &*get.route.key, get.raw.as_str()), (1, "get", r#"{"name":"two-get"}"#));
    assert_eq!(told(&merged)[0], "`get` of two gives way to that of one, so it is called `two-get`");
}

/// T25: by priority, the name with its server's before it is good for whatever is shown without, and no name is taken for it.
#[test]
fn t25_by_priority_full_names_are_good_too() {
    let merged = merged(&Naming::Priority("-".into()));
    for (full, shown) in [("one-add", "add"), ("one-get", "get"), ("two-get", "two-get"), ("two-put", "put")]
    {
        assert_eq!(&*merged.find(Kind::Tools, full).unwrap().key, shown);
    }
    assert_eq!(merged.find(Kind::Tools, "two-add"), None);
    let one = catalog(r#"[{"name":"get"}]"#, "[]");
    let two = catalog(r#"[{"name":"one-get"}]"#, "[]");
    let rules = RuleSet::default();
    let sources = [("one", &one), ("two", &two)];
    let sources =
        sources.map(|(server, catalog)| Source { server, catalog, rules: &rules, claim: Claim::Sure });
    let merged = Merged::of(&sources, &Naming::Priority("-".into()));
    let found = merged.find(Kind::Tools, "one-get").unwrap();
    assert_eq!((found.route.source, &*found.key), (1, "one-get"), "what is shown goes first");
}

/// A name that even its prefix does not save is not shown, and that is told.
#[test]
fn a_taken_prefix_is_a_collision_too() {
    let one = catalog(r#"[{"name":"get"},{"name":"two-get"}]"#, "[]");
    let two = catalog(r#"[{"name":"get"}]"#, "[]");
    let rules = RuleSet::default();
    let sources = [("one", &one), ("two", &two)];
    let sources =
        sources.map(|(server, catalog)| Source { server, catalog, rules: &rules, claim: Claim::Sure });
    let merged = Merged::of(&sources, &Naming::Priority("-".into()));
    assert_eq!(names(&merged, Kind::Tools), ["get", "two-get"]);
    assert_eq!((merged.collisions.len(), &merged.collisions[0].now), (1, &None));
    let same = catalog(r#"[{"name":"get","n":1},{"name":"get","n":2}]"#, "[]");
    let twice = Merged::of(
        &[Source { server: "one", catalog: &same, rules: &rules, claim: Claim::Sure }],
        &Naming::Never("__".into()),
    );
    assert_eq!(
        twice.list(Kind::Tools)[0].raw.as_str(),
        r#"{"name":"get","n":1}"#,
        "the first of its own too"
    );
}

#[test]
fn rules_hide_rename_and_describe() {
    let (one, _) = two();
    let tools = Rules {
        deny: vec![Pattern::new("add")],
        rename: [("get".into(), "fetch".into())].into(),
        describe: [("get".into(), "Fetches \"it\".".into())].into(),
        ..Rules::default()
    };
    let rules = RuleSet { tools, ..RuleSet::default() };
    let merged = Merged::of(
        &[Source { server: "one", catalog: &one, rules: &rules, claim: Claim::Sure }],
        &Naming::Never("__".into()),
    );
    assert_eq!(names(&merged, Kind::Tools), ["fetch"]);
    let fetch = merged.find(Kind::Tools, "fetch").unwrap();
    assert_eq!(&*fetch.route.key, "get");
    assert_eq!(fetch.raw.as_str(), r#"{"name":"fetch","n":1.50,"description":"Fetches \"it\"."}"#);
    assert_eq!(merged.find(Kind::Tools, "get"), None, "what is hidden cannot be called");
    assert_eq!(merged.find(Kind::Tools, "add"), None);
    assert_eq!(names(&merged, Kind::Resources), ["a:1"], "rules are about their own kind");
}

fn renaming(pairs: &[(&str, &str)]) -> Rules {
    let rename = pairs.iter().map(|(old, new)| ((*old).to_owned(), (*new).to_owned())).collect();
    Rules { rename, ..Rules::default() }
}

/// A name that rules give is not the server's to take, whatever it calls so and in whichever order; names may be exchanged.
#[test]
fn a_given_name_is_taken_from_its_server() {
    for (tools, rules, naming, shown, told_of) in [
        (
            r#"[{"name":"get"},{"name":"put"}]"#,
            [("put", "get")],
            Naming::Never("__".into()),
            vec![("get", "put")],
            "not shown; rename one of them",
        ),
        (
            r#"[{"name":"put"},{"name":"get"}]"#,
            [("put", "get")],
            Naming::Never("__".into()),
            vec![("get", "put")],
            "not shown; rename one of them",
        ),
        (
            r#"[{"name":"get"},{"name":"put"}]"#,
            [("put", "get")],
            Naming::Priority("-".into()),
            vec![("one-get", "get"), ("get", "put")],
            "called `one-get`",
        ),
    ] {
        let catalog = catalog(tools, "[]");
        let rules = RuleSet { tools: renaming(&rules), ..RuleSet::default() };
        let merged = Merged::of(
            &[Source { server: "one", catalog: &catalog, rules: &rules, claim: Claim::Sure }],
            &naming,
        );
        let list: Vec<_> = merged.list(Kind::Tools).iter().map(|one| (&*one.key, &*one.route.key)).collect();
        assert_eq!(list, shown, "{tools} {naming:?}");
        assert_eq!(told(&merged), [format!("`get` of one gives way to that of one, so it is {told_of}")]);
    }
    let catalog = catalog(r#"[{"name":"get"},{"name":"put"}]"#, "[]");
    let rules = RuleSet { tools: renaming(&[("put", "get"), ("get", "put")]), ..RuleSet::default() };
    let merged = Merged::of(
        &[Source { server: "one", catalog: &catalog, rules: &rules, claim: Claim::Sure }],
        &Naming::Never("__".into()),
    );
    assert_eq!(&*merged.find(Kind::Tools, "get").unwrap().route.key, "put");
    assert_eq!(&*merged.find(Kind::Tools, "put").unwrap().route.key, "get");
    assert_eq!(merged.collisions, []);
}

/// Two servers may want one name only after renaming: the first has it.
#[test]
fn new_names_collide_as_others_do() {
    let (one, two) = two();
    let (first, second) =
        (RuleSet::default(), RuleSet { tools: renaming(&[("put", "add")]), ..RuleSet::default() });
    let sources = [
        Source { server: "one", catalog: &one, rules: &first, claim: Claim::Sure },
        Source { server: "two", catalog: &two, rules: &second, claim: Claim::Sure },
    ];
    let merged = Merged::of(&sources, &Naming::Priority("-".into()));
    assert_eq!(names(&merged, Kind::Tools), ["add", "get", "two-get", "two-add"]);
    assert!(
        told(&merged)
            .contains(&"`add` of two gives way to that of one, so it is called `two-add`".to_owned())
    );
}

/// A resource is called otherwise for people, and stays where it is.
#[test]
fn a_renamed_resource_keeps_its_address() {
    let (one, _) = two();
    let rules = RuleSet { resources: renaming(&[("a:1", "A")]), ..RuleSet::default() };
    let merged = Merged::of(
        &[Source { server: "one", catalog: &one, rules: &rules, claim: Claim::Sure }],
        &Naming::Never("__".into()),
    );
    assert_eq!(merged.find(Kind::Resources, "a:1").unwrap().raw.as_str(), r#"{"uri":"a:1","name":"A"}"#);
    assert_eq!(merged.find(Kind::Resources, "A"), None);
}

/// Many collisions are told in a line for each two servers and each kind of thing.
#[test]
fn collisions_are_told_together() {
    let many: Vec<String> = (0..9).map(|n| format!(r#"{{"name":"t{n}"}}"#)).collect();
    let catalog = catalog(&format!("[{}]", many.join(",")), r#"[{"uri":"a:1"}]"#);
    let rules = RuleSet::default();
    let sources =
        ["one", "two"].map(|server| Source { server, catalog: &catalog, rules: &rules, claim: Claim::Sure });
    let told = Collision::told(&Merged::of(&sources, &Naming::Never("__".into())).collisions);
    assert_eq!(
        told,
        [
            "9 tools of two give way to those of one (`t0`, `t1`, `t2` and 6 more), so they are not shown; \
             let names be prefixed",
            "`a:1` of two gives way to that of one, so it is not shown; its server served alone has it",
        ]
    );
}

/// INT-8: where a prefix keeps names apart no more, what helps is another name for a server, and that is said.
#[test]
fn int_8_what_is_advised_would_help() {
    let (one, rules) = (catalog(r#"[{"name":"get"},{"name":"b__get"}]"#, "[]"), RuleSet::default());
    let told = |servers: [&'static str; 2], naming| {
        let sources =
            servers.map(|server| Source { server, catalog: &one, rules: &rules, claim: Claim::Sure });
        Collision::told(&Merged::of(&sources, &naming).collisions).pop().unwrap()
    };
    let separator = || Naming::SEPARATOR.into();
    for (servers, naming, advice) in [
        (
            ["my.files", "my_files"],
            Naming::Prefix(separator()),
            "not shown; give one of the servers another name",
        ),
        (["a", "a__b"], Naming::Prefix(separator()), "not shown; give one of the servers another name"),
        (
            ["my.files", "my_files"],
            Naming::Never("__".into()),
            "not shown; give one of the servers another name",
        ),
        (["a", "b"], Naming::Never("__".into()), "not shown; let names be prefixed"),
    ] {
        let told = told(servers, naming);
        assert!(told.ends_with(advice), "{servers:?} {told}");
    }
}

/// T25: in whichever order servers come to be known, a name leads to one tool of one server whenever it leads anywhere; and
/// when all are known, to the one that it leads to where all were known from the start.
#[test]
fn t25_a_name_leads_to_one_server_in_every_order_of_starts() {
    const SERVERS: [&str; 5] = ["one", "two", "three", "four", "five"];
    let namings = [Naming::Never("__".into()), Naming::Priority("__".into()), Naming::Prefix("__".into())];
    let tools = ["get", "put", "add", "list"];
    // Every choice of these tools: whatever two servers offer, some have the same names.
    let catalogs: Vec<_> = (1..16)
        .map(|chosen| {
            let chosen = tools.iter().enumerate().filter(|(at, _)| chosen & (1 << at) != 0);
            let entries: Vec<_> = chosen.map(|(_, name)| format!("{{\"name\":\"{name}\"}}")).collect();
            catalog(&format!("[{}]", entries.join(",")), "[]")
        })
        .collect();
    let (rules, mut rng) = (RuleSet::default(), Rng::seeded(25));
    for round in 0..10_000 {
        let naming = &namings[round % namings.len()];
        let offered = SERVERS.map(|_| &catalogs[rng.below(catalogs.len() as u64) as usize]);
        let mut order = [0, 1, 2, 3, 4];
        for at in (1..order.len()).rev() {
            order.swap(at, rng.below(at as u64 + 1) as usize);
        }
        let mut known = [false; SERVERS.len()];
        let mut led: HashMap<Box<str>, (&str, Box<str>)> = HashMap::new();
        let mut routes = Vec::new();
        for next in order {
            known[next] = true;
            let first_unknown = known.iter().position(|known| !known).unwrap_or(SERVERS.len());
            let claim = |at| if at < first_unknown { Claim::Sure } else { Claim::Open };
            let sources: Vec<_> = (0..SERVERS.len())
                .filter(|at| known[*at])
                .map(|at| Source {
                    server: SERVERS[at],
                    catalog: offered[at],
                    rules: &rules,
                    claim: claim(at),
                })
                .collect();
            let merged = Merged::of(&sources, naming);
            routes.clear();
            for shown in merged.list(Kind::Tools) {
                let to = (sources[shown.route.source].server, shown.route.key.clone());
                let before = led.entry(shown.key.clone()).or_insert_with(|| to.clone());
                assert_eq!(*before, to, "{} in {order:?} {naming:?}", shown.key);
                assert_eq!(merged.find(Kind::Tools, &shown.key), Some(shown), "{order:?} {naming:?}");
                routes.push((shown.key.clone(), to));
            }
            // What was ever listed can still be called, and leads where it led.
            for (key, to) in &led {
                let found = merged.find(Kind::Tools, key).map(|found| &found.route);
                let found = found.map(|route| (sources[route.source].server, route.key.clone()));
                assert_eq!(found.as_ref(), Some(to), "{key} in {order:?} {naming:?}");
            }
        }
        let sources = [0, 1, 2, 3, 4].map(|at| Source {
            server: SERVERS[at],
            catalog: offered[at],
            rules: &rules,
            claim: Claim::Sure,
        });
        let at_once = Merged::of(&sources, naming);
        let at_once: Vec<_> = at_once
            .list(Kind::Tools)
            .iter()
            .map(|shown| (shown.key.clone(), (SERVERS[shown.route.source], shown.route.key.clone())))
            .collect();
        assert_eq!(routes, at_once, "{order:?} {naming:?}");
    }
}
