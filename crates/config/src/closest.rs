//! "Did you mean": the name that was probably wanted.

use cardan_proto::limits::config::NAME_CHARS;

/// The nearest of `names` to `typed`, if one is near enough to be a slip of the finger.
#[must_use]
pub fn closest<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let far = (typed.chars().count() / 3).max(1);
    let near = names.into_iter().map(|name| (distance(typed, name), name));
    // Names without a letter in common are no likeness, however short they are.
    let alike = |steps: usize, name: &str| steps < typed.chars().count().max(name.chars().count());
    near.filter(|(steps, name)| *steps <= far && (*steps == 0 || alike(*steps, name)))
        .min_by_key(|(steps, _)| *steps)
        .map(|(_, name)| name)
}

/// How many letters are to be added, removed, replaced or swapped with their neighbour.
fn distance(one: &str, other: &str) -> usize {
    let fold = |text: &str| text.to_lowercase().chars().collect::<Vec<char>>();
    let (one, other) = (fold(one), fold(other));
    // Names are short; whoever types a novel is not helped by a guess.
    if one.len().max(other.len()) > NAME_CHARS {
        return usize::MAX;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=other.len()).collect();
    for (row, letter) in one.iter().enumerate() {
        let mut line = vec![row + 1];
        for (column, opposite) in other.iter().enumerate() {
            let replaced = above[column] + usize::from(letter != opposite);
            let mut best = replaced.min(above[column + 1] + 1).min(line[column] + 1);
            let swapped = row > 0 && column > 0 && *letter == other[column - 1] && one[row - 1] == *opposite;
            if swapped {
                best = best.min(before[column - 1] + 1);
            }
            line.push(best);
        }
        before = std::mem::replace(&mut above, line);
    }
    above.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_strangers_are_not() {
        let names = ["message", "delay_ms", "a"];
        assert_eq!(closest("mesage", names), Some("message"));
        assert_eq!(closest("messaeg", names), Some("message"));
        assert_eq!(closest("Message", names), Some("message"));
        assert_eq!(closest("colour", names), None);
        assert_eq!(closest("c", names), None);
        assert_eq!(closest("A", names), Some("a"));
        assert_eq!(closest("aa", names), Some("a"));
        assert_eq!(closest("", []), None);
    }
}
