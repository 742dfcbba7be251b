//! How a server on the network is spoken to: headers, a token, and whom we trust.

use std::path::PathBuf;

use cardan_dial::{Http, HttpError};
use cardan_proto::http::url::BadUrl;
use cardan_proto::limits::Limits;
use cardan_proto::secret::{Redactor, Secret};
use cardan_tls::{Identity, TlsError, Trust};
use cardan_ws::Dial;
use http::header::{HeaderName, HeaderValue};

use crate::args;
use crate::failure::Failure;
use crate::output::tell;

/// What the command line says about a server that is reached by address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Access {
    /// Sent with every request.
    headers: Vec<(String, String)>,
    /// The variable with the bearer token.
    bearer_env: Option<String>,
    /// Trusted beside the machine's own certificates.
    ca: Option<PathBuf>,
    /// Our own certificate and its key.
    client: Option<(PathBuf, PathBuf)>,
    certificates: Certificates,
}

/// Which certificates are believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Certificates {
    #[default]
    Trusted,
    Any,
}

/// Told whenever it is so, however often: a switch for an afternoon outlives it in scripts.
const INSECURE: &str = "cardan: WARNING: --insecure is set: no certificate is checked, so whoever is on the way \
                        can read and change everything, the token included";

/// What to do about an address that says who is to log in.
const USER_ELSEWHERE: &str =
    "leave user and password out of the address; give what the server wants with --header";

impl Access {
    pub(crate) fn of(server: &args::Server) -> Self {
        Self {
            headers: server.headers.clone(),
            bearer_env: server.bearer_env.clone(),
            ca: server.ca.clone(),
            client: server.client_cert.clone().zip(server.client_key.clone()),
            certificates: if server.insecure { Certificates::Any } else { Certificates::Trusted },
        }
    }

    /// A page, for which less can be said.
    pub(crate) fn page(bearer_env: Option<String>, ca: Option<PathBuf>) -> Self {
        Self { bearer_env, ca, ..Self::default() }
    }

    /// An HTTP server at `url`, and what of it nobody should read.
    pub(crate) fn http(&self, url: &str) -> Result<(Http, Redactor), Failure> {
        let wrong = |error: HttpError| Failure::usage(error.to_string());
        let address = |error| {
            let is_user = matches!(error, HttpError::Url { why: BadUrl::User, .. });
            wrong(error).next(if is_user { USER_ELSEWHERE } else { "write it as https://host/path" })
        };
        let header = |error| wrong(error).next("write it as name: value");
        let mut http = Http::new(url).map_err(address)?.trust(self.trust()?);
        for (name, value) in &self.headers {
            http = http.header(name, value).map_err(header)?;
        }
        if let Some(token) = self.token()? {
            http = http.bearer(&token).map_err(header)?;
        }
        Ok((http, self.secrets(url)?))
    }

    /// A WebSocket server at `url`, and what of it nobody should read.
    pub(crate) fn socket(&self, url: &str, limits: &Limits) -> Result<(Dial, Redactor), Failure> {
        let mut dial = Dial::new(limits).trust(self.trust()?);
        for (name, value) in &self.headers {
            let (Ok(name), Ok(mut value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) else {
                let message = format!("header {name:?} cannot be set: it or its value is no header");
                return Err(Failure::usage(message).next("write it as name: value"));
            };
            value.set_sensitive(true);
            dial = dial.header(name, value);
        }
        if let Some(token) = self.token()? {
            dial = dial.bearer(&token).map_err(|error| Failure::usage(error.to_string()))?;
        }
        Ok((dial, self.secrets(url)?))
    }

    fn trust(&self) -> Result<Trust, Failure> {
        let mut trust = Trust::default();
        if let Some(ca) = &self.ca {
            trust = trust.roots(ca).map_err(|error| unusable("--ca", &error))?;
        }
        if let Some((certificate, key)) = &self.client {
            let identity = Identity::read(certificate, key);
            trust = trust.identity(identity.map_err(|error| unusable("--client-cert", &error))?);
        }
        match self.certificates {
            Certificates::Trusted => Ok(trust),
            Certificates::Any => {
                tell(INSECURE);
                Ok(trust.unchecked())
            }
        }
    }

    fn token(&self) -> Result<Option<String>, Failure> {
        let Some(variable) = &self.bearer_env else { return Ok(None) };
        match std::env::var(variable) {
            Ok(token) => Ok(Some(token.trim().to_owned())),
            Err(error) => Err(Failure::usage(format!("--bearer-env {variable}: {error}"))
                .next("put the token into that variable, and its name after --bearer-env")),
        }
    }

    fn secrets(&self, url: &str) -> Result<Redactor, Failure> {
        // What is known is the credential, with and without its scheme.
        let given = self.headers.iter().flat_map(|(name, value)| {
            let bare: Vec<_> = Secret::found_in(&format!("{name}: {value}")).collect();
            bare.into_iter().chain([Secret::new(value.trim())])
        });
        let token = self.token()?.map(Secret::new);
        Ok(Redactor::new(Secret::found_in(url).chain(given).chain(token).collect::<Vec<_>>()))
    }
}

/// A file of certificates or keys that an option names is of no use.
pub(crate) fn unusable(option: &str, error: &TlsError) -> Failure {
    Failure::usage(format!("{option}: {error}")).next(error.next_step())
}
