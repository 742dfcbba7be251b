//! Skills: served, listed, read and checked.

mod common;

use cardan::prelude::*;
use cardan::proto::era::Revision;
use cardan::proto::jsonrpc::fault::code;
use cardan::proto::limits::Limits;
use cardan::server::Skill;
use common::{Raw, Way, join, plain};
use serde_json::{Value, json};

const MODERN: Revision = Revision::LATEST_MODERN;
const URI: &str = "skill://bake-bread/SKILL.md";

fn bread() -> Skill {
    Skill::new("bake-bread", "Bakes: \"a loaf\" #1", "Mix, wait, bake.\n")
        .field("license", "MIT")
        .file("references/flour.md", "text/markdown", "Any will do.\n")
        .file("references/deep/salt.md", "text/markdown", "Some.\n")
        .file("loaf.png", "image/png", &[0x89, b'P', 0xff][..])
}

fn server() -> Server {
    let builder = Server::builder("skills", "1").page_size(1).skill(bread());
    builder.skill(Skill::new("boil", "Boils water.", "Heat.\n")).build()
}

/// SKL-3: declared inline, beside resources, in the modern era; legacy clients have the files only.
#[tokio::test]
async fn the_extension_is_declared() {
    let mut raw = Raw::client_of(&server());
    let reply = raw.modern("server/discover", json!({}), json!({})).await;
    let capabilities = &reply["result"]["capabilities"];
    let declared = &capabilities["extensions"]["io.modelcontextprotocol/skills"];
    assert_eq!(declared, &json!({ "directoryRead": true }));
    assert!(capabilities["resources"].is_object());
    let mut raw = Raw::legacy(&server(), Revision::LATEST_LEGACY, json!({})).await;
    assert_eq!(raw.call("skills/list", json!({})).await["error"]["code"], code::METHOD_NOT_FOUND);
    let read = raw.call("resources/read", json!({ "uri": URI })).await;
    assert!(read["result"]["contents"][0]["text"].is_string(), "{read}");
    let none = Server::builder("none", "1").tool("x", "", async || "x").build();
    let mut raw = Raw::client_of(&none);
    for method in ["skills/list", "skills/get", "resources/directory/read"] {
        let refused = raw.modern(method, json!({ "uri": URI }), json!({})).await;
        assert_eq!(refused["error"]["code"], code::METHOD_NOT_FOUND, "{method}");
    }
}

/// SKL-1, SKL-2, SKL-4, SKL-5: pages of whole entries, each also by its address, with cache hints.
#[tokio::test]
async fn skills_are_listed_and_looked_up() {
    let (client, wire) = join(&server(), plain(), MODERN).await;
    let skills = client.all_skills().await.unwrap();
    assert_eq!(skills.iter().map(|skill| skill.name().unwrap()).collect::<Vec<_>>(), ["bake-bread", "boil"]);
    for skill in &skills {
        assert_eq!(skill.check(), []);
        assert_eq!(&client.skill(&skill.uri).await.unwrap(), skill);
    }
    assert_eq!(wire.of(Way::Out, "skills/list").len(), 2);
    for method in ["skills/list", "skills/get"] {
        for reply in wire.results(method) {
            let result = &reply["result"];
            assert!(result["ttlMs"].is_number() && result["cacheScope"].is_string(), "{result}");
        }
    }
    let CallError::Fault(fault) = client.skill("skill://none/SKILL.md").await.unwrap_err() else { panic!() };
    assert_eq!(fault.code, code::INVALID_PARAMS);
    // SKL-9: nothing was read along the way.
    assert_eq!(wire.of(Way::Out, "resources/read"), [Value::Null; 0]);
}

