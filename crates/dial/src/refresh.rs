//! A tool call whose mirrored headers do not fit: the tools are listed anew, by the link itself.

use bytes::Bytes;
use cardan_proto::finding::Strictness;
use cardan_proto::http::headers::{Content, content};
use cardan_proto::jsonrpc::envelope::{self, Call, Decoded, Envelope, MetaKey, Param, Params};
use cardan_proto::jsonrpc::id::CallId;
use cardan_proto::jsonrpc::splice::{Edit, member_of, splice};
use cardan_proto::jsonrpc::write;
use cardan_proto::method::Method;
use http::Method as Verb;

use crate::body;
use crate::exchange::{self, CallPost, Fallback, Mending, News, Wire};
use crate::lane::{Item, Lane};
use crate::mirrors::{Listing, Tools};

/// Lists the tools in the name of the call, then sends it again. `refused` is its answer if that fails.
pub(crate) async fn mend(wire: &Wire, post: &CallPost, refused: Bytes) {
    match list(wire, post).await.and_then(|tools| again(wire, post, &tools)) {
        Some(post) => exchange::call(wire.clone(), post).await,
        None => wire.frame(refused).await,
    }
}

/// The same call, with the headers that its tool wants now.
fn again(wire: &Wire, post: &CallPost, tools: &Tools) -> Option<CallPost> {
    let head = post.heads.call(&post.call, tools, &wire.limits).ok()?;
    Some(CallPost {
        url: post.url.clone(),
        call: post.call.clone(),
        frame: post.frame,
        headers: head.headers,
        body: post.body.clone(),
        era: post.era,
        session: None,
        heads: post.heads.clone(),
        parts: None,
        fallback: Fallback::None,
        mending: Mending::Done,
        odd: None,
    })
}

/// Every page of tools.
async fn list(wire: &Wire, post: &CallPost) -> Option<Tools> {
    let meta = meta_of(&post.call);
    let mut tools = Tools::default();
    let mut cursor = None;
    for page in 0..wire.limits.pages {
        let id = CallId::text(&format!("{}-tools-{page}", post.call.id));
        let listing = fetch(wire, post, id, &meta, cursor.as_deref()).await?;
        tools.learn(listing.kept.clone());
        wire.tell(News::Listed(listing.kept)).await;
        cursor = listing.cursor;
        if cursor.is_none() {
            return Some(tools);
        }
    }
    None
}

/// Who calls and which revision, as the call itself says; nothing of what it asks for.
fn meta_of(call: &Call) -> Bytes {
    let params = call.params.raw().cloned().unwrap_or_default();
    let meta = member_of(&params, Param::Meta.name()).ok().flatten().unwrap_or_else(|| "{}".into());
    splice(&meta, &[Edit::Drop(MetaKey::ProgressToken.name())]).unwrap_or(meta)
}

async fn fetch(
    wire: &Wire,
    post: &CallPost,
    id: CallId,
    meta: &[u8],
    cursor: Option<&str>,
) -> Option<Listing> {
    let mut params = b"{\"_meta\":".to_vec();
    params.extend_from_slice(meta);
    if let Some(cursor) = cursor {
        params.extend_from_slice(b",\"cursor\":");
        write::string(cursor, &mut params);
    }
    params.push(b'}');
    let params = Params::outgoing(Bytes::from(params));
    let call = Call { id, method: Method::ToolsList, params, strays: None };
    let head = post.heads.call(&call, &Tools::default(), &wire.limits).ok()?;
    let mut text = Vec::new();
    write::envelope(&Envelope::Call(call), &mut text);
    let sent = wire.pool.send(Verb::POST, post.url.clone(), head.headers, Bytes::from(text)).await;
    let response = sent.ok()?;
    if content(response.headers()) != Content::EventStream {
        let text = body::read(response.into_body(), wire.limits.frame_bytes).await.ok()?;
        return read(&text, wire);
    }
    let mut lane = Lane::new(response.into_body(), &wire.limits, "");
    loop {
        match lane.next().await {
            Item::Event(event) => match read(&event.data, wire) {
                Some(listing) => return Some(listing),
                None => continue,
            },
            Item::End(_) => return None,
            Item::Oversize(_) | Item::Cut(_) => {}
        }
    }
}

fn read(text: &Bytes, wire: &Wire) -> Option<Listing> {
    match envelope::decode(text, Strictness::Lenient, &wire.limits) {
        Decoded::One(Ok(Envelope::Reply(reply)), _) => Listing::read(&reply.outcome.ok()?),
        _ => None,
    }
}
