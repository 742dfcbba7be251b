use serde_json::{Value, json};

use super::score::{Report, Run, STREAMS, Status};
use super::suite::{EXTENSION, Listed, scenario_of};

fn check(id: &str, status: &str) -> Value {
    json!({ "id": id, "status": status, "errorMessage": "because" })
}

fn report(scenario: &str, checks: Vec<Value>) -> Report {
    let mut report = Report::new("server");
    report.runs.push(Run::new("one", &[scenario], vec![(scenario.to_owned(), checks)]));
    report
}

#[test]
fn scenarios_are_read_from_the_list() {
    let listed =
        Listed::parse("Server scenarios:\n  - ping [r1,r2]\n  - old [r1]\n  - odd [extension]\n").unwrap();
    assert_eq!(listed.revisions(), ["r1", "r2"]);
    assert_eq!(listed.at(Some("r2")).collect::<Vec<_>>(), ["ping"]);
    assert_eq!(listed.all().collect::<Vec<_>>(), ["ping", "old", "odd"]);
    assert_eq!(listed.at(Some(EXTENSION)).collect::<Vec<_>>(), ["odd"]);
    assert!(Listed::parse("  - ping\n").is_err() && Listed::parse("nothing").is_err());
}

#[test]
fn folders_of_results_name_their_scenario() {
    assert_eq!(scenario_of("server-ping-2026-11-16T01-40-16-961Z", "server-"), "ping");
    assert_eq!(scenario_of("auth/dpop-2026-11-16T01-40-16-961Z", ""), "auth/dpop");
    assert_eq!(scenario_of("short", "server-"), "short");
}

#[test]
fn whatever_did_not_pass_spoils_the_report() {
    assert!(report("ping", vec![check("ping", "SUCCESS"), check("incoming-response", "INFO")]).is_clean());
    for status in ["FAILURE", "WARNING", "SKIPPED", "INFO", "odd"] {
        let report = report("ping", vec![check("a", "SUCCESS"), check("b", status)]);
        assert!(!report.is_clean(), "{status}");
        assert!(report.complaints().contains("one ping b: "), "{}", report.complaints());
        assert!(report.summary().contains("0/1 scenarios, 1 passed"), "{}", report.summary());
        assert!(report.table().contains("1 of 2"));
    }
}

#[test]
fn a_scenario_that_was_not_run_spoils_the_report() {
    let mut report = Report::new("server");
    report.runs.push(Run::new("one", &["ping"], Vec::new()));
    assert!(!report.is_clean());
    assert!(report.summary().contains("1 not run"));
}

#[test]
fn what_the_suite_skips_for_everybody_is_no_fault_of_ours() {
    let skipped = check("tasks-status-notifications", "SKIPPED");
    assert_eq!(Status::of("tasks-status-notifications", &skipped), Some(Status::NotOurs));
    assert_eq!(Status::of("tasks-lifecycle", &skipped), Some(Status::Skipped));
    let named = |name| json!({ "id": "headers", "name": name, "status": "SKIPPED" });
    let of = |name| Status::of("http-standard-headers", &named(name));
    assert_eq!(of("ClientMcpMethodHeader_initialize"), Some(Status::NotOurs));
    assert_eq!(of("ClientMcpMethodHeader_tools_call"), Some(Status::Skipped));
}

#[test]
fn a_check_that_was_given_up_spoils_nothing_else() {
    let run = |status| {
        let found = vec![(STREAMS.0.to_owned(), vec![check(STREAMS.1, status), check("other", "SUCCESS")])];
        let mut report = Report::new("server");
        report.runs.push(Run::new("short", &[STREAMS.0], found).without(STREAMS));
        report.is_clean()
    };
    assert!(run("INFO") && run("SUCCESS"));
    assert!(!run("FAILURE") && !run("SKIPPED"));
}

#[test]
fn a_grant_holds_for_one_ending_and_must_be_needed() {
    let run = |granted, status| {
        let found = vec![("ping".to_owned(), vec![check("a", status), check("b", "SUCCESS")])];
        let mut report = Report::new("through");
        report.runs.push(Run::new("one", &["ping"], found).grant(granted, Status::Warned));
        report.is_clean()
    };
    assert!(run(("ping", "a"), "WARNING"));
    for status in ["SUCCESS", "FAILURE", "SKIPPED", "INFO"] {
        assert!(!run(("ping", "a"), status), "{status}");
    }
    assert!(run(("other", "a"), "SUCCESS"), "a scenario that was not run");
}

#[test]
fn fewer_checks_than_known_spoil_the_report() {
    let mut fine = report("ping", vec![check("a", "SUCCESS")]);
    fine.compare("# remark\nserver one 1 1\nclient one 9 9\nserver other 9 9\n").unwrap();
    assert!(fine.is_clean());
    fine.compare("server one 1 2\n").unwrap();
    assert!(!fine.is_clean() && fine.complaints().contains("not 1 with 2"));
    assert!(fine.compare("server one\n").is_err() && fine.compare("server one x y\n").is_err());
}
