//! `cardan daemon`: configured servers kept running behind a socket, for one command after another.

pub(crate) mod args;
mod control;
mod serve;

use self::args::{DaemonArgs, Verb};
use super::config::search;
use crate::daemon::place::Place;
use crate::failure::Failure;

pub(crate) async fn run(args: DaemonArgs) -> Result<(), Failure> {
    let search = search(args.config.clone())?;
    let place = Place::of(&search)?;
    match &args.verb {
        None => serve::run(&args, search, place).await,
        Some(Verb::Status { .. }) => control::status(&place, args.form()).await,
        Some(Verb::Stop { all: true }) => control::stop(&Place::all()?).await,
        Some(Verb::Stop { all: false }) => control::stop(&[place]).await,
    }
}
