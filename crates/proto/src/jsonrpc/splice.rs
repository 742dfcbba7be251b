//! A shallow edit of a raw JSON object: set, replace or drop members, keep every other byte.
//!
//! Used where an era dresses a payload it does not own: unknown members and the spelling of
//! numbers survive.

use std::ops::Range;

use bytes::Bytes;

use super::scan::{Scanner, Syntax};
use super::write;

/// A change to one member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit<'a> {
    /// Add the member, or replace its value. The value is raw JSON.
    Set(&'a str, &'a [u8]),
    /// Add the member unless it is there.
    Default(&'a str, &'a [u8]),
    /// Drop the member.
    Drop(&'a str),
}

impl<'a> Edit<'a> {
    fn name(&self) -> &'a str {
        match self {
            Self::Set(name, _) | Self::Default(name, _) | Self::Drop(name) => name,
        }
    }
}

/// Applies the edits to `object`, which must be one JSON object.
pub fn splice(object: &[u8], edits: &[Edit<'_>]) -> Result<Bytes, Syntax> {
    let added: usize = edits.iter().map(|edit| edit.name().len() + value_of(edit).len() + 4).sum();
    let mut out = Vec::with_capacity(object.len() + added);
    let mut present = vec![false; edits.len()];
    let mut scanner = Scanner::new(object, MAX_DEPTH);
    scanner.expect(b'{')?;
    out.push(b'{');
    let mut more = !scanner.take(b'}');
    while more {
        scanner.peek();
        let from = scanner.at();
        let key = scanner.name()?;
        let value = scanner.value()?;
        let edit = edits.iter().position(|edit| *key == *edit.name().as_bytes());
        match edit.map(|n| (n, &edits[n])) {
            None => member(&object[from..scanner.at()], &mut out),
            Some((n, Edit::Default(..))) => {
                present[n] = true;
                member(&object[from..scanner.at()], &mut out);
            }
            Some((n, Edit::Set(_, replacement))) => {
                present[n] = true;
                member(&object[from..value.range().start], &mut out);
                out.extend_from_slice(replacement);
            }
            Some((_, Edit::Drop(_))) => {}
        }
        more = scanner.take(b',');
        if !more {
            scanner.expect(b'}')?;
        }
    }
    for (edit, _) in edits.iter().zip(&present).filter(|(_, present)| !**present) {
        if let Edit::Set(name, value) | Edit::Default(name, value) = edit {
            member(b"", &mut out);
            write::string(name, &mut out);
            out.push(b':');
            out.extend_from_slice(value);
        }
    }
    out.push(b'}');
    Ok(Bytes::from(out))
}

/// The raw value of one member of `object`.
pub fn member_of(object: &Bytes, name: &str) -> Result<Option<Bytes>, Syntax> {
    members_of(object, [name]).map(|[found]| found)
}

/// The raw values of several members of `object`, in one pass that ends when all are found.
pub fn members_of<const N: usize>(object: &Bytes, names: [&str; N]) -> Result<[Option<Bytes>; N], Syntax> {
    let mut found = [const { None }; N];
    let mut scanner = Scanner::new(object, MAX_DEPTH);
    scanner.expect(b'{')?;
    if scanner.take(b'}') {
        return Ok(found);
    }
    loop {
        let key = scanner.name()?;
        let value = scanner.value()?;
        if let Some(n) = names.iter().position(|name| *key == *name.as_bytes()) {
            found[n].get_or_insert_with(|| object.slice(value.range()));
            if found.iter().all(Option::is_some) {
                return Ok(found);
            }
        }
        if !scanner.take(b',') {
            scanner.expect(b'}')?;
            return Ok(found);
        }
    }
}

/// `object` without the member `name`, whose value is at `value`. Nothing if the name is not written plainly before
/// it.
pub(super) fn cut(object: &Bytes, name: &str, value: Range<usize>) -> Option<Bytes> {
    let before = object.get(..value.start)?.trim_ascii_end().strip_suffix(b":")?.trim_ascii_end();
    let before = before.strip_suffix(b"\"")?.strip_suffix(name.as_bytes())?.strip_suffix(b"\"")?;
    let before = before.trim_ascii_end();
    let after = object.get(value.end..)?.trim_ascii_start();
    let (before, after) = match before.strip_suffix(b",") {
        Some(before) => (before, after),
        None => (before, after.strip_prefix(b",").unwrap_or(after)),
    };
    Some(Bytes::from([before, after].concat()))
}

/// Frames were checked against the configured depth when they came in.
const MAX_DEPTH: usize = 128;

fn member(text: &[u8], out: &mut Vec<u8>) {
    if out.len() > 1 {
        out.push(b',');
    }
    out.extend_from_slice(text);
}

fn value_of<'a>(edit: &Edit<'a>) -> &'a [u8] {
    match edit {
        Edit::Set(_, value) | Edit::Default(_, value) => value,
        Edit::Drop(_) => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    fn spliced(object: &str, edits: &[Edit<'_>]) -> String {
        String::from_utf8(splice(object.as_bytes(), edits).unwrap().to_vec()).unwrap()
    }

    /// META-7: what is not named keeps its bytes, number spellings included.
    #[test]
    fn untouched_members_keep_their_bytes() {
        let object = r#"{ "a" : 1.50, "b":[1e3 , 2],"c":"\u00e9"}"#;
        assert_eq!(spliced(object, &[]), r#"{"a" : 1.50,"b":[1e3 , 2],"c":"\u00e9"}"#);
        assert_eq!(
            spliced(object, &[Edit::Drop("b"), Edit::Set("d", b"true")]),
            r#"{"a" : 1.50,"c":"\u00e9","d":true}"#
        );
    }

    #[test]
    fn set_replaces_in_place_and_default_does_not() {
        assert_eq!(spliced(r#"{"a":1,"b":2}"#, &[Edit::Set("a", b"9")]), r#"{"a":9,"b":2}"#);
        assert_eq!(spliced(r#"{"a":1}"#, &[Edit::Default("a", b"9")]), r#"{"a":1}"#);
        assert_eq!(spliced("{}", &[Edit::Default("a", b"9")]), r#"{"a":9}"#);
        assert_eq!(spliced(r#"{"\u0061":1}"#, &[Edit::Drop("a")]), "{}");
    }

    /// A member is cut out wherever it stands, and only where its name is there to be seen.
    #[test]
    fn a_member_is_cut_out() {
        let rows = [
            (r#"{"a":{"x":1}}"#, Some("{}")),
            (r#"{"a":{"x":1},"b":2}"#, Some(r#"{"b":2}"#)),
            (r#"{"b":2 , "a" : {"x":1} }"#, Some(r#"{"b":2 }"#)),
            (r#"{"b":2,"a":{"x":1},"c":3}"#, Some(r#"{"b":2,"c":3}"#)),
            (r#"{"\u0061":{"x":1}}"#, None),
        ];
        for (object, left) in rows {
            let at = object.find(r#"{"x":1}"#).unwrap();
            let cut = cut(&Bytes::from_static(object.as_bytes()), "a", at..at + 7);
            assert_eq!(cut.as_deref(), left.map(str::as_bytes), "{object}");
        }
    }

    /// Several members are found in one pass, by the name they mean; the first of its name counts.
    #[test]
    fn members_are_found_together() {
        let object = Bytes::from_static(br#"{"a":1,"\u0062":[2],"c":{"b":9},"a":7}"#);
        let [a, b, d] = members_of(&object, ["a", "b", "d"]).unwrap();
        assert_eq!((a.as_deref(), b.as_deref(), d), (Some(&b"1"[..]), Some(&b"[2]"[..]), None));
        assert!(members_of(&Bytes::from_static(b"[1]"), ["a"]).is_err());
        assert_eq!(members_of(&Bytes::from_static(b"{}"), ["a"]).unwrap(), [None]);
    }

    proptest! {
        /// Splicing text equals editing the parsed value.
        #[test]
        fn equals_editing_the_value(keys in proptest::collection::btree_map("[a-e]", 0i64..9, 0..5)) {
            let object = serde_json::to_string(&keys).unwrap();
            let mut value: Map<String, Value> = serde_json::from_str(&object).unwrap();
            value.remove("a");
            value.insert("b".into(), json!({"x": 1}));
            value.entry("c").or_insert(json!(null));
            let text = spliced(&object, &[Edit::Drop("a"), Edit::Set("b", b"{\"x\":1}"), Edit::Default("c", b"null")]);
            prop_assert_eq!(serde_json::from_str::<Map<String, Value>>(&text).unwrap(), value);
        }
    }
}