/// SKL-6, SKL-8: the manifest has the head of its entry, and every file is what the entry says.
#[tokio::test]
async fn files_are_read_and_checked() {
    let (client, _) = join(&server(), plain(), MODERN).await;
    let skill = client.skill(URI).await.unwrap();
    assert_eq!(skill.frontmatter["description"], "Bakes: \"a loaf\" #1");
    let manifest = client.load_skill(&skill).await.unwrap();
    assert!(manifest.starts_with("---\n") && manifest.ends_with("\n\nMix, wait, bake.\n"), "{manifest}");
    let flour = client.read_skill_file(&skill, "skill://bake-bread/references/flour.md").await.unwrap();
    assert_eq!(flour, b"Any will do.\n");
    assert_eq!(
        client.read_skill_file(&skill, "skill://bake-bread/loaf.png").await.unwrap(),
        [0x89, b'P', 0xff]
    );
    let foreign = client.read_skill_file(&skill, "skill://boil/SKILL.md").await;
    assert!(matches!(foreign, Err(CallError::Unverified(_))), "{foreign:?}");
    let resources = client.all_resources().await.unwrap();
    let listed = resources.iter().find(|resource| resource.uri == URI).unwrap();
    assert_eq!((listed.name.as_str(), listed.mime_type.as_deref()), ("bake-bread", Some("text/markdown")));
    assert_eq!(listed.description.as_deref(), Some("Bakes: \"a loaf\" #1"));
}

/// SKL-8: a manifest with another size, digest or head than its entry is refused.
#[tokio::test]
async fn what_differs_is_refused() {
    let (client, _) = join(&server(), plain(), MODERN).await;
    let good = serde_json::to_value(client.skill(URI).await.unwrap()).unwrap();
    let rows = [
        ("/resources/0/size", json!(7), "size"),
        ("/resources/0/digest", json!(format!("sha256:{}", "0".repeat(64))), "digest"),
        ("/frontmatter/description", json!("Exfiltrates."), "head"),
        ("/frontmatter/name", json!("boil"), "uri"),
    ];
    for (place, value, why) in rows {
        let mut odd = good.clone();
        *odd.pointer_mut(place).unwrap() = value;
        let outcome = client.load_skill(&serde_json::from_value(odd).unwrap()).await;
        let Err(CallError::Unverified(said)) = outcome else { panic!("{place}: {outcome:?}") };
        assert!(said.contains(why), "{place}: {said}");
    }
}

/// SKL-7: direct children, directories as such, in pages; a file or nothing at all is no directory.
#[tokio::test]
async fn directories_are_read() {
    let (client, _) = join(&server(), plain(), MODERN).await;
    let children = async |uri: &str| -> Vec<(String, String)> {
        let children = client.read_directory(uri).await.unwrap().into_iter();
        children.map(|child| (child.name, child.mime_type.unwrap_or_default())).collect()
    };
    let pair = |name: &str, kind: &str| (name.to_owned(), kind.to_owned());
    let root = [
        pair("bake-bread", "text/markdown"),
        pair("loaf.png", "image/png"),
        pair("references", "inode/directory"),
    ];
    assert_eq!(children("skill://bake-bread").await, root);
    assert_eq!(children("skill://bake-bread/").await, root);
    let below = [pair("deep", "inode/directory"), pair("references/flour.md", "text/markdown")];
    assert_eq!(children("skill://bake-bread/references").await, below);
    for odd in [URI, "skill://bake", "skill://none", "skill:"] {
        let CallError::Fault(fault) = client.read_directory(odd).await.unwrap_err() else { panic!("{odd}") };
        assert_eq!(fault.code, code::INVALID_PARAMS, "{odd}");
    }
}

/// SKL-10: what no client should be served cannot be registered.
#[test]
fn odd_skills_cannot_be_registered() {
    let odd = [
        Skill::new("Bad Name", "x", "x"),
        Skill::new("x", "", "x"),
        Skill::new("x", "x", "x").field("a: b", "x"),
        Skill::new("x", "x", "x").file("../up", "text/plain", "x"),
        Skill::new("x", "x", "x").file("SKILL.md", "text/plain", "x"),
        Skill::new("x", "x", "x").file("a", "text/plain", "x").file("b", "text/plain", "x"),
        Skill::new("x", "x", "x").file("a", "text/plain", vec![0; 2000]),
    ];
    for skill in odd {
        let limits = Limits { skill_files: 2, skill_bytes: 1000, ..Limits::DEFAULT };
        let shown = format!("{skill:?}");
        let built =
            std::panic::catch_unwind(|| Server::builder("x", "1").limits(limits).skill(skill).build());
        assert!(built.is_err(), "{}", &shown[..shown.len().min(200)]);
    }
}
