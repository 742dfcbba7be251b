//! Cardan's chores. `cargo xtask` lists them.

mod args;
mod autobahn;
mod chores;
mod conformance;
mod coverage;
mod dist;
mod fuzz;
mod interop;
mod lex;
mod mention;
mod peers;
mod rows;
mod run;
mod scan;
mod scope;
mod screenshot;
mod test;
mod tidy;
mod walk;

use std::{env, process::ExitCode};

use crate::args::Args;

const HELP: &str = "\
cargo xtask <chore>

  test                                    set up the peers, run every test
  peers                                   set up the peers alone
  coverage-of-requirements [--open] [--area A] [--require A]
                                          rows of docs/requirements with a test; A is a mark or an area,
                                          and required ones fail the chore while they are open
  conformance [--server|--client|--through [--behind B]] [--revision R] [--scenario S]
                                          the official suite; the server unless told otherwise; --through: the server
                                          behind a bridge, B is such as stdio or legacy-http
  interop [--quick] [--client C] [--server S] [--workers N] [--resume]
                                          every client through a bridge to every server; C and S are such as
                                          python-v2, python-v2:modern or python-v2:modern:http
  tidy                                    rules that no compiler checks
  fuzz [--seconds N] [--runs N] [--target T]
                                          feed the fuzz targets
  autobahn                                WebSocket conformance, both ends; needs Python 2.7
  dist                                    build what is given to others: the program, manual pages, completions
  screenshot                              draw docs/terminal.svg from commands that are run at a terminal
  sim [--seeds N]                         simulate sessions, notes, HTTP and fleets in a lossy world
  bench core|http|fleet|gateway|cli       measure the core, the HTTP server, many configured servers, a bridge, or one
                                          call from the command line
  soak [--sessions N] [--seconds S] [--calls N] [--seed N]
                                          a crowd of clients that break off at random: nothing may be lost or left
  soak --through                          a million replies of each upstream that a thousand clients share, behind a bridge
                                          and behind a gateway with keys, each sent twice: none foreign
  soak --kills                            a gateway whose server is killed a thousand times under load
  soak --stalled                          a thousand clients of a gateway, one of which reads nothing
  soak --slow                             a gateway of ten servers, one of which takes a minute for every call
  soak --cuts                             connections that break at every byte, before and behind a gateway
  soak --replicas                         a hundred thousand calls of sessions that three replicas share
";

fn main() -> ExitCode {
    let mut args = Args::new(env::args().skip(1));
    let done = match args.word().as_deref() {
        Some("test") => test::run(args),
        Some("peers") => peers::run(args),
        Some("coverage-of-requirements") => coverage::run(args),
        Some("conformance") => conformance::run(args),
        Some("interop") => interop::run(args),
        Some("tidy") => tidy::run(args),
        Some("fuzz") => fuzz::run(args),
        Some("dist") => dist::run(args),
        Some("screenshot") => screenshot::run(args),
        Some("sim") => chores::sim(args),
        Some("autobahn") => autobahn::run(args),
        Some("bench") => chores::bench(args),
        Some("soak") => chores::soak(args),
        Some(other) => Err(anyhow::anyhow!("`{other}` is not a chore\n\n{HELP}")),
        None => {
            run::show(HELP);
            Ok(())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: {why:#}");
            ExitCode::FAILURE
        }
    }
}
