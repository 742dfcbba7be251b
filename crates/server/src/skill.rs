//! Skills: instructions for models with the files they need, served as resources.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use cardan_proto::jsonrpc::envelope::Call;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::limits::Limits;
use cardan_proto::model::skill::{
    DIRECTORY_TYPE, GetSkillParams, GetSkillResult, MANIFEST, ReadDirectoryParams, SkillEntry, SkillFile,
    SkillFiles, is_skill_name,
};
use cardan_proto::model::{Cursor, Flaw, ListResourcesResult, Resource, ResourceContents};
use orion::hazardous::hash::sha2::sha256::Sha256;
use serde_json::{Map, Value, json};

use crate::cx::Cx;
use crate::registry::Registry;
use crate::router::{bad_cursor, decode, encode};

/// A skill: a manifest, `SKILL.md`, and the files that it speaks of.
///
/// ```
/// use cardan_server::Skill;
///
/// let skill = Skill::new("bake-bread", "Bakes a loaf. Use when someone is hungry.", "Mix, wait, bake.\n")
///     .file("references/flour.md", "text/markdown", "Any will do.\n");
/// # let _ = skill;
/// ```
#[derive(Debug, Clone)]
pub struct Skill {
    name: String,
    head: Map<String, Value>,
    body: String,
    files: BTreeMap<String, (String, Bytes)>,
}

impl Skill {
    /// By name, what it is for, and the instructions themselves.
    pub fn new(name: impl Into<String>, description: impl Into<String>, body: impl Into<String>) -> Self {
        let (name, mut head) = (name.into(), Map::new());
        head.insert("name".to_owned(), json!(name));
        head.insert("description".to_owned(), json!(description.into()));
        Self { name, head, body: body.into(), files: BTreeMap::new() }
    }

    /// With one more line in the head of the manifest, such as `license` or `compatibility`.
    #[must_use]
    pub fn field(mut self, key: &str, text: &str) -> Self {
        self.head.insert(key.to_owned(), json!(text));
        self
    }

    /// With a file at a path inside the skill.
    #[must_use]
    pub fn file(mut self, path: &str, mime_type: &str, contents: impl Into<Bytes>) -> Self {
        self.files.insert(path.to_owned(), (mime_type.to_owned(), contents.into()));
        self
    }

    /// The manifest as it is read. Its head is YAML, of which quoted JSON text is a part.
    fn manifest(&self) -> String {
        let lines = self.head.iter().map(|(key, value)| format!("{key}: {value}\n"));
        format!("---\n{}---\n\n{}", lines.collect::<String>(), self.body)
    }

    /// What is wrong with it.
    fn check(&self, limits: &Limits) -> Result<(), Flaw> {
        if !is_skill_name(&self.name) {
            return Err(Flaw::at("name", "is not 1 to 64 of the characters a-z 0-9 -"));
        }
        if self.head["description"] == "" {
            return Err(Flaw::at("description", "is empty"));
        }
        let plain = |key: &String| key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        if let Some(key) = self.head.keys().find(|key| key.is_empty() || !plain(key)) {
            return Err(Flaw::at(key, "is no key for the head of a manifest"));
        }
        let is_path = |path: &String| {
            *path != MANIFEST
                && path.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~/".contains(&b))
                && path.split('/').all(|step| !matches!(step, "" | "." | ".."))
        };
        if let Some(path) = self.files.keys().find(|path| !is_path(path)) {
            return Err(Flaw::at(path, "is no path inside a skill"));
        }
        let bytes: usize = self.files.values().map(|(_, contents)| contents.len()).sum();
        if self.files.len() >= limits.skill_files || bytes + self.manifest().len() > limits.skill_bytes {
            return Err(Flaw::here("there are too many files, or too large ones"));
        }
        Ok(())
    }

    /// Puts the skill and its files where they are found.
    pub(crate) fn put_into(self, registry: &mut Registry, limits: &Limits) -> Result<(), Flaw> {
        self.check(limits)?;
        let manifest = Bytes::from(self.manifest());
        let folder = format!("skill://{}/", self.name);
        let uri = format!("{folder}{MANIFEST}");
        let described = self.head["description"].as_str().map(str::to_owned);
        let mut listed = vec![keep(&uri, &self.name, described, "text/markdown", manifest, registry)];
        for (path, (mime_type, contents)) in self.files {
            listed.push(keep(&format!("{folder}{path}"), &path, None, &mime_type, contents, registry));
        }
        let entry =
            SkillEntry { uri: uri.clone(), frontmatter: self.head, resources: SkillFiles::Listed(listed) };
        registry.skills.put(&uri, entry);
        Ok(())
    }
}

