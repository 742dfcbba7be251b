//! Whose tokens open a gateway or a bridge.

use std::net::SocketAddr;
use std::sync::Arc;

use cardan_config::Config;
use cardan_endpoint::{Grant, Revoked, Verify};
use cardan_gateway::keys::{Keys, Print, SHORTEST, token};
use cardan_proto::http::authority::{Authority, Host};
use cardan_proto::http::challenge::Bearer;
use tokio::sync::watch;

use crate::cmd::config::variable;
use crate::failure::Failure;
use crate::log::Log;

/// For whom the token stands that is made at the start.
const GENERATED: &str = "generated";

/// For whom the token stands that is given by a variable.
const GIVEN: &str = "given";

/// The keys in force; none: no token is asked for.
#[derive(Clone, Default)]
pub(super) struct Lock(Arc<watch::Sender<Option<Arc<Keys>>>>);

impl Lock {
    /// As a configuration says.
    pub(super) fn of(config: &Config, log: Log) -> Self {
        let lock = Self::default();
        lock.set(config, log);
        lock
    }

    /// With the token in a variable, if there is one.
    pub(super) fn with(name: Option<&str>) -> Result<Self, Failure> {
        let lock = Self::default();
        let Some(name) = name else { return Ok(lock) };
        let unusable = |why: String| {
            Failure::usage(format!("--key-env {name}: {why}")).next(
                "put a token into that variable, such as `cardan key` makes, and its name after --key-env",
            )
        };
        let token = variable(name).ok_or_else(|| unusable("there is no such variable".to_owned()))?;
        if token.trim().len() < SHORTEST {
            return Err(unusable(format!("the token there has fewer than {SHORTEST} characters")));
        }
        lock.put(Keys::one(GIVEN, token.trim()));
        Ok(lock)
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

    /// Makes a token where whoever is on the network could come in without one, and warns where a proxy may let them in.
    /// `keep` says how to have a token that lasts.
    pub(super) fn closed(
        &self,
        address: SocketAddr,
        hosts: &[String],
        keep: &str,
        log: Log,
    ) -> Result<(), Failure> {
        if self.keys().is_some() {
            return Ok(());
        }
        if address.ip().is_loopback() {
            if let Some(host) = hosts.iter().find(|host| is_beyond(host)) {
                log.warn("key", &format!(
                    "--allow-host {host} is for calls from beyond this machine and no key is configured, so whoever is let \
                     through to {address} can call; to ask for a token, {keep}"
                ));
            }
            return Ok(());
        }
        let failed = |error| Failure::usage(format!("no token can be made: {error}"));
        let token = token().map_err(failed)?;
        log.insist("key", &format!(
            "{address} can be reached by others and no key is configured, so this token is needed until the end:\n  {token}\n\
             clients send it as `Authorization: Bearer TOKEN`; to keep one, {keep}"
        ));
        self.put(Keys::one(GENERATED, &token));
        Ok(())
    }

    /// Judges tokens by the keys of that moment, which may come later.
    pub(super) fn verify(&self) -> impl Verify + use<> {
        self.clone()
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
        self.0.send_replace(Some(Arc::new(keys)));
    }

    fn keys(&self) -> Option<Arc<Keys>> {
        self.0.borrow().clone()
    }
}

impl Verify for Lock {
    fn verify(&self, token: Option<&str>) -> Grant {
        self.judge(token)
    }

    fn revoked(&self, token: Option<&str>) -> Option<Revoked> {
        let print = token.map(Print::of);
        // Nobody in particular where no token is asked for; nothing: nobody at all.
        let whose = move |keys: &Option<Arc<Keys>>| match (keys, &print) {
            (None, _) => Some(None),
            (Some(_), None) => None,
            (Some(keys), Some(print)) => keys.whose(print).cloned().map(Some),
        };
        let mut keys = self.0.subscribe();
        let first = whose(&keys.borrow());
        Some(Box::pin(async move {
            let another = |keys: &Option<Arc<Keys>>| first.is_none() || whose(keys) != first;
            if keys.wait_for(another).await.is_err() {
                // Nobody changes them any more.
                std::future::pending().await
            }
        }))
    }
}

/// Is this a name by which others call us than those on this machine?
fn is_beyond(host: &str) -> bool {
    // What is no name was refused before.
    Authority::parse(host).is_ok_and(|name| match name.host {
        Host::Name(name) => name != "localhost" && !name.ends_with(".localhost"),
        Host::V4(address) => !address.is_loopback(),
        Host::V6(address) => !address.is_loopback(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine_are_not_beyond_it() {
        for here in ["localhost", "localhost:80", "app.localhost", "127.0.0.1", "127.1.2.3:80", "[::1]:80"] {
            assert!(!is_beyond(here), "{here}");
        }
        for beyond in ["mcp.example.org", "mcp.example.org:443", "192.0.2.1", "[2001:db8::1]", "notlocalhost"]
        {
            assert!(is_beyond(beyond), "{beyond}");
        }
    }
}
