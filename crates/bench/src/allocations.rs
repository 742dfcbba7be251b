//! Allocations: of one envelope, and of one call there and back over the memory link.

use allocation_counter::measure;
use anyhow::Context as _;
use bytes::Bytes;
use cardan_client::Client;
use cardan_proto::finding::Strictness;
use cardan_proto::jsonrpc::envelope::{Decoded, decode};
use cardan_proto::limits::Limits;
use cardan_proto::method::Method;
use cardan_proto::session::config::EraChoice;
use cardan_proto::session::event::CallOptions;
use cardan_runtime::memory;
use cardan_server::Server;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::Figure;

/// 176 bytes, as a client would send it.
const CALL: &str = r#"{"jsonrpc":"2.0","id":42,"method":"tools/call","params":{"_meta":{"progressToken":"t-42"},"name":"search","arguments":{"query":"how do universal joints work","limit":10,"p":1}}}"#;

#[derive(Deserialize, JsonSchema)]
struct Echo {
    text: String,
}

pub(crate) fn figures() -> anyhow::Result<Vec<Figure>> {
    let frame = Bytes::from_static(CALL.as_bytes());
    let mut decoded = None;
    let envelope = measure(|| decoded = Some(decode(&frame, Strictness::Standard, &Limits::DEFAULT)));
    anyhow::ensure!(matches!(decoded, Some(Decoded::One(Ok(_), _))), "the call must decode");
    let what = format!("tools/call of {} bytes to an envelope", CALL.len());
    let mut figures = vec![Figure::new(what, envelope.count_total as f64, "allocations", Some(4.0))];
    for (era, name) in [(EraChoice::Legacy, "legacy"), (EraChoice::Modern, "modern")] {
        let per_call = round_trip(era).context("the round trip over the memory link")?;
        let what = format!("echo over the memory link, both sides, {name}");
        figures.push(Figure::new(what, per_call, "allocations", Some(40.0)));
    }
    Ok(figures)
}

fn round_trip(era: EraChoice) -> anyhow::Result<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (client, serving) = runtime.block_on(async {
        let (ours, theirs) = memory::pair(&Limits::DEFAULT);
        let server =
            Server::builder("bench", "1").tool("echo", "says it back", async |args: Echo| args.text).build();
        let serving = tokio::spawn(async move { server.serve(theirs).await });
        let client = Client::builder("bench", "1").era(era).connect_link(ours).await?;
        anyhow::Ok((client, serving))
    })?;
    let params =
        Bytes::from_static(br#"{"name":"echo","arguments":{"text":"hello there, universal joint"}}"#);
    let calls = |n: u32| {
        runtime.block_on(async {
            for _ in 0..n {
                client.raw(Method::ToolsCall, Some(params.clone()), CallOptions::default()).await?;
            }
            anyhow::Ok(())
        })
    };
    calls(100)?;
    let mut outcome = Ok(());
    let counted = measure(|| outcome = calls(100));
    outcome?;
    runtime.block_on(async { client.close("done").await });
    runtime.block_on(serving)?;
    Ok(counted.count_total as f64 / 100.0)
}
