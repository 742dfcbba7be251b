//! Which era a server spoke when it was last met, so that the next command does not have to find out again.
//!
//! A legacy server may let the question for its era go unanswered, or die of it; that is waited for once, not by every
//! command. What is remembered is tried first and never trusted: who does not open that way is asked after all.

use std::sync::Arc;

use cardan_client::{Connector, Eras};
use cardan_config::digest::Digest;
use cardan_gateway::eras::EraCache;
use cardan_proto::era::Era;
use cardan_proto::session::config::EraChoice;

use crate::args::Options;
use crate::catalogs::Shelf;
use crate::cmd::config::variable;
use crate::target::Target;

/// What is known of one server.
pub(crate) struct Memory {
    cache: EraCache,
    digest: String,
    eras: Arc<Eras>,
    knew: bool,
}

impl Memory {
    /// Nothing: nobody wants to find out, or there is nowhere to keep it.
    pub(crate) fn of(target: &Target, shelf: Option<&Shelf>, options: &Options) -> Option<Self> {
        if options.era() != EraChoice::Auto {
            return None;
        }
        let digest = match (target, shelf) {
            (_, Some(shelf)) => shelf.digest().to_owned(),
            (Target::Named { .. }, None) => return None,
            (target, None) => digest(target),
        };
        let cache = EraCache::of_user(variable)?;
        let (knew, eras) = (cache.is_legacy(&digest), Arc::new(Eras::default()));
        if knew {
            eras.put(&digest, Era::Legacy);
        }
        Some(Self { cache, digest, eras, knew })
    }

    /// The connector, with what is known.
    pub(crate) fn lent(&self, connector: Connector) -> Connector {
        connector.remember(Arc::clone(&self.eras), &self.digest)
    }

    /// Keeps what was found out. It is for later convenience, so what hinders it is not told.
    pub(crate) fn keep(self) {
        let _ = match (self.knew, self.eras.get(&self.digest) == Some(Era::Legacy)) {
            (false, true) => self.cache.learn(&self.digest),
            (true, false) => self.cache.forget(&self.digest),
            _ => Ok(()),
        };
    }
}

/// A name for a server that is given on the command line, from which nothing can be read back.
fn digest(target: &Target) -> String {
    let mut words: Vec<String> = Vec::new();
    match target {
        Target::Command { program, args, env, cwd } => {
            // Where it starts decides what a path leads to.
            let here = cwd.clone().or_else(|| std::env::current_dir().ok()).unwrap_or_default();
            words.extend(["command".to_owned(), here.to_string_lossy().into_owned()]);
            words.push(program.to_string_lossy().into_owned());
            words.extend(args.iter().map(|arg| arg.to_string_lossy().into_owned()));
            words
                .extend(env.iter().flat_map(|(name, value)| ["env".to_owned(), name.clone(), value.clone()]));
        }
        Target::Unix(path) => words.extend(["unix".to_owned(), path.to_string_lossy().into_owned()]),
        Target::Tcp(address) => words.extend(["tcp".to_owned(), address.clone()]),
        Target::Http { url, .. } | Target::Ws { url, .. } => words.extend(["url".to_owned(), url.clone()]),
        Target::Named { name, .. } => words.extend(["named".to_owned(), name.clone()]),
    }
    Digest::of_words(&words).to_string()
}
