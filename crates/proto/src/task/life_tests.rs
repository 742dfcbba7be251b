//! The edges of a task, as a table.

use std::time::Duration;

use bytes::Bytes;

use super::life::{Design, Detail, Life, Misasked};
use crate::jsonrpc::fault::{Fault, code};
use crate::method::Method;
use crate::model::task::{Lifetime, TaskStatus};
use crate::moment::Moment;
use crate::session::event::{Answers, Ask};

const TTL: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(500);

fn at(seconds: u64) -> Moment {
    Moment::after(Duration::from_secs(seconds))
}

fn roots(name: &str) -> (Box<str>, Ask) {
    (name.into(), Ask { method: Method::RootsList, params: None })
}

fn answers(names: &[&str]) -> Answers {
    names.iter().map(|name| ((*name).into(), Ok(Bytes::from_static(br#"{"roots":[]}"#)))).collect()
}

/// One thing that happens to a task.
#[derive(Debug, Clone, Copy)]
enum Step {
    Ask,
    Answer,
    Finish,
    Fail,
    Cancel,
}

use Step::{Answer, Ask as AskFor, Cancel, Fail, Finish};

/// Whether the step was taken.
fn take(life: &mut Life, step: Step, n: usize) -> bool {
    match step {
        AskFor => life.ask(vec![roots(&format!("a{n}"))], at(1)).is_ok(),
        Answer => {
            let open: Vec<String> = life.open_asks().iter().map(|(name, _)| name.to_string()).collect();
            let open: Vec<&str> = open.iter().map(String::as_str).collect();
            life.answer(answers(&open), at(1)).is_some()
        }
        Finish => life.finish(Ok(Bytes::from_static(b"{}")), at(1)),
        Fail => life.finish(Err(Fault::internal("no")), at(1)),
        Cancel => life.cancel("enough", at(1)),
    }
}

/// TSKD-9: it starts working; each step leads where the drawing says, and from an end nowhere.
#[test]
fn states_move_along_the_edges_only() {
    let working: &[Step] = &[];
    let asking: &[Step] = &[AskFor];
    let done: &[Step] = &[Finish];
    let failed: &[Step] = &[Fail];
    let cancelled: &[Step] = &[Cancel];
    let rows = [
        (working, AskFor, Some("input_required")),
        (working, Answer, None),
        (working, Finish, Some("completed")),
        (working, Fail, Some("failed")),
        (working, Cancel, Some("cancelled")),
        (asking, AskFor, None),
        (asking, Answer, Some("working")),
        (asking, Finish, Some("completed")),
        (asking, Fail, Some("failed")),
        (asking, Cancel, Some("cancelled")),
    ];
    let ends = [done, failed, cancelled].into_iter();
    let ends = ends.flat_map(|end| [AskFor, Answer, Finish, Fail, Cancel].map(|step| (end, step, None)));
    for (before, step, leads_to) in rows.into_iter().chain(ends) {
        for design in [Design::Core, Design::Extension] {
            let mut life = Life::begin(design, TTL, at(0));
            assert_eq!(life.status(), TaskStatus::Working);
            for (n, step) in before.iter().enumerate() {
                assert!(take(&mut life, *step, n));
            }
            let was = life.status();
            let taken = take(&mut life, step, 9);
            let is = life.status();
            assert_eq!(taken, leads_to.is_some(), "{before:?} {step:?}");
            assert_eq!(is.as_str(), leads_to.unwrap_or(was.as_str()), "{before:?} {step:?}");
        }
    }
}

/// TSKE-11, TSKE-25: answers may come one by one; what was not asked, or was answered, is ignored.
#[test]
fn partial_and_foreign_answers_are_fine() {
    let mut life = Life::begin(Design::Extension, TTL, at(0));
    life.ask(vec![roots("a"), roots("b")], at(1)).unwrap();
    assert!(life.answer(answers(&["c", "a"]), at(2)).is_none());
    let open: Vec<_> = life.open_asks().iter().map(|(name, _)| &**name).collect();
    assert_eq!((open, life.status()), (vec!["b"], TaskStatus::InputRequired));
    assert!(life.answer(answers(&["a"]), at(3)).is_none());
    let all = life.answer(answers(&["b"]), at(4)).unwrap();
    let names: Vec<_> = all.iter().map(|(name, _)| &**name).collect();
    assert_eq!((names, life.status()), (vec!["a", "b"], TaskStatus::Working));
}

/// TSKE-10: a name is used once in the life of a task.
#[test]
fn names_of_asks_are_used_once() {
    let mut life = Life::begin(Design::Extension, TTL, at(0));
    assert_eq!(life.ask(vec![roots("a"), roots("a")], at(1)), Err(Misasked::NameUsed));
    let mut life = Life::begin(Design::Extension, TTL, at(0));
    life.ask(vec![roots("a")], at(1)).unwrap();
    life.answer(answers(&["a"]), at(2)).unwrap();
    assert_eq!(life.ask(vec![roots("b"), roots("a")], at(3)), Err(Misasked::NameUsed));
    assert_eq!(life.ask(Vec::new(), at(3)), Err(Misasked::Nothing));
    let odd = Ask { method: Method::ToolsCall, params: None };
    assert_eq!(life.ask(vec![("x".into(), odd)], at(3)), Err(Misasked::Unreadable));
}

/// TSKD-22, TSKE-9: a tool that failed fails its task in one design and completes it in the other; a
/// fault fails it in both, and says why.
#[test]
fn failures_are_told_as_the_design_wants() {
    let failed = Bytes::from_static(br#"{"content":[{"type":"text","text":"no flour"}],"isError":true}"#);
    for (design, status, why) in [
        (Design::Core, TaskStatus::Failed, Some("no flour")),
        (Design::Extension, TaskStatus::Completed, None),
    ] {
        let mut life = Life::begin(design, TTL, at(0));
        assert!(life.finish(Ok(failed.clone()), at(1)));
        let task = life.view("t", Detail::Head, POLL, 0);
        assert_eq!((task.status, task.status_message.as_deref()), (status, why));
        assert_eq!(life.outcome(), Some(Ok(failed.clone())));
        let mut life = Life::begin(design, TTL, at(0));
        assert!(life.finish(Err(Fault::internal("broken")), at(1)));
        let task = life.view("t", Detail::Whole, POLL, 0);
        assert_eq!((task.status, task.status_message.as_deref()), (TaskStatus::Failed, Some("broken")));
        assert_eq!(task.error.unwrap().code, code::INTERNAL);
    }
}

/// TSKD-10, TSKE-24: times and lifetime under the names of the design; TSKE-8: each state with what
/// belongs to it.
#[test]
fn a_task_is_written_as_its_design_wants() {
    let epoch_ms = 1_709_164_800_000;
    let mut life = Life::begin(Design::Extension, TTL, at(1));
    life.say("half", at(2));
    let head = life.view("t", Detail::Whole, POLL, epoch_ms);
    assert_eq!(
        (head.created_at.as_str(), head.last_updated_at.as_str()),
        ("2024-02-29T00:00:01.000Z", "2024-02-29T00:00:02.000Z")
    );
    assert_eq!((head.ttl_ms, head.poll_interval_ms), (Some(Lifetime::Millis(60_000)), Some(500)));
    assert_eq!((head.ttl, head.poll_interval, head.status_message.as_deref()), (None, None, Some("half")));
    assert_eq!(head.check_detailed(), []);
    life.ask(vec![roots("a")], at(3)).unwrap();
    let asking = life.view("t", Detail::Whole, POLL, epoch_ms);
    assert_eq!(asking.check_detailed(), []);
    assert!(asking.input_requests.unwrap().0.contains_key("a"));
    assert_eq!(life.view("t", Detail::Head, POLL, epoch_ms).input_requests, None);
    assert!(life.finish(Ok(Bytes::from_static(br#"{"content":[]}"#)), at(4)));
    assert_eq!(life.view("t", Detail::Whole, POLL, epoch_ms).check_detailed(), []);
    let core = Life::begin(Design::Core, TTL, at(0)).view("t", Detail::Head, POLL, 0);
    assert_eq!((core.ttl, core.poll_interval), (Some(Lifetime::Millis(60_000)), Some(500)));
    assert_eq!((core.ttl_ms, core.poll_interval_ms), (None, None));
}
