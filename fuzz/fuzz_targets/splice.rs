//! Editing the text of an object equals editing the parsed value.

#![no_main]

use cardan_proto::jsonrpc::splice::{Edit, member_of, splice};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};

const NAMES: [&str; 4] = ["a", "_meta", "", "\u{e9}\"\\"];
const VALUES: [&str; 4] = ["null", "{\"x\":[1]}", "\"\\n\"", "1.50"];

fuzz_target!(|input: &[u8]| {
    let [first, second, object @ ..] = input else { return };
    let edits = edits(*first, *second);
    let spliced = splice(object, &edits);
    // What is no object to others may become anything, but no panic.
    let Ok(mut value) = serde_json::from_slice::<Map<String, Value>>(object) else { return };
    let text = spliced.expect("an object to others is one to us");
    assert!(text.len() <= object.len() + 256);
    for edit in &edits {
        match edit {
            Edit::Set(name, raw) => drop(value.insert((*name).to_owned(), parsed(raw))),
            Edit::Default(name, raw) => {
                value.entry(*name).or_insert_with(|| parsed(raw));
            }
            Edit::Drop(name) => drop(value.remove(*name)),
        }
    }
    let again: Map<String, Value> = serde_json::from_slice(&text).expect("an edited object is an object");
    assert_eq!(again, value);
    for name in NAMES {
        let member = member_of(&text, name).expect("an edited object is an object");
        assert_eq!(member.is_some(), value.contains_key(name));
    }
});

/// One or two edits, of different members.
fn edits(first: u8, second: u8) -> Vec<Edit<'static>> {
    let edits = vec![edit(first), edit(second)];
    if first & 3 == second & 3 { edits[..1].to_vec() } else { edits }
}

fn edit(choice: u8) -> Edit<'static> {
    let name = NAMES[usize::from(choice & 3)];
    let value = VALUES[usize::from(choice >> 2 & 3)].as_bytes();
    match choice >> 4 & 3 {
        0 => Edit::Set(name, value),
        1 => Edit::Default(name, value),
        _ => Edit::Drop(name),
    }
}

fn parsed(raw: &[u8]) -> Value {
    serde_json::from_slice(raw).expect("our own value")
}
