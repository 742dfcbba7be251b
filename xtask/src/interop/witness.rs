//! Who can show that a failure is a peer's own: pairs that meet directly, and what was seen of them.
//!
//! Two strangers count most: the same client at the same server, then the same client at any other server, then any other
//! client at the same server. Runs with us on one side come last and are told apart: what fails there may be our fault.

use std::collections::BTreeSet;

use super::cast::{self, Kit, Side, Way};

/// A client and the server that it is at, by the same way in the same era.
pub(super) type Pair = (Side, Side);

/// What a pair without a bridge showed.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) pair: Pair,
    pub(super) why: String,
}

impl Seen {
    /// Who was at whom, and what came of it.
    pub(super) fn told(&self) -> String {
        let (from, to) = self.pair;
        let (era, way) = (to.era.name(), to.way.name());
        format!("{} directly at {}, {era}, {way}: {}", from.kit.name(), to.kit.name(), self.why)
    }

    /// Nobody in it is us.
    pub(super) fn among_strangers(&self) -> bool {
        among_strangers(self.pair)
    }
}

/// The pairs that tell something about a cell, the best first.
pub(super) fn pairs(client: Side, server: Side) -> Vec<Pair> {
    let (clients, servers) = (cast::clients(), cast::servers());
    let ways = [client.way, server.way, Way::Stdio];
    let same = ways.map(|way| (Side { way, ..client }, Side { way, ..server }));
    // Of a client that is us no other server tells anything, nor another client of a server that is.
    let elsewhere = servers.iter().filter(|_| is_stranger(client)).map(|to| (client, *to));
    let others = clients.iter().filter(|_| is_stranger(server)).map(|from| (*from, server));
    let meet = |(from, to): &Pair| {
        let alike = (from.era, from.way) == (to.era, to.way);
        alike && clients.contains(from) && servers.contains(to) && (is_stranger(*from) || is_stranger(*to))
    };
    let mut pairs = Vec::new();
    for pair in same.into_iter().chain(elsewhere).chain(others).filter(meet) {
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    pairs.sort_by_key(|pair| !among_strangers(*pair));
    pairs
}

fn is_stranger(side: Side) -> bool {
    side.kit != Kit::Ours
}

fn among_strangers((from, to): Pair) -> bool {
    is_stranger(from) && is_stranger(to)
}

/// Do two failures sound alike? Half of the words of the shorter one are in the other; sizes, times and places differ.
pub(super) fn alike(one: &str, other: &str) -> bool {
    let words = |text: &str| -> BTreeSet<String> {
        let parts = text.split(|c: char| !c.is_alphabetic()).filter(|word| word.len() > 2);
        parts.map(str::to_lowercase).collect()
    };
    let (one, other) = (words(one), words(other));
    let shared = one.intersection(&other).count();
    shared > 0 && 2 * shared >= one.len().min(other.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interop::cast::Era;

    fn side(kit: Kit, era: Era, way: Way) -> Side {
        Side { kit, era, way }
    }

    fn told(client: Side, server: Side) -> Vec<String> {
        let words = |(from, to): &Pair| format!("{} > {}", from.word(), to.kit.word());
        pairs(client, server).iter().map(words).collect()
    }

    /// The same two first, by the client's way, by the server's, then by stdio.
    #[test]
    fn the_same_client_at_the_same_server_counts_most() {
        let (client, server) =
            (side(Kit::Python1, Era::Legacy, Way::Events), side(Kit::Python2, Era::Legacy, Way::Http));
        let first = ["sse > python-v2", "http > python-v2", "stdio > python-v2"];
        assert_eq!(told(client, server)[..3], first.map(|pair| format!("python-v1:legacy:{pair}")));
    }

    /// Where the two have no era or no transport in common, the client is tried elsewhere and others at the server.
    #[test]
    fn other_strangers_are_asked_where_the_two_cannot_meet() {
        let (client, server) =
            (side(Kit::Node2, Era::Modern, Way::Http), side(Kit::Node1, Era::Legacy, Way::Events));
        let wanted = [
            "node-v2:modern:http > node-v2",
            "node-v2:modern:http > python-v2",
            "node-v2:modern:http > rmcp",
            "node-v1:legacy:sse > node-v1",
            "node-v2:legacy:sse > node-v1",
            "python-v1:legacy:sse > node-v1",
            "python-v2:legacy:sse > node-v1",
            "node-v2:modern:http > cardan",
            "cardan:legacy:sse > node-v1",
        ];
        assert_eq!(told(client, server), wanted);
    }

    /// At our own server the only strangers are those whom the client meets elsewhere.
    #[test]
    fn pairs_with_us_come_last() {
        let (client, ours) =
            (side(Kit::Python1, Era::Legacy, Way::Socket), side(Kit::Ours, Era::Legacy, Way::Socket));
        let wanted = ["ws > python-v1", "ws > cardan", "stdio > cardan"];
        assert_eq!(told(client, ours), wanted.map(|pair| format!("python-v1:legacy:{pair}")));
        for client in cast::clients() {
            for server in cast::servers() {
                let pairs = pairs(client, server);
                assert!(pairs.is_sorted_by_key(|pair| !among_strangers(*pair)), "{client:?} {server:?}");
                assert!(
                    pairs.iter().all(|(from, to)| is_stranger(*from) || is_stranger(*to)),
                    "{client:?} {server:?}: we are no witness for ourselves"
                );
            }
        }
    }

    #[test]
    fn failures_sound_alike_or_not() {
        let rows = [
            ("no answer within 10000 ms", "no answer within 10 s", true),
            (
                "ConnectionClosedError: sent 1009 (message too big) frame with 1048650 bytes exceeds limit of 1048576 bytes",
                "ConnectionClosedError: sent 1009 (message too big) frame exceeds limit of 1048576 bytes",
                true,
            ),
            (
                "MCPError: Connection closed",
                "MCPError: SSE stream failed: the event exceeded the limit",
                false,
            ),
            ("no answer within 10 s", "the server did not notice the cancel", false),
            ("", "", false),
        ];
        for (one, other, wanted) in rows {
            assert_eq!(alike(one, other), wanted, "{one} | {other}");
            assert_eq!(alike(other, one), wanted, "{other} | {one}");
        }
    }
}
