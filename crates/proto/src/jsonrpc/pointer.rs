//! JSON pointers (RFC 6901): how a place inside a value is written.

use std::borrow::Cow;

/// A name as one step of a pointer.
#[must_use]
pub fn escape(name: &str) -> Cow<'_, str> {
    if name.contains(['~', '/']) {
        Cow::Owned(name.replace('~', "~0").replace('/', "~1"))
    } else {
        Cow::Borrowed(name)
    }
}

/// The name that a step of a pointer stands for.
#[must_use]
pub fn unescape(step: &str) -> Cow<'_, str> {
    if step.contains('~') {
        Cow::Owned(step.replace("~1", "/").replace("~0", "~"))
    } else {
        Cow::Borrowed(step)
    }
}

/// One step further down.
pub fn push(pointer: &mut String, name: &str) {
    pointer.push('/');
    pointer.push_str(&escape(name));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_the_way_there_and_back() {
        for (name, step) in
            [("a", "a"), ("", ""), ("a/b", "a~1b"), ("m~n", "m~0n"), ("~1", "~01"), ("~/", "~0~1")]
        {
            assert_eq!(escape(name), step);
            assert_eq!(unescape(step), name);
        }
        let mut pointer = String::from("/properties");
        push(&mut pointer, "a/b");
        assert_eq!(pointer, "/properties/a~1b");
    }
}
