//! `screenshot`: the command line as people see it, drawn from a real run at a real terminal.

mod screen;

use std::{
    fmt::Write as _,
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};

use self::screen::{Screen, Span, Style};
use crate::{
    args::Args,
    run::{cargo, say, succeed},
    walk,
};

/// Where README looks for it.
const PICTURE: &str = "docs/terminal.svg";

const COLUMNS: usize = 92;

/// What is typed, in this order.
const TYPED: [&str; 6] = [
    "cardan info -- cardan demo",
    "cardan list prompts -- npx -y @modelcontextprotocol/server-everything",
    "cardan call get-sum a=2 b=3 -- npx -y @modelcontextprotocol/server-everything",
    "cardan call get-sum a=2 -- npx -y @modelcontextprotocol/server-everything </dev/null",
    "cardan call note level=warning message='nearly out of paper' -- cardan demo",
    "cardan call panic -- cardan demo",
];

pub(crate) fn run(args: Args) -> Result<()> {
    args.finish()?;
    let root = walk::root();
    succeed(cargo(&root).args(["build", "--profile", "dist", "-p", "cardan-cli"]))?;
    let mut screen = Screen::new(COLUMNS);
    for line in TYPED {
        say(line);
        screen.prompt(line);
        screen.feed(&shown(&root, line)?);
    }
    fs::write(root.join(PICTURE), svg(&screen.lines()))?;
    say(&format!("{PICTURE} is drawn"));
    Ok(())
}

/// Everything that one line shows at a terminal, as it came.
fn shown(root: &Path, line: &str) -> Result<String> {
    let path = format!(
        "{}:{}",
        root.join("target/dist").display(),
        std::env::var("PATH").context("there is no PATH")?
    );
    let output = Command::new("script")
        .args(["--quiet", "--return", "--command"])
        .arg(format!("stty cols {COLUMNS}; {line}"))
        .arg("/dev/null")
        .current_dir(root)
        .env("PATH", path)
        .env("TERM", "xterm-256color")
        .env_remove("NO_COLOR")
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::null())
        .output()
        .context("cannot run `script`, which has a terminal to offer")?;
    ensure!(!output.stdout.is_empty(), "`{line}` showed nothing");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

const LINE: usize = 19;
const CHARACTER: f64 = 8.43;
const MARGIN: usize = 18;
const TITLE: usize = 34;

fn svg(lines: &[Vec<Span>]) -> String {
    let width = (CHARACTER * COLUMNS as f64) as usize + 2 * MARGIN;
    let height = TITLE + lines.len() * LINE + MARGIN;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, monospace\" font-size=\"14\" fill=\"#d0d7de\">\n\
         <title>The cardan command at a terminal</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#161b22\"/>\n"
    );
    for (at, colour) in ["#ff5f57", "#febc2e", "#28c840"].iter().enumerate() {
        let _ =
            writeln!(out, "<circle cx=\"{}\" cy=\"17\" r=\"6\" fill=\"{colour}\"/>", MARGIN + 4 + at * 20);
    }
    for (at, line) in lines.iter().enumerate() {
        let _ =
            write!(out, "<text x=\"{MARGIN}\" y=\"{}\" xml:space=\"preserve\">", TITLE + (at + 1) * LINE - 5);
        for span in line {
            let _ = write!(out, "<tspan{}>{}</tspan>", attributes(span.style), escaped(&span.text));
        }
        out.push_str("</text>\n");
    }
    out.push_str("</svg>\n");
    out
}

fn attributes(style: Style) -> String {
    let mut out = String::new();
    if let Some(colour) = style.colour {
        let _ = write!(out, " fill=\"{}\"", PALETTE[colour % PALETTE.len()]);
    }
    if style.bold {
        out.push_str(" font-weight=\"bold\"");
    }
    if style.dim {
        out.push_str(" opacity=\"0.65\"");
    }
    if style.underlined {
        out.push_str(" text-decoration=\"underline\"");
    }
    out
}

/// Black to white, then the bright ones.
const PALETTE: [&str; 16] = [
    "#484f58", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4", "#6e7681",
    "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#ffffff",
];

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
