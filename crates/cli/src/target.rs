//! Which server is meant: a command after `--`, an address, or the name of a configured one.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cardan_proto::secret::Redactor;

use crate::access::Access;
use crate::args;
use crate::failure::Failure;

/// A server that can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// Started by us.
    Command {
        /// The program.
        program: OsString,
        /// Its arguments.
        args: Vec<OsString>,
        /// Added to its environment.
        env: Vec<(String, String)>,
        /// Where it starts.
        cwd: Option<PathBuf>,
    },
    /// On a Unix socket.
    Unix(PathBuf),
    /// On TCP: `host:port`.
    Tcp(String),
    /// Over HTTP.
    Http {
        /// Where.
        url: String,
        /// How it is spoken to.
        access: Access,
    },
    /// On a WebSocket.
    Ws {
        /// Where.
        url: String,
        /// How it is spoken to.
        access: Access,
    },
    /// As it is configured.
    Named {
        /// What it is called.
        name: String,
        /// The only file to look into.
        config: Option<PathBuf>,
    },
}

/// What can be given in place of a server that is not known.
pub(crate) const FORMS: &str = "give a command after `--`, an address (https://host/path, wss://host/path, \
                                tcp://host:port, unix:///path, unix:///path#/mcp for HTTP) or a name that `cardan config list` shows";

impl Target {
    /// The server, and the words that are left for the command.
    pub(crate) fn split(words: Vec<String>, server: args::Server) -> Result<(Self, Vec<String>), Failure> {
        let access = Access::of(&server);
        let args::Server { env, cwd, command, config, .. } = server;
        let reached = access != Access::default();
        let mut command = command.into_iter();
        if let Some(program) = command.next() {
            if reached {
                return Err(Failure::usage(HTTP_ONLY).next(FORMS));
            }
            return Ok((Self::Command { program, args: command.collect(), env, cwd }, words));
        }
        if !env.is_empty() || cwd.is_some() {
            return Err(Failure::usage("--env and --cwd are for a server that is started here").next(FORMS));
        }
        let mut words = words.into_iter();
        let Some(server) = words.next() else {
            return Err(Failure::usage("no server is given").next(FORMS));
        };
        let target = match Self::parse(&server)? {
            Self::Http { url, .. } => Self::Http { url, access },
            Self::Ws { url, .. } => Self::Ws { url, access },
            Self::Named { name, .. } if reached => {
                return Err(Failure::usage(HTTP_ONLY).next(configured(&name)));
            }
            Self::Named { name, .. } => Self::Named { name, config },
            _ if reached => return Err(Failure::usage(HTTP_ONLY).next(FORMS)),
            other => other,
        };
        Ok((target, words.collect()))
    }

