//! Files with variables: `NAME=VALUE` lines, as `.env` files have them.

/// The variables in their order; an error is the number of the line that is wrong.
pub(crate) fn parse(text: &str) -> Result<Vec<(String, String)>, usize> {
    let mut pairs = Vec::new();
    for (at, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (name, value) = line.split_once('=').ok_or(at + 1)?;
        let name = name.trim();
        if !crate::text::is_name(name) {
            return Err(at + 1);
        }
        pairs.push((name.to_owned(), unquote(value.trim()).ok_or(at + 1)?));
    }
    Ok(pairs)
}

/// Single quotes keep everything, double quotes know escapes, and without any a comment ends the value.
fn unquote(value: &str) -> Option<String> {
    if let Some(rest) = value.strip_prefix('\'') {
        return rest.find('\'').map(|end| rest[..end].to_owned());
    }
    let Some(rest) = value.strip_prefix('"') else {
        let end = value.find(" #").unwrap_or(value.len());
        return Some(value[..end].trim_end().to_owned());
    };
    let mut out = String::new();
    let mut chars = rest.chars();
    loop {
        match chars.next()? {
            '"' => return Some(out),
            '\\' => match chars.next()? {
                'n' => out.push('\n'),
                't' => out.push('\t'),
                'r' => out.push('\r'),
                other => out.push(other),
            },
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_variables() {
        let text = "# c\nA=1\nexport B = two words # c\n\nC='#\"x'\nD=\"a\\n\\\"b\" # c\nE=\n";
        let pairs = parse(text).unwrap();
        let pairs: Vec<_> = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(pairs, [("A", "1"), ("B", "two words"), ("C", "#\"x"), ("D", "a\n\"b"), ("E", "")]);
        assert_eq!(parse("A=1\nnonsense"), Err(2));
        assert_eq!(parse("A=\"open"), Err(1));
        assert_eq!(parse("1A=x"), Err(1));
    }
}
