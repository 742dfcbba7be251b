//! A client over WebSocket, half of them modern.

use std::net::SocketAddr;

use anyhow::{bail, ensure};
use cardan_proto::era::{Era, Revision};
use cardan_sim::rng::Rng;

use super::cast::{Farewell, Next, Player, tool};
use super::ledger::{Calls, Deed, Kind, Taken};
use crate::raw::say::{INITIALIZED, call, initialize, modern_call};
use crate::raw::socket::{Message, Socket};

/// The client.
pub(crate) struct Ws {
    socket: Socket,
    calls: Calls,
    era: Era,
}

impl Player for Ws {
    const KIND: Kind = Kind::Socket;

    async fn open(address: SocketAddr, calls: Calls, rng: &mut Rng) -> anyhow::Result<Self> {
        let mut socket = Socket::open(address).await?;
        let era = rng.pick(&[Era::Legacy, Era::Modern]);
        if era == Era::Legacy {
            socket.send(&initialize(Revision::LATEST_LEGACY)).await?;
            let opened = socket.next().await?;
            let is_open = matches!(&opened, Message::Text(text) if text.starts_with(b"{"));
            ensure!(is_open, "initialize: {opened:?}");
            socket.send(INITIALIZED).await?;
        }
        Ok(Self { socket, calls, era })
    }

    fn calls(&mut self) -> &mut Calls {
        &mut self.calls
    }

    async fn act(&mut self, rng: &mut Rng) -> anyhow::Result<Next> {
        let at_once = if rng.percent(80) { 1 } else { 4 };
        for _ in 0..at_once {
            let message = self.begin(rng);
            self.socket.send(&message).await?;
        }
        let mut replies = 0;
        while replies < at_once {
            let Message::Text(text) = self.socket.next().await? else { bail!("the server said goodbye") };
            match self.calls.take(std::str::from_utf8(&text)?) {
                Taken::Reply(_) => replies += 1,
                Taken::Note => {}
                other => bail!("{other:?} on the WebSocket"),
            }
        }
        Ok(Next::Stay)
    }

    async fn leave(mut self, how: Farewell) -> anyhow::Result<()> {
        match how {
            Farewell::Polite => {
                self.socket.close().await?;
                let answer = self.socket.next().await?;
                ensure!(answer == Message::Close, "no goodbye but {answer:?}");
            }
            Farewell::Vanish => {
                self.socket.send_half(INITIALIZED).await?;
                self.calls.did(Deed::Half);
            }
            Farewell::VanishCalling => {
                let message = self.begin(&mut Rng::seeded(1));
                self.socket.send(&message).await?;
                self.calls.cut();
            }
        }
        Ok(())
    }
}

impl Ws {
    fn begin(&mut self, rng: &mut Rng) -> String {
        let (id, nonce) = self.calls.begin();
        let (_, params) = tool(rng, &nonce);
        match self.era {
            Era::Modern => modern_call(id, "tools/call", &params),
            _ => call(id, "tools/call", &format!(r#"{params},"_meta":{{"progressToken":{id}}}"#)),
        }
    }
}
