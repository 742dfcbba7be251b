//! Whose tokens open a gateway.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use cardan_config::Config;
use cardan_endpoint::{Grant, Verify};
use cardan_gateway::keys::{Keys, token};
use cardan_proto::http::challenge::Bearer;

use crate::cmd::config::variable;
use crate::failure::Failure;
use crate::log::Log;

/// For whom the token stands that is made at the start.
const GENERATED: &str = "generated";

/// The keys in force; none: no token is asked for.
#[derive(Clone, Default)]
pub(super) struct Lock(Arc<Mutex<Option<Arc<Keys>>>>);

impl Lock {
    /// As a configuration says.
    pub(super) fn of(config: &Config, log: Log) -> Self {
        let lock = Self::default();
        lock.set(config, log);
        lock
    }

    /// Goes over to what a configuration says. Once tokens are asked for, they are until the end: a file that has lost its keys
    /// opens no door.
    pub(super) fn set(&self, config: &Config, log: Log) {
        let Some(keys) = &config.gateway.keys else { return };
        let (keys, wrong) = Keys::of(keys, variable);
        for wrong in wrong {
            log.warn("key", &wrong.to_string());
        }
        self.put(keys);
    }

    /// Makes a token where whoever is on the network could come in without one.
    pub(super) fn closed(&self, address: SocketAddr, log: Log) -> Result<(), Failure> {
        if address.ip().is_loopback() || self.keys().is_some() {
            return Ok(());
        }
        let failed = |error| Failure::usage(format!("no token can be made: {error}"));
        let token = token().map_err(failed)?;
        log.insist("key", &format!(
            "{address} can be reached by others and no key is configured, so this token is needed until the end:\n  {token}\n\
             clients send it as `Authorization: Bearer TOKEN`; to keep one, see `cardan key --help`"
        ));
        self.put(Keys::one(GENERATED, &token));
        Ok(())
    }

    /// Judges tokens by the keys of that moment, which may come later.
    pub(super) fn verify(&self) -> impl Verify + use<> {
        let lock = self.clone();
        move |token: Option<&str>| lock.judge(token)
    }

    fn judge(&self, token: Option<&str>) -> Grant {
        match (self.keys(), token) {
            (None, _) => Grant::Granted(None),
            (Some(_), None) => Grant::Missing(Bearer::default()),
            (Some(keys), Some(token)) => match keys.principal(token) {
                Some(principal) => Grant::Granted(Some(Arc::clone(principal))),
                None => Grant::Invalid(Bearer::default()),
            },
        }
    }

    fn put(&self, keys: Keys) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(keys));
    }

    fn keys(&self) -> Option<Arc<Keys>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
