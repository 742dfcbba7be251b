//! The matrix as a picture: a row for each client, a column for each server.

use std::fmt::Write as _;

use super::{
    Judged,
    cast::Side,
    judge::{Cell, Standing},
};

/// The side of a cell, and what is between two of them.
const CELL: usize = 14;
const GAP: usize = 2;
/// Between the columns or rows of two kits.
const KIT_GAP: usize = 8;
/// Room for the names of clients and of servers.
const LEFT: usize = 230;
const TOP: usize = 190;
const BOTTOM: usize = 66;
const MARGIN: usize = 14;
/// How far the slanting names reach beyond the last column.
const SLANT: usize = 90;

const GREEN: &str = "#2da44e";
const AMBER: &str = "#9be9a8";
const SAND: &str = "#d4a72c";
const RED: &str = "#cf222e";
const EMPTY: &str = "#eaeef2";

/// The picture, as SVG.
pub(super) fn svg(clients: &[Side], servers: &[Side], judged: &Judged) -> String {
    let (rows, height) = places(clients, TOP);
    let (columns, width) = places(servers, LEFT);
    let (width, height) = (width + SLANT, height + BOTTOM);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"11\" fill=\"#24292f\">\n\
         <title>Every client through Cardan to every server</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#ffffff\"/>\n"
    );
    for (client, y) in clients.iter().zip(&rows) {
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            LEFT - 8,
            y + CELL - 3,
            client.label()
        );
    }
    for (server, x) in servers.iter().zip(&columns) {
        let (x, y) = (x + CELL - 3, TOP - 8);
        let _ = writeln!(out, "<text transform=\"translate({x} {y}) rotate(-60)\">{}</text>", server.label());
    }
    for (client, y) in clients.iter().zip(&rows) {
        for (server, x) in servers.iter().zip(&columns) {
            let cell = judged.get(&(*client, *server));
            let _ = writeln!(
                out,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{CELL}\" height=\"{CELL}\" rx=\"2\" fill=\"{}\"><title>{} to {}: {}</title></rect>",
                colour(cell),
                client.label(),
                server.label(),
                said(cell)
            );
        }
    }
    legend(&mut out, height);
    out.push_str("</svg>\n");
    out
}

/// Where each of the sides stands, and where the last one ends.
fn places(sides: &[Side], from: usize) -> (Vec<usize>, usize) {
    let (mut at, mut kit, mut places) = (from, sides.first().map(|side| side.kit), Vec::new());
    for side in sides {
        if Some(side.kit) != kit.replace(side.kit) {
            at += KIT_GAP;
        }
        places.push(at);
        at += CELL + GAP;
    }
    (places, at)
}

fn colour(cell: Option<&Cell>) -> &'static str {
    match cell.map(Cell::standing) {
        None => EMPTY,
        Some(Standing::Green) => GREEN,
        Some(Standing::Limit) => AMBER,
        Some(Standing::Second | Standing::OneSided) => SAND,
        Some(Standing::Failed) => RED,
    }
}

fn said(cell: Option<&Cell>) -> String {
    let Some(cell) = cell else { return "not run".to_owned() };
    let mut said = format!("{} checks passed", cell.passed);
    let mut say = |what: &str, checks: Vec<&str>| {
        if !checks.is_empty() {
            let _ = write!(said, "; {what}: {}", checks.join(", "));
        }
    };
    let explained = |strangers: bool| {
        let seen = cell.explained.iter().filter(|(_, seen)| seen.among_strangers() == strangers);
        seen.map(|(check, _)| *check).collect()
    };
    say("a limit of the peers", explained(true));
    say("seen with Cardan on one side only", explained(false));
    say("at the second try", cell.second.iter().map(|(check, ..)| *check).collect());
    say("failed", cell.failed.iter().map(|(check, _)| *check).collect());
    said
}

fn legend(out: &mut String, height: usize) {
    let rows = [
        [
            (GREEN, "everything works through Cardan"),
            (AMBER, "everything but what the peers cannot do without Cardan either"),
        ],
        [
            (SAND, "at the second try, or as seen with Cardan on one side only"),
            (RED, "fails because of Cardan"),
        ],
    ];
    for (row, y) in rows.into_iter().zip([height - 44, height - 24]) {
        let mut x = MARGIN;
        for (colour, text) in row {
            let _ = writeln!(
                out,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{CELL}\" height=\"{CELL}\" rx=\"2\" fill=\"{colour}\"/><text x=\"{}\" y=\"{}\">{text}</text>",
                x + CELL + 6,
                y + CELL - 3
            );
            x += CELL + 6 + text.len() * 6 + 18;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interop::{cast, witness::Seen};

    /// A cell for each pair, coloured by what became of it.
    #[test]
    fn a_cell_shows_what_became_of_it() {
        let (clients, servers) = (&cast::clients()[..2], &cast::servers()[..3]);
        let mut judged = Judged::new();
        judged.insert((clients[0], servers[0]), Cell { passed: 20, ..Cell::default() });
        let seen = Seen { pair: (clients[0], servers[1]), why: "no such thing".to_owned() };
        let limit = vec![("sample", seen)];
        judged.insert((clients[0], servers[1]), Cell { passed: 19, explained: limit, ..Cell::default() });
        let fault = vec![("cancel", "never heard of".to_owned())];
        judged.insert((clients[1], servers[0]), Cell { passed: 19, failed: fault, ..Cell::default() });
        let late = vec![("log", "no answer".to_owned(), None)];
        judged.insert((clients[1], servers[1]), Cell { passed: 20, second: late, ..Cell::default() });
        let svg = svg(clients, servers, &judged);
        let count = |colour: &str| svg.matches(&format!("fill=\"{colour}\"><title>")).count();
        assert_eq!([GREEN, AMBER, SAND, RED, EMPTY].map(count), [1, 1, 1, 1, 2], "{svg}");
        for said in ["a limit of the peers: sample", "at the second try: log", "failed: cancel"] {
            assert!(svg.contains(said), "{said}: {svg}");
        }
    }
}
