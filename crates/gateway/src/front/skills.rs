//! Skills: looked up at whoever lists them, and their directories where they lie.
//!
//! They are listed with everything else. What they are made of are resources, so who may not read a file does not see it in its
//! directory either, nor among the files of its skill.

use std::sync::Arc;

use bytes::Bytes;
use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::jsonrpc::splice::{Edit, member_of, splice};
use cardan_proto::method::Method;
use cardan_proto::model::raw::Raw;
use cardan_proto::model::skill::MANIFEST;
use cardan_proto::session::event::{Answer, Called};
use cardan_runtime::cx::CallCx;

use super::desk::{Station, address};
use super::several::{self, Missing};
use super::view::View;
use super::waiting::Waited;
use crate::catalog::Kind;
use crate::fleet::Upstream;
use crate::merge::Shown;

/// What is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// What is said of one skill.
    Skill,
    /// What lies in a directory of one.
    Directory,
}

/// A skill, or a directory of one, by whoever has it.
pub(super) async fn ask(station: &Arc<Station>, cx: CallCx, called: Called) -> Result<Answer, Fault> {
    let uri = address(&called)?;
    let wanted = match called.call.method {
        Method::DirectoryRead => Wanted::Directory,
        _ => Wanted::Skill,
    };
    station.front.settled().await;
    station.preceded(Kind::Skills, &uri).await;
    let mut having = having(&station.view(), &uri, wanted);
    if having.likely.is_none() && station.front.all_known().await? == Waited::Yes {
        having = self::having(&station.view(), &uri, wanted);
    }
    let servers = having.likely.map_or(having.others, |at| vec![at]);
    let mut missing = Missing::default();
    let Some((upstream, answer)) = several::first(station, &cx, &called, &servers, &mut missing).await else {
        return Err(missing.0.unwrap_or_else(|| {
            station.missed(&[Kind::Skills], &uri);
            nowhere(wanted)
        }));
    };
    seen(&station.view(), &upstream, answer, |view, at, result| match wanted {
        Wanted::Skill => Ok(skill(view, at, result)),
        Wanted::Directory => directory(view, at, Page::of(&called), result),
    })
}

fn nowhere(wanted: Wanted) -> Fault {
    Fault::invalid_params(match wanted {
        Wanted::Skill => "params.uri: no such skill; see skills/list",
        Wanted::Directory => "params.uri: no directory of a skill",
    })
}

/// Who may have it.
struct Having {
    /// Whose it is, by what is listed.
    likely: Option<Arc<Upstream>>,
    /// Not all that can be looked up need be listed.
    others: Vec<Arc<Upstream>>,
}

fn having(view: &View, uri: &str, wanted: Wanted) -> Having {
    let able = |at: &usize| {
        let skills = view.known[*at].skills();
        skills.is_some_and(|skills| wanted == Wanted::Skill || skills["directoryRead"] == true)
    };
    let folder = format!("{}/", uri.trim_end_matches('/'));
    // Skills may lie in others: a directory is of the innermost. The first that is listed comes first.
    let depth = |key: &str| match wanted {
        Wanted::Skill => (key == uri).then_some(0),
        Wanted::Directory => root(key).filter(|root| folder.starts_with(root)).map(str::len),
    };
    let listed = view.merged.list(Kind::Skills).iter().rev();
    let listed = listed.filter_map(|shown| Some((depth(&shown.key)?, shown.route.source)));
    let likely = listed.max_by_key(|(depth, _)| *depth).map(|(_, source)| source).filter(able);
    // A directory is hidden as all that lies in it would be; what is left of it is looked at one by one.
    let at = if wanted == Wanted::Directory { &*folder } else { uri };
    let shown = |source: &usize| view.shows_at(*source, at);
    let likely = likely.filter(shown);
    let others = (0..view.known.len()).filter(|source| able(source) && shown(source));
    let upstream = |at: usize| Arc::clone(&view.known[at].upstream);
    Having { likely: likely.map(upstream), others: others.map(upstream).collect() }
}

