//! Skills of the server: listed, and read with every check that their entries allow.
//!
//! Nothing is read before it is wanted, and nothing that differs from its entry is handed out.

use cardan_proto::method::Method;
use cardan_proto::model::frontmatter;
use cardan_proto::model::resource::ResourceContents;
use cardan_proto::model::skill::{
    GetSkillParams, GetSkillResult, ListSkillsResult, ReadDirectoryParams, SkillEntry, SkillFiles,
};
use cardan_proto::model::{ListResourcesResult, Resource};
use cardan_proto::session::event::CallOptions;
use orion::hazardous::hash::sha2::sha256::Sha256;

use crate::caller::{Caller, decode, encode};
use crate::error::CallError;

impl Caller {
    /// All skills of all pages. None of their files is read.
    pub async fn all_skills(&self) -> Result<Vec<SkillEntry>, CallError> {
        self.pages::<ListSkillsResult>(Method::SkillsList).all().await
    }

    /// One skill by the address of its manifest.
    pub async fn skill(&self, uri: &str) -> Result<SkillEntry, CallError> {
        let params = encode(&GetSkillParams { uri: uri.to_owned(), meta: None })?;
        let raw = self.raw(Method::SkillsGet, Some(params), CallOptions::default()).await?;
        decode::<GetSkillResult>(&raw).map(|result| result.skill)
    }

    /// The manifest of a skill, if it is what the entry says: size, digest and head.
    pub async fn load_skill(&self, skill: &SkillEntry) -> Result<String, CallError> {
        if let Some(flaw) = skill.check().first() {
            return Err(CallError::Unverified(format!("{}: {flaw}", skill.uri)));
        }
        let bytes = self.read_skill_file(skill, &skill.uri).await?;
        let refused = |why: &str| CallError::Unverified(format!("{}: {why}", skill.uri));
        let text = String::from_utf8(bytes).map_err(|_| refused("not text"))?;
        let head = frontmatter::read(&text).map_err(|flaw| refused(&flaw.to_string()))?;
        if head != skill.frontmatter {
            return Err(refused("its head is not the one that was listed"));
        }
        Ok(text)
    }

    /// A file of a skill, if it is what the entry says.
    pub async fn read_skill_file(&self, skill: &SkillEntry, uri: &str) -> Result<Vec<u8>, CallError> {
        let refused = |why: &str| CallError::Unverified(format!("{uri}: {why}"));
        let file = skill.file(uri);
        if file.is_none() && skill.resources != SkillFiles::Dynamic {
            return Err(refused("the skill does not list it"));
        }
        let read = self.read(uri).await?;
        let contents = read.contents.into_iter().find(|contents| match contents {
            ResourceContents::Text(text) => text.uri == uri,
            ResourceContents::Blob(blob) => blob.uri == uri,
        });
        let bytes = match contents {
            Some(ResourceContents::Text(text)) => text.text.into_bytes(),
            Some(ResourceContents::Blob(blob)) => blob.bytes().map_err(|_| refused("not base64"))?,
            None => return Err(refused("the server read something else")),
        };
        match file {
            Some(file) if file.size != bytes.len() as u64 => {
                Err(refused("its size is not the one that was listed"))
            }
            Some(file) if file.digest != digest(&bytes) => {
                Err(refused("its digest is not the one that was listed"))
            }
            _ => Ok(bytes),
        }
    }

    /// The direct children of a directory of a skill, where the server reads directories.
    pub async fn read_directory(&self, uri: &str) -> Result<Vec<Resource>, CallError> {
        let (mut out, mut cursor) = (Vec::new(), None);
        for _ in 0..self.max_pages() {
            let params = encode(&ReadDirectoryParams { uri: uri.to_owned(), cursor, meta: None })?;
            let raw = self.raw(Method::DirectoryRead, Some(params), CallOptions::default()).await?;
            let page: ListResourcesResult = decode(&raw)?;
            out.extend(page.resources);
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(out);
            }
        }
        Err(CallError::Endless(format!("more than {} pages", self.max_pages())))
    }
}

fn digest(bytes: &[u8]) -> String {
    // A file that the hash cannot take equals no digest.
    let hex = Sha256::digest(bytes)
        .map(|digest| digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    format!("sha256:{}", hex.unwrap_or_default())
}
