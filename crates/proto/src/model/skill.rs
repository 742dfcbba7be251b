//! Skills, an extension: instructions for models with the files they need, served as resources.
//!
//! An entry names a skill by the address of its manifest, `SKILL.md`, repeats the manifest's head, and lists
//! every file with size and digest, so that what is read later can be checked.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::cache::cacheable_result;
use super::flaw::Flaw;
use super::meta::Meta;
use super::page::Cursor;

/// The id of the extension.
pub const EXTENSION: &str = "io.modelcontextprotocol/skills";

/// The file that every skill has.
pub const MANIFEST: &str = "SKILL.md";

/// What a directory is, as a type of contents.
pub const DIRECTORY_TYPE: &str = "inode/directory";

/// One skill.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SkillEntry {
    /// The address of its manifest.
    pub uri: String,
    /// The head of its manifest.
    pub frontmatter: Map<String, Value>,
    /// Its files.
    pub resources: SkillFiles,
}

impl SkillEntry {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.frontmatter.get("name")?.as_str()
    }

    /// What is known of one of its files.
    #[must_use]
    pub fn file(&self, uri: &str) -> Option<&SkillFile> {
        match &self.resources {
            SkillFiles::Dynamic => None,
            SkillFiles::Listed(files) => files.iter().find(|file| file.uri == uri),
        }
    }

    /// What a server must not send.
    #[must_use]
    pub fn check(&self) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        let folder = self.uri.strip_suffix(MANIFEST).filter(|folder| folder.ends_with('/'));
        let last = folder.and_then(|folder| folder.trim_end_matches('/').rsplit('/').next());
        match self.name() {
            Some(name) if is_skill_name(name) => {
                if last != Some(name) {
                    flaws.push(Flaw::at("uri", "does not end in the skill's name and SKILL.md"));
                }
            }
            _ => flaws.push(Flaw::at("frontmatter", "has no name of 1 to 64 of the characters a-z 0-9 -")),
        }
        let description = self.frontmatter.get("description").and_then(Value::as_str);
        if description.is_none_or(str::is_empty) {
            flaws.push(Flaw::at("frontmatter", "has no description"));
        }
        if let SkillFiles::Listed(files) = &self.resources {
            if self.file(&self.uri).is_none() {
                flaws.push(Flaw::at("resources", "does not list the manifest"));
            }
            if files.iter().any(|file| !file.uri.starts_with(folder.unwrap_or(&self.uri))) {
                flaws.push(Flaw::at("resources", "lists a file outside the skill"));
            }
            if files.iter().any(|file| !is_digest(&file.digest)) {
                flaws.push(Flaw::at("resources", "has a digest that is not sha256: and 64 digits"));
            }
        }
        flaws
    }
}

/// The files of a skill.
#[derive(Debug, Clone, PartialEq)]
pub enum SkillFiles {
    /// They change, and nothing is promised about them.
    Dynamic,
    /// All of them.
    Listed(Vec<SkillFile>),
}

impl Default for SkillFiles {
    fn default() -> Self {
        Self::Listed(Vec::new())
    }
}

impl Serialize for SkillFiles {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Dynamic => serializer.serialize_str("dynamic"),
            Self::Listed(files) => files.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for SkillFiles {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Wire {
            Word(String),
            Files(Vec<SkillFile>),
        }
        match Wire::deserialize(deserializer)? {
            Wire::Files(files) => Ok(Self::Listed(files)),
            Wire::Word(word) if word == "dynamic" => Ok(Self::Dynamic),
            Wire::Word(_) => Err(D::Error::custom("resources: neither a list of files nor \"dynamic\"")),
        }
    }
}

/// One file of a skill.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SkillFile {
    /// Its address.
    pub uri: String,
    /// `sha256:` and 64 digits, of its bytes.
    pub digest: String,
    /// Its bytes.
    pub size: u64,
}

cacheable_result! {
    /// One page of skills.
    ListSkillsResult {
        /// The skills.
        skills: Vec<SkillEntry>,
        /// Where the next page begins.
        #[serde(skip_serializing_if = "Option::is_none")]
        next_cursor: Option<Cursor>,
    }
}

cacheable_result! {
    /// One skill.
    GetSkillResult {
        /// The skill.
        skill: SkillEntry,
    }
}

/// Params of looking up one skill.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GetSkillParams {
    /// The address of its manifest.
    pub uri: String,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// Params of reading a directory. The result is a page of resources.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReadDirectoryParams {
    /// Its address.
    pub uri: String,
    /// The page wanted; absent for the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
}

/// 1 to 64 of `a-z 0-9 -`, no hyphen at either end and no two in a row.
#[must_use]
pub fn is_skill_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !(name.starts_with('-') || name.ends_with('-') || name.contains("--"))
}

/// `sha256:` and 64 small hexadecimal digits.
#[must_use]
pub fn is_digest(text: &str) -> bool {
    let hex = text.strip_prefix("sha256:").unwrap_or_default();
    hex.len() == 64 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(value: Value) -> SkillEntry {
        serde_json::from_value(value).unwrap()
    }

    /// SKL-1, SKL-2: what an entry must be.
    #[test]
    fn entries_are_checked() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        let good = json!({
            "uri": "skill://acme/bake/SKILL.md", "frontmatter": { "name": "bake", "description": "Bread." },
            "resources": [{ "uri": "skill://acme/bake/SKILL.md", "digest": digest, "size": 5 }],
        });
        assert_eq!(entry(good.clone()).check(), []);
        assert_eq!(serde_json::to_value(entry(good.clone())).unwrap(), good);
        let rows = [
            ("/uri", json!("skill://acme/fry/SKILL.md"), "/uri"),
            ("/frontmatter/name", json!("Bake"), "/frontmatter"),
            ("/frontmatter/description", json!(""), "/frontmatter"),
            ("/resources/0/digest", json!("sha256:0"), "/resources"),
            ("/resources/0/uri", json!("skill://acme/bakery"), "/resources"),
        ];
        for (place, value, flaw) in rows {
            let mut odd = good.clone();
            *odd.pointer_mut(place).unwrap() = value;
            assert!(entry(odd).check().iter().any(|found| found.at == flaw), "{place}");
        }
        let mut odd = good.clone();
        odd["resources"] = json!("dynamic");
        assert_eq!(entry(odd.clone()).check(), []);
        odd["resources"] = json!("none");
        assert!(serde_json::from_value::<SkillEntry>(odd).is_err());
    }

    /// SKL-1: names.
    #[test]
    fn names_are_plain() {
        for good in ["a", "pdf-processing", "x2"] {
            assert!(is_skill_name(good), "{good}");
        }
        for bad in ["", "-a", "a-", "a--b", "A", "a_b", "ä", &"a".repeat(65)] {
            assert!(!is_skill_name(bad), "{bad}");
        }
    }
}
