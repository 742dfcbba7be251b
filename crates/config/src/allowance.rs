//! How much one principal may ask for: `rate`, `burst` and `concurrency`, in `[gateway]` for everyone and in `[[gateway.keys]]`
//! for whom the key stands.

use std::fmt;
use std::time::Duration;

use crate::problem::{Problem, Scene};
use crate::tree::{Entry, Node, Value};

/// How much one principal may ask for. What is not said is not bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Allowance {
    /// Calls in a time.
    pub rate: Option<Rate>,
    /// Calls at once after a pause; as many as the rate has in its time, unless told.
    pub burst: Option<u32>,
    /// Calls that run at a time.
    pub concurrency: Option<u32>,
}

/// Calls in a time, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// How many.
    pub count: u32,
    /// In how long.
    pub per: Duration,
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.iter().find(|(_, seconds)| Duration::from_secs(*seconds) == self.per);
        write!(f, "{}/{}", self.count, unit.map_or("?", |(unit, _)| *unit))
    }
}

/// The keys that say it.
pub(crate) const KEYS: [&str; 3] = ["rate", "burst", "concurrency"];
const UNITS: [(&str, u64); 3] = [("s", 1), ("m", 60), ("h", 3600)];

impl Allowance {
    /// What is said here, and for the rest what `other` says. A burst belongs to its rate.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let (rate, burst) = match self.rate {
            Some(rate) => (Some(rate), self.burst),
            None => (other.rate, self.burst.or(other.burst)),
        };
        Self { rate, burst, concurrency: self.concurrency.or(other.concurrency) }
    }

    /// Takes one of [`KEYS`].
    pub(crate) fn read(&mut self, scene: Scene<'_>, entry: &Entry) -> Result<(), Problem> {
        let wrong = |message| scene.problem(&entry.node.span, Some(&entry.key), message);
        let number = || number(&entry.node).ok_or_else(|| wrong("a whole number above 0 is expected"));
        match entry.key.as_str() {
            "burst" => self.burst = Some(number()?),
            "concurrency" => self.concurrency = Some(number()?),
            _ => {
                let rate = entry.node.as_text().and_then(rate);
                let wrong = || wrong("a number of calls in a time is expected: 10/s, 100/m or 1000/h");
                self.rate = Some(rate.ok_or_else(wrong)?);
            }
        }
        Ok(())
    }
}

fn number(node: &Node) -> Option<u32> {
    match &node.value {
        Value::Number(number) => number.parse().ok().filter(|number| *number > 0),
        _ => None,
    }
}

fn rate(text: &str) -> Option<Rate> {
    let (count, unit) = text.split_once('/')?;
    let (_, seconds) = UNITS.iter().find(|(word, _)| *word == unit.trim())?;
    let count = count.trim().parse().ok().filter(|count| *count > 0)?;
    Some(Rate { count, per: Duration::from_secs(*seconds) })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::File;

    #[test]
    fn what_is_said_is_read_and_slips_are_found() {
        let file = |text: &str| File::parse(Path::new("cardan.toml"), text, None).unwrap();
        let said = file(
            "[gateway]\nrate = \"100/m\"\nburst = 5\nconcurrency = 8\n[[gateway.keys]]\nname = \"ada\"\nenv = \"ADA\"\nrate = \"2/s\"\n",
        );
        assert_eq!(said.problems, []);
        let all = said.gateway.allowance;
        let ada = said.gateway.keys.unwrap()[0].allowance.or(all);
        assert_eq!(all.rate.unwrap().to_string(), "100/m");
        assert_eq!((all.burst, all.concurrency), (Some(5), Some(8)));
        assert_eq!(
            (ada.rate.unwrap().to_string(), ada.burst, ada.concurrency),
            ("2/s".to_owned(), None, Some(8))
        );
        for (text, told) in [
            ("rate = 10", "`rate`: a number of calls in a time is expected"),
            ("rate = \"0/s\"", "`rate`: a number of calls in a time"),
            ("rate = \"1/d\"", "10/s, 100/m or 1000/h"),
            ("burst = 0", "`burst`: a whole number above 0"),
            ("concurrency = \"2\"", "`concurrency`: a whole number above 0"),
            ("keys = [{ name = \"a\", env = \"A\", rate = \"x\" }]", "`rate`: a number of calls"),
        ] {
            let problems = file(&format!("[gateway]\n{text}\n")).problems;
            assert!(problems[0].to_string().contains(told), "{problems:?}");
        }
    }
}