    /// What a person knows it by. Nothing that may be a secret: no arguments, no query.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Command { program, .. } => {
                let name = Path::new(program).file_name().unwrap_or(program);
                name.to_string_lossy().into_owned()
            }
            Self::Unix(path) => path.display().to_string(),
            Self::Tcp(address) => address.clone(),
            Self::Http { url, .. } | Self::Ws { url, .. } => {
                let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
                let end: &[char] =
                    if scheme.eq_ignore_ascii_case("unix") { &['#'] } else { &['/', '?', '#'] };
                rest.split(end).next().unwrap_or_default().to_owned()
            }
            Self::Named { name, .. } => name.clone(),
        }
    }

    /// How another command is written for the same server, for advice that can be followed. Nothing that may be a secret.
    pub(crate) fn command(&self, verb: &str, more: &str) -> String {
        let words = |server: &str| match more {
            "" => format!("cardan {verb} {server}"),
            more => format!("cardan {verb} {server} {more}"),
        };
        match self {
            Self::Command { program, args, .. } => {
                let (program, dots) = (program.to_string_lossy(), if args.is_empty() { "" } else { " ..." });
                let verb = if more.is_empty() { verb.to_owned() } else { format!("{verb} {more}") };
                format!("cardan {verb} -- {program}{dots}")
            }
            Self::Unix(path) => words(&format!("unix://{}", path.display())),
            Self::Tcp(address) => words(&format!("tcp://{address}")),
            Self::Http { url, .. } | Self::Ws { url, .. } => {
                let (shown, query) = url.split_once('?').map_or((url.as_str(), ""), |(url, _)| (url, "?..."));
                // Who gives a name and a password in an address does not want to read them.
                let (scheme, rest) = shown.split_once("://").unwrap_or(("https", shown));
                let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                let host = authority.rsplit('@').next().unwrap_or(authority);
                words(&format!("{scheme}://{host}{path}{query}"))
            }
            Self::Named { name, .. } => words(name),
        }
    }

    fn parse(text: &str) -> Result<Self, Failure> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Ok(Self::Named { name: text.to_owned(), config: None });
        };
        // Whoever has given a password does not want to read it.
        let shown = Redactor::default().redact(text);
        match scheme.to_ascii_lowercase().as_str() {
            "tcp" if rest.contains('@') => {
                Err(Failure::usage(format!("`{shown}` has a user, which has no place there"))
                    .next("write it as tcp://host:port"))
            }
            "tcp" if has_port(rest) => Ok(Self::Tcp(rest.to_owned())),
            "tcp" => {
                Err(Failure::usage(format!("`{shown}` has no port")).next("write it as tcp://host:port"))
            }
            // A path of HTTP behind that of the socket says what is spoken there.
            "unix" if rest.starts_with('/') && rest.contains("#/") => {
                Ok(Self::Http { url: text.to_owned(), access: Access::default() })
            }
            "unix" if rest.starts_with('/') => Ok(Self::Unix(PathBuf::from(rest))),
            "unix" => Err(Failure::usage(format!("`{shown}` has no full path"))
                .next("write it as unix:///path, with three slashes")),
            "ws" | "wss" if !rest.starts_with('/') => {
                Ok(Self::Ws { url: text.to_owned(), access: Access::default() })
            }
            "ws" | "wss" => {
                Err(Failure::usage(format!("`{shown}` has no host")).next("write it as ws://host:port/path"))
            }
            "http" | "https" => Ok(Self::Http { url: text.to_owned(), access: Access::default() }),
            _ => {
                Err(Failure::usage(format!("`{scheme}://...`: {scheme} is no transport we know")).next(FORMS))
            }
        }
    }
}

const HTTP_ONLY: &str = "--header, --bearer-env and the options for certificates are for a server that is given as an address and reached over HTTP";

fn configured(name: &str) -> String {
    format!("say it where `{name}` is configured; `cardan config explain {name}` shows where")
}

pub(crate) fn has_port(address: &str) -> bool {
    address.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_apart() {
        assert_eq!(Target::parse("tcp://[::1]:80").unwrap(), Target::Tcp("[::1]:80".into()));
        assert_eq!(Target::parse("unix:///run/x.sock").unwrap(), Target::Unix("/run/x.sock".into()));
        let http = Target::parse("unix:///run/x.sock#/mcp").unwrap();
        assert!(matches!(&http, Target::Http { url, .. } if url == "unix:///run/x.sock#/mcp"));
        assert_eq!(http.label(), "/run/x.sock");
        assert!(
            matches!(Target::parse("HTTPS://x/mcp").unwrap(), Target::Http { url, .. } if url == "HTTPS://x/mcp")
        );
        assert!(
            matches!(Target::parse("WSS://host/ws").unwrap(), Target::Ws { url, .. } if url == "WSS://host/ws")
        );
        let named = Target::Named { name: "weather".into(), config: None };
        assert_eq!(Target::parse("weather").unwrap(), named);
        for wrong in ["tcp://host", "unix://x", "gopher://x"] {
            assert!(Target::parse(wrong).is_err(), "{wrong}");
        }
    }
}
