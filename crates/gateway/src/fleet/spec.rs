//! What the fleet is told of one server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cardan_client::{Connector, Way};
use cardan_proto::secret::Redactor;
use cardan_proto::upkeep::policy::Policy;
use serde_json::Value;

use crate::relay::{Isolation, Loan};
use crate::rules::RuleSet;

/// A server to run.
#[derive(Debug, Clone)]
pub struct Spec {
    /// What it is called.
    pub name: String,
    /// What kind of way leads to it, in a word.
    pub kind: &'static str,
    /// Under what its catalog is kept: whoever is reached in this way, with these credentials.
    pub digest: String,
    /// Under what its approved tools are kept: whoever is configured in this way, whatever the credentials.
    pub pinned: String,
    /// What makes it another connection: two specs with the same one need no restart between them.
    pub identity: String,
    /// How it is reached, or why that is not known.
    pub making: Result<Making, Arc<str>>,
    /// Started by its first use rather than at once?
    pub lazy: bool,
    /// Stopped after so long without use; none: never.
    pub idle_stop: Option<Duration>,
    /// How long it may be silent about a client's call; none: as long as the client waits.
    pub call_timeout: Option<Duration>,
    /// Calls at a time; none: as many as come.
    pub concurrency: Option<usize>,
    /// Who shares sessions with it.
    pub isolation: Isolation,
    /// What may be asked on its connection of those who use it; none: nothing.
    pub loan: Option<Loan>,
    /// What of it is shown.
    pub rules: RuleSet,
    /// What is not to be shown of whatever it or its connection says.
    pub secrets: Redactor,
    /// Is it known as whom it is reached?
    pub credentials: Credentials,
}

/// Is it known as whom a server is reached?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Credentials {
    /// They are part of the digest.
    #[default]
    Known,
    /// A helper brings them with every connection, so what a server calls private is not kept.
    Helped,
}

impl Spec {
    /// A server that is started at once and not stopped.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        kind: &'static str,
        digest: impl Into<String>,
        making: Making,
    ) -> Self {
        let digest = digest.into();
        let identity = digest.clone();
        Self { kind, pinned: digest.clone(), digest, ..Self::bare(name.into(), identity, Ok(making)) }
    }

    /// A server that is listed only to say what is wrong with it.
    #[must_use]
    pub fn broken(name: impl Into<String>, problem: impl Into<Arc<str>>) -> Self {
        let problem = problem.into();
        Self::bare(name.into(), problem.to_string(), Err(problem))
    }

    /// The same, with a connection on which those who use it may be asked what `capabilities` say.
    #[must_use]
    pub fn lent(mut self, capabilities: &Value) -> Self {
        if let Ok(making) = &mut self.making {
            let (connector, loan) = Loan::of(making.connector.clone(), capabilities);
            (making.connector, self.loan) = (connector, Some(loan));
        }
        self
    }

    fn bare(name: String, identity: String, making: Result<Making, Arc<str>>) -> Self {
        Self {
            name,
            kind: "?",
            digest: String::new(),
            pinned: String::new(),
            identity,
            making,
            lazy: false,
            idle_stop: None,
            call_timeout: None,
            concurrency: None,
            isolation: Isolation::default(),
            loan: None,
            rules: RuleSet::default(),
            secrets: Redactor::default(),
            credentials: Credentials::default(),
        }
    }
}

/// How a connection is made and kept.
#[derive(Clone)]
pub struct Making {
    /// Who we are and what we answer.
    pub connector: Connector,
    /// How a link is made.
    pub way: Arc<dyn Way>,
    /// How the connection is kept.
    pub policy: Policy,
}

impl fmt::Debug for Making {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Making").field("policy", &self.policy).finish_non_exhaustive()
    }
}