/// Makes a file a resource, and tells how it can be recognised.
fn keep(
    uri: &str,
    name: &str,
    description: Option<String>,
    mime_type: &str,
    contents: Bytes,
    registry: &mut Registry,
) -> SkillFile {
    let size = contents.len() as u64;
    let digest = digest(&contents);
    let resource = Resource {
        description,
        mime_type: Some(mime_type.to_owned()),
        size: Some(size),
        ..Resource::new(uri, name)
    };
    let read = match std::str::from_utf8(&contents) {
        Ok(text) => ResourceContents::text(uri, text),
        Err(_) => ResourceContents::blob(uri, &contents),
    };
    let read = read.with_mime_type(mime_type);
    let reader = move |_: Cx| {
        let read = read.clone();
        async move { Ok(vec![read]) }
    };
    registry.resources.put(uri, (resource, Arc::new(reader)));
    SkillFile { uri: uri.to_owned(), digest, size }
}

fn digest(contents: &[u8]) -> String {
    let digest = Sha256::digest(contents).expect("no file is longer than what the hash can take");
    let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// One skill by the address of its manifest.
pub(crate) fn get(registry: &Registry, call: &Call, may: impl Fn(&str) -> bool) -> Result<Bytes, Fault> {
    let params: GetSkillParams = decode(call)?;
    let skill = registry.skills.get(&params.uri).filter(|_| may(&params.uri)).cloned();
    let skill = skill.ok_or_else(|| Fault::invalid_params("params.uri: no such skill; see skills/list"))?;
    encode(&GetSkillResult { skill, ..GetSkillResult::default() })
}

/// The direct children of a directory of a skill.
pub(crate) fn read_directory(
    registry: &Registry,
    call: &Call,
    size: usize,
    may: impl Fn(&str) -> bool,
) -> Result<Bytes, Fault> {
    let params: ReadDirectoryParams = decode(call)?;
    let folder = format!("{}/", params.uri.trim_end_matches('/'));
    let mut children = children(registry, &folder);
    children.retain(|child| may(&child.uri));
    if children.is_empty() {
        return Err(Fault::invalid_params("params.uri: no directory of a skill"));
    }
    let from = match params.cursor {
        None => 0,
        Some(cursor) => {
            let last = URL_SAFE_NO_PAD.decode(cursor.0.as_str()).unwrap_or_default();
            let found = children.iter().position(|child| child.uri.as_bytes() == last);
            found.ok_or_else(bad_cursor)? + 1
        }
    };
    let to = (from + size).min(children.len());
    let next = children[from..to].last().filter(|_| to < children.len());
    let next_cursor = next.map(|last| Cursor(URL_SAFE_NO_PAD.encode(&last.uri)));
    let resources = children[from..to].to_vec();
    encode(&ListResourcesResult { resources, next_cursor, ..ListResourcesResult::default() })
}

fn children(registry: &Registry, folder: &str) -> Vec<Resource> {
    // Above a skill there is nothing to be read: what lies there is an address, not a directory.
    let within =
        |skill: &&SkillEntry| skill.uri.strip_suffix(MANIFEST).is_some_and(|root| folder.starts_with(root));
    let files = registry.skills.iter().filter(within).flat_map(|skill| match &skill.resources {
        SkillFiles::Dynamic => [].iter(),
        SkillFiles::Listed(files) => files.iter(),
    });
    let mut out: Vec<Resource> = Vec::new();
    for (file, path) in files.filter_map(|file| Some((file, file.uri.strip_prefix(folder)?))) {
        let child = match path.split_once('/') {
            None => registry.resources.get(&file.uri).map(|(resource, _)| resource.clone()),
            Some((name, _)) => {
                let directory = Some(DIRECTORY_TYPE.to_owned());
                Some(Resource { mime_type: directory, ..Resource::new(format!("{folder}{name}"), name) })
            }
        };
        out.extend(child.filter(|child| !out.iter().any(|known| known.uri == child.uri)));
    }
    out
}
