//! Skills of all servers as those of one: listed, looked up and read where they are, gated as the resources that they are
//! made of.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod fronting;
mod relaying;

use std::sync::Arc;
use std::time::Duration;

use cardan_client::{CallError, Client};
use cardan_gateway::fleet::{self, Fleet, Spec};
use cardan_gateway::front::{Front, Options, Refused};
use cardan_gateway::rules::{Pattern, RuleSet, Rules};
use cardan_proto::era::Era;
use cardan_proto::jsonrpc::fault::{Fault, code};
use cardan_proto::method::Method;
use cardan_proto::session::event::CallOptions;
use cardan_server::{Server, Skill};
use fronting::behalf::{on_behalf, policy};
use fronting::{Stage, at, front, late, server, spec};
use relaying::{plain, revisions, soon};
use serde_json::json;
use tokio::sync::Semaphore;

/// A server with a skill of its own, and one that others have too.
fn skilled(name: &'static str, own: &'static str) -> Server {
    Server::builder(name, "1")
        .revisions(revisions(Era::Modern))
        .page_size(1)
        .skill(
            Skill::new(own, format!("{own} of {name}."), "Do it.\n")
                .file("references/how.md", "text/markdown", "Well.\n")
                .file("secret.md", "text/markdown", "Hush.\n"),
        )
        .skill(Skill::new("common", format!("Of {name}."), "Do it.\n"))
        .build()
}

fn two() -> Vec<Spec> {
    vec![
        spec("one", &skilled("one", "bake")).0,
        spec("plain", &server("plain", Era::Modern, &Stage::default())).0,
        spec("old", &server("old", Era::Legacy, &Stage::default())).0,
        spec("two", &skilled("two", "boil")).0,
    ]
}

async fn names(client: &Client) -> Vec<String> {
    let skills = soon("skills", client.all_skills()).await.unwrap();
    skills.iter().map(|skill| format!("{}: {}", skill.uri, skill.frontmatter["description"])).collect()
}

fn refused<T: std::fmt::Debug>(called: Result<T, CallError>) -> Fault {
    match called {
        Err(CallError::Fault(fault)) => fault,
        other => panic!("{other:?}"),
    }
}

/// SKL-1, SKL-4, SKL-6, SKL-7: skills of several servers are listed in their order, each address once, and each is looked up,
/// loaded and its directories are read at the server that has it.
#[tokio::test]
async fn skl_4_skills_of_all_servers_are_one_list() {
    let front = front(two());
    front.settled().await;
    let client = at(&front, Era::Modern, plain()).await;
    let declared = client.server().capabilities.extensions.unwrap();
    assert_eq!(declared["io.modelcontextprotocol/skills"], json!({ "directoryRead": true }));
    assert_eq!(
        names(&client).await,
        [
            "skill://bake/SKILL.md: \"bake of one.\"",
            "skill://common/SKILL.md: \"Of one.\"",
            "skill://boil/SKILL.md: \"boil of two.\""
        ]
    );
    for skill in client.all_skills().await.unwrap() {
        assert_eq!(client.skill(&skill.uri).await.unwrap(), skill);
        client.load_skill(&skill).await.unwrap();
    }
    for (folder, count) in [("skill://bake", 3), ("skill://boil/", 3), ("skill://boil/references", 1)] {
        assert_eq!(client.read_directory(folder).await.unwrap().len(), count, "{folder}");
    }
    for nowhere in ["skill://none/SKILL.md", "skill://boil/secret.md", "plain://a"] {
        assert_eq!(refused(client.skill(nowhere).await).code, code::INVALID_PARAMS, "{nowhere}");
        assert_eq!(refused(client.read_directory(nowhere).await).code, code::INVALID_PARAMS, "{nowhere}");
    }
    let told: Vec<String> = front.collisions().iter().map(ToString::to_string).collect();
    assert!(told.iter().any(|told| told.starts_with("`skill://common/SKILL.md` of two")), "{told:?}");
    let alone = at(&front.alone("two").unwrap(), Era::Modern, plain()).await;
    assert_eq!(names(&alone).await.len(), 2);
    front.end("done").await;
}

