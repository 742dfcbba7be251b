//! The beginning of a message whose rest is gone: whose is it?

use super::envelope::Shape;
use super::id::CallId;
use super::scan::{Scanner, Syntax};
use crate::limits::Limits;

/// Reads the members of the envelope that are whole in `head`, and what it is as far as its beginning tells. An id is told
/// together with what it is the id of, or not at all: the peer's ids and ours are not to be confused.
pub(super) fn read(head: &[u8], limits: &Limits) -> (Shape, Option<CallId>) {
    let mut seen = Seen::default();
    // It ends in the middle: that is an error, and what came before it counts.
    let _ = members(head, limits, &mut seen);
    let shape = match (seen.method, seen.outcome) {
        (true, false) => Shape::Call,
        (false, true) => Shape::Reply,
        _ => Shape::Unknown,
    };
    match seen.ids.as_slice() {
        [id] if shape != Shape::Unknown => (shape, Some(id.clone())),
        // A call needs its id to be one; a reply is no less a reply without.
        _ if shape == Shape::Reply => (shape, None),
        _ => (Shape::Unknown, None),
    }
}

#[derive(Default)]
struct Seen {
    method: bool,
    outcome: bool,
    ids: Vec<CallId>,
}

fn members(head: &[u8], limits: &Limits, seen: &mut Seen) -> Result<(), Syntax> {
    let mut scanner = Scanner::new(head, limits.depth);
    scanner.enter()?;
    loop {
        let begun = scanner.clone();
        let name = match scanner.name() {
            Ok(name) => name,
            Err(error) => {
                seen.outcome |= begins_outcome(begun, head);
                return Err(error);
            }
        };
        match &*name {
            b"method" => seen.method = true,
            b"result" | b"error" => seen.outcome = true,
            _ => {}
        }
        let value = scanner.value()?;
        // A number at the cut may go on.
        let Some(next) = scanner.peek() else { return Ok(()) };
        if &*name == b"id" {
            seen.ids.extend(CallId::parse(&head[value.range()], limits.id_bytes));
        }
        if next == b'}' {
            return Ok(());
        }
        scanner.expect(b',')?;
    }
}

/// Is the name cut that an outcome has? No other member of an envelope begins alike.
fn begins_outcome(mut at: Scanner<'_>, head: &[u8]) -> bool {
    let quoted = at.take(b'"');
    let begun = head.get(at.at()..).unwrap_or_default();
    let is_begun = |name: &[u8]| name.starts_with(begun) || begun.strip_suffix(b"\"") == Some(name);
    quoted && !begun.is_empty() && [&b"result"[..], b"error"].into_iter().any(is_begun)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S3-21: the id is that of the envelope, whole, once, and of a known kind; else there is none.
    #[test]
    fn s3_21_whose_the_rest_is() {
        let rows = [
            (r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"te"#, Shape::Reply, Some(7)),
            (r#" {"id":7,"jsonrpc":"2.0","error":{"#, Shape::Reply, Some(7)),
            (r#"{"\u0069d":7,"result":"#, Shape::Reply, Some(7)),
            (r#"{"result":[],"id":7,"x":"#, Shape::Reply, Some(7)),
            (r#"{"id":7,"method":"x","params":{"#, Shape::Call, Some(7)),
            // Nested, or text.
            (r#"{"jsonrpc":"2.0","result":{"id":7,"x":"#, Shape::Reply, None),
            (r#"{"jsonrpc":"2.0","result":"\"id\":7,"#, Shape::Reply, None),
            (r#"{"method":{"id":7,"x":"#, Shape::Unknown, None),
            (r#"[{"jsonrpc":"2.0","id":7,"result":{"#, Shape::Unknown, None),
            // Cut in the name of its outcome.
            (r#"{"jsonrpc":"2.0","id":7,"resu"#, Shape::Reply, Some(7)),
            (r#"{"jsonrpc":"2.0","id":7,"result""#, Shape::Reply, Some(7)),
            (r#"{"jsonrpc":"2.0","id":7, "er"#, Shape::Reply, Some(7)),
            // Cut: more digits may follow, or the kind is not known.
            (r#"{"result":{},"id":7"#, Shape::Reply, None),
            (r#"{"jsonrpc":"2.0","id":7,"meth"#, Shape::Unknown, None),
            (r#"{"jsonrpc":"2.0","id":7,""#, Shape::Unknown, None),
            (r#"{"jsonrpc":"2.0","id":7,"#, Shape::Unknown, None),
            // Ambiguous, or no id.
            (r#"{"id":7,"id":8,"result":"#, Shape::Reply, None),
            (r#"{"id":7,"method":"x","result":"#, Shape::Unknown, None),
            (r#"{"id":{"a":7},"result":"#, Shape::Reply, None),
            ("yyyyyyyy", Shape::Unknown, None),
            ("", Shape::Unknown, None),
        ];
        for (head, shape, id) in rows {
            let expected = (shape, id.map(|id: i64| CallId::from(id)));
            assert_eq!(read(head.as_bytes(), &Limits::DEFAULT), expected, "{head}");
        }
    }
}
