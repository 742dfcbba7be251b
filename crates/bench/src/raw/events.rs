//! A stream of events, read by hand from an answer in chunks.

use std::net::SocketAddr;

use anyhow::{Context as _, ensure};

use super::http::{Conn, Form, Head};

/// One event.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) name: Option<String>,
    pub(crate) id: Option<String>,
    pub(crate) data: String,
}

/// A connection whose answer is a stream of events.
pub(crate) struct Events {
    conn: Conn,
    text: String,
    /// The id of the last event, to resume from.
    last: Option<String>,
}

impl Events {
    /// The stream that begins after this head.
    pub(crate) fn new(conn: Conn) -> Self {
        Self { conn, text: String::new(), last: None }
    }

    /// Opens one.
    pub(crate) async fn open(address: SocketAddr, request: &str) -> anyhow::Result<Self> {
        let mut conn = Conn::open(address).await?;
        conn.send(request.as_bytes()).await?;
        let head = conn.head().await?;
        ensure!(is_stream(&head), "no stream of events but {head:?}");
        Ok(Self::new(conn))
    }

    /// The next event; nothing: the stream has ended. Comments are passed over.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<Event>> {
        loop {
            if let Some(event) = self.at_hand() {
                return Ok(Some(event));
            }
            let Some(chunk) = self.conn.chunk().await? else { return Ok(None) };
            self.take(&chunk)?;
        }
    }

    /// Waits until the server has said anything, comments included.
    pub(crate) async fn sign(&mut self) -> anyhow::Result<()> {
        let chunk = self.conn.chunk().await?.context("the stream ended at once")?;
        self.take(&chunk)
    }

    /// The events that have arrived, without waiting.
    pub(crate) fn arrived(&mut self) -> anyhow::Result<Vec<Event>> {
        self.conn.catch_up()?;
        while let Some(chunk) = self.conn.chunk_at_hand()? {
            if chunk.is_empty() {
                break;
            }
            self.take(&chunk)?;
        }
        Ok(std::iter::from_fn(|| self.at_hand()).collect())
    }

    /// Where to resume.
    pub(crate) fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }

    /// The connection, whose answer was read to its end.
    pub(crate) fn into_conn(self) -> Conn {
        self.conn
    }

    fn take(&mut self, chunk: &[u8]) -> anyhow::Result<()> {
        // Our server ends chunks where events end, so a character is never cut.
        self.text.push_str(std::str::from_utf8(chunk).context("events that are no text")?);
        Ok(())
    }

    fn at_hand(&mut self) -> Option<Event> {
        loop {
            let end = self.text.find("\n\n")?;
            let block: String = self.text.drain(..end + 2).collect();
            if let Some(event) = parse(&block) {
                if event.id.is_some() {
                    self.last.clone_from(&event.id);
                }
                return Some(event);
            }
        }
    }
}

/// Is the answer a stream?
pub(crate) fn is_stream(head: &Head) -> bool {
    head.status == 200 && head.form == Form::Events
}

fn parse(block: &str) -> Option<Event> {
    let mut event = Event::default();
    let mut fields = 0;
    for line in block.lines().filter(|line| !line.is_empty() && !line.starts_with(':')) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        fields += 1;
        match name {
            "event" => event.name = Some(value.to_owned()),
            "id" => event.id = Some(value.to_owned()),
            "data" => event.data.push_str(value),
            _ => {}
        }
    }
    (fields > 0).then_some(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_and_comments_are_not() {
        assert_eq!(parse(":\n\n"), None);
        let event = parse("event: message\nid: 7\ndata: {}\n\n").expect("an event");
        let want =
            Event { name: Some("message".to_owned()), id: Some("7".to_owned()), data: "{}".to_owned() };
        assert_eq!(event, want);
    }
}