/// SKL-3: where no server has skills, none are announced, nor to legacy clients; those read the files.
#[tokio::test]
async fn skl_3_skills_are_announced_where_there_are_any() {
    let none = front(vec![spec("plain", &server("plain", Era::Modern, &Stage::default())).0]);
    none.settled().await;
    let client = at(&none, Era::Modern, plain()).await;
    assert_eq!(client.server().capabilities.extensions, None);
    let ask = async |client: &Client| client.raw(Method::SkillsList, None, CallOptions::default()).await;
    assert!(ask(&client).await.is_err());
    none.end("done").await;
    let some = front(two());
    let client = at(&some, Era::Legacy, plain()).await;
    assert!(ask(&client).await.is_err());
    let read = client.read("skill://boil/SKILL.md").await.unwrap();
    assert!(json!(read)["contents"][0]["text"].as_str().unwrap().starts_with("---\n"), "{read:?}");
    some.end("done").await;
}

/// T15: whose resource is hidden is no skill, and a file that is hidden lies in no directory; at all servers and at one alone.
#[tokio::test]
async fn t15_hidden_skills_are_nowhere() {
    let front = front(two());
    front.settled().await;
    front.protect(policy(
        "[policy.ada]\nresources = { deny = ['skill://bake/*', '*/secret.md'] }\n\
         [policy.eve]\nresources = { allow = [] }\n",
    ));
    let alone = front.alone("one").unwrap();
    for (front, left) in [(&front, 2), (&alone, 1)] {
        let ada = on_behalf(front, "ada", Era::Modern).await;
        assert_eq!(names(&ada).await.len(), left);
        let hidden = refused(ada.skill("skill://bake/SKILL.md").await);
        let absent = refused(ada.skill("skill://none/SKILL.md").await);
        assert_eq!((hidden.code, hidden.message), (absent.code, absent.message));
        assert_eq!(refused(ada.read_directory("skill://bake").await).code, code::INVALID_PARAMS);
        let eve = on_behalf(front, "eve", Era::Modern).await;
        assert!(eve.all_skills().await.is_err(), "nothing is announced that can never be seen");
        let bob = on_behalf(front, "bob", Era::Modern).await;
        assert_eq!(names(&bob).await.len(), left + 1);
        assert_eq!(bob.read_directory("skill://bake").await.unwrap().len(), 3);
    }
    let counted: Vec<_> = Refused::ALL.into_iter().zip(front.refused()).collect();
    assert!(
        counted.contains(&(Refused::Policy, 2)) && counted.contains(&(Refused::Unknown, 2)),
        "{counted:?}"
    );
    let ada = on_behalf(&front, "ada", Era::Modern).await;
    let boil = ada.read_directory("skill://boil").await.unwrap();
    assert_eq!(boil.len(), 2, "{boil:?}");
    let listed = ada.all_skills().await.unwrap();
    let entry = listed.iter().find(|skill| skill.uri == "skill://boil/SKILL.md").unwrap();
    for entry in [entry.clone(), ada.skill("skill://boil/SKILL.md").await.unwrap()] {
        assert!(entry.file("skill://boil/references/how.md").is_some(), "{entry:?}");
        assert!(entry.file("skill://boil/secret.md").is_none(), "{entry:?}");
    }
    front.end("done").await;
}

/// T15: a server's own rules hold for its skills as for its resources.
#[tokio::test]
async fn t15_rules_hold_for_skills() {
    let resources = Rules { deny: vec![Pattern::new("skill://common/*")], ..Rules::default() };
    let (mut one, two) = (spec("one", &skilled("one", "bake")).0, spec("two", &skilled("two", "boil")).0);
    one.rules = RuleSet { resources, ..RuleSet::default() };
    let front = front(vec![one, two]);
    front.settled().await;
    let client = at(&front, Era::Modern, plain()).await;
    let skill = client.skill("skill://common/SKILL.md").await.unwrap();
    assert_eq!(skill.frontmatter["description"], "Of two.");
    front.end("done").await;
}

/// S0-80: who asks for a skill before its server is known waits for it.
#[tokio::test]
async fn s0_80_a_skill_waits_for_its_server() {
    let leave = Arc::new(Semaphore::new(0));
    let specs = vec![spec("one", &skilled("one", "bake")).0, late("two", skilled("two", "boil"), &leave)];
    let fleet = Fleet::start(specs, fleet::Options::default());
    let mut events = fleet.events();
    let front = Front::start(fleet, Options { window: Duration::ZERO, ..Options::default() });
    let one = front.fleet().upstream("one").unwrap();
    soon("the first catalog", async {
        while one.catalog().is_none() {
            events.recv().await.unwrap();
        }
    })
    .await;
    let client = at(&front, Era::Modern, plain()).await;
    let (skill, ()) = soon("the skill", async {
        tokio::join!(client.skill("skill://boil/SKILL.md"), async {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            leave.add_permits(99);
        })
    })
    .await;
    assert_eq!(skill.unwrap().frontmatter["description"], "boil of two.");
    front.end("done").await;
}