/// The directory of the skill that has this manifest.
fn root(manifest: &str) -> Option<&str> {
    manifest.strip_suffix(MANIFEST).filter(|root| root.ends_with('/'))
}

/// Which page of a directory is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Page {
    First,
    Later,
}

impl Page {
    fn of(called: &Called) -> Self {
        let cursor = called.call.params.raw().and_then(|raw| member_of(raw, "cursor").ok().flatten());
        if cursor.is_some() { Self::Later } else { Self::First }
    }
}

/// An answer with what may be seen of it, by a server that is still there.
fn seen(
    view: &View,
    upstream: &Arc<Upstream>,
    answer: Answer,
    left: impl Fn(&View, usize, Bytes) -> Result<Bytes, Fault>,
) -> Result<Answer, Fault> {
    let at = view.known.iter().position(|known| Arc::ptr_eq(&known.upstream, upstream));
    let Some(at) = at else { return Err(Fault::internal("the server has just gone; try again")) };
    Ok(match answer {
        Answer::Done(result) => Answer::Done(left(view, at, result)?),
        Answer::Sealed(result) => Answer::Sealed(left(view, at, result)?),
        Answer::Bare(result) => Answer::Bare(left(view, at, result)?),
        other => other,
    })
}

/// What is said of one skill, with the files that may be seen.
fn skill(view: &View, at: usize, result: Bytes) -> Bytes {
    const MEMBER: &str = "skill";
    let entry = member_of(&result, MEMBER).ok().flatten();
    match entry.map(|entry| sifted(view, at, &entry)) {
        Some(Sifted::Less(entry)) => splice(&result, &[Edit::Set(MEMBER, &entry)]).unwrap_or_default(),
        _ => result,
    }
}

/// What is listed of a skill, in place of what its server says, where not all of its files may be seen.
pub(super) fn words(view: &View, shown: &Shown) -> Option<Bytes> {
    match sifted(view, shown.route.source, &Bytes::copy_from_slice(shown.raw.as_str().as_bytes())) {
        Sifted::Less(entry) => Some(entry),
        Sifted::All => None,
    }
}

/// What lies in a directory, as far as it may be seen. One of which nothing may be seen is none.
fn directory(view: &View, at: usize, page: Page, result: Bytes) -> Result<Bytes, Fault> {
    let Sifted::Less(left) = sifted(view, at, &result) else { return Ok(result) };
    let nothing = member_of(&left, RESOURCES).ok().flatten().is_none_or(|left| &*left == b"[]");
    let more = member_of(&left, "nextCursor").ok().flatten().is_some();
    if nothing && page == Page::First && !more {
        return Err(nowhere(Wanted::Directory));
    }
    Ok(left)
}

/// What is left of an object when the resources are taken out that may not be seen.
enum Sifted {
    All,
    Less(Bytes),
}

/// Where the resources are.
const RESOURCES: &str = "resources";

fn sifted(view: &View, at: usize, object: &Bytes) -> Sifted {
    #[derive(serde::Deserialize)]
    struct Child {
        uri: Box<str>,
    }
    let children = member_of(object, RESOURCES).ok().flatten();
    // Those that change are not listed.
    let Some(children) = children.and_then(|raw| serde_json::from_slice::<Vec<Raw>>(&raw).ok()) else {
        return Sifted::All;
    };
    let shown = |child: &&Raw| child.read().is_ok_and(|child: Child| view.shows_at(at, &child.uri));
    let left: Vec<&str> = children.iter().filter(shown).map(Raw::as_str).collect();
    if left.len() == children.len() {
        return Sifted::All;
    }
    let left = format!("[{}]", left.join(","));
    Sifted::Less(splice(object, &[Edit::Set(RESOURCES, left.as_bytes())]).unwrap_or_default())
}
