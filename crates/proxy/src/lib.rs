//! Proxies: which one stands between us and a server ([`Routes`]), and a tunnel through it ([`Proxy::tunnel`]). No stream is
//! opened here; transports do that.

use std::fmt;
use std::io;
use std::net::IpAddr;

use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// Which proxies are used.
#[derive(Debug, Clone, Default)]
pub enum Proxies {
    /// Those that the environment names: `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, but for `NO_PROXY`.
    #[default]
    Environment,
    /// None.
    Direct,
    /// This one, for every server beyond this machine.
    Always(String),
}

impl Proxies {
    /// The ways that follow from it, as the environment is now.
    #[must_use]
    pub fn routes(&self) -> Routes {
        Routes(match self {
            Self::Environment => Matcher::from_env(),
            Self::Direct => Matcher::builder().build(),
            Self::Always(proxy) => Matcher::builder().all(proxy.clone()).build(),
        })
    }
}

/// Which proxy stands before which server.
pub struct Routes(Matcher);

impl Routes {
    /// The proxy on the way to an address of `http` or `https`. What runs on this machine is never behind one.
    #[must_use]
    pub fn proxy(&self, uri: &Uri) -> Option<Proxy> {
        let host = uri.host().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let loopback = bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        if loopback || bare == "localhost" || bare.ends_with(".localhost") {
            return None;
        }
        self.0.intercept(uri).map(Proxy)
    }
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Routes").finish_non_exhaustive()
    }
}

/// A proxy.
pub struct Proxy(Intercept);

impl Proxy {
    /// Its host and port.
    pub fn place(&self) -> io::Result<(String, u16)> {
        let uri = self.0.uri();
        if uri.scheme_str() != Some("http") {
            let scheme = uri.scheme_str().unwrap_or("no scheme");
            return Err(io::Error::other(format!("proxies are reached by http, not by {scheme}")));
        }
        let host = uri.host().ok_or_else(|| io::Error::other("the proxy's address has no host"))?;
        Ok((host.to_owned(), uri.port_u16().unwrap_or(80)))
    }

    /// By what it knows us, where it wants to.
    #[must_use]
    pub fn basic_auth(&self) -> Option<&HeaderValue> {
        self.0.basic_auth()
    }

    /// Asks it, over a stream to it, for a tunnel to `target`, a host and a port (RFC 9110, 9.3.6).
    pub async fn tunnel<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut S,
        target: &str,
    ) -> io::Result<()> {
        let auth = self.basic_auth().and_then(|value| value.to_str().ok());
        let auth = auth.map(|auth| format!("proxy-authorization: {auth}\r\n")).unwrap_or_default();
        let ask = format!("CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n{auth}\r\n");
        stream.write_all(ask.as_bytes()).await?;
        stream.flush().await?;
        // Byte by byte: what follows the head belongs to the tunnel.
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if head.len() >= HEAD_BYTES {
                return Err(io::Error::other("the proxy's answer is too long"));
            }
            head.push(stream.read_u8().await?);
        }
        let first = String::from_utf8_lossy(head.split(|byte| *byte == b'\r').next().unwrap_or_default());
        match first.split(' ').nth(1) {
            Some(status) if status.starts_with('2') => Ok(()),
            _ => Err(io::Error::other(format!("the proxy refused the tunnel: {first}"))),
        }
    }
}

/// Without what it knows us by.
impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("uri", self.0.uri()).finish_non_exhaustive()
    }
}

/// The longest answer to CONNECT that is read.
const HEAD_BYTES: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn always() -> Routes {
        Proxies::Always("http://user:pw@proxy.test:3128".to_owned()).routes()
    }

    /// CLI-44: a proxy stands before every server beyond this machine, and before none on it.
    #[test]
    fn what_runs_here_is_not_behind_a_proxy() {
        for (address, is_behind) in [
            ("http://server.test/", true),
            ("https://server.test:8443/mcp", true),
            ("http://127.0.0.1:80/", false),
            ("http://[::1]:80/", false),
            ("https://localhost/", false),
            ("http://here.localhost/", false),
        ] {
            let proxy = always().proxy(&Uri::from_static(address));
            assert_eq!(proxy.is_some(), is_behind, "{address}");
            assert!(Proxies::Direct.routes().proxy(&Uri::from_static(address)).is_none());
        }
    }

    /// CLI-44: a tunnel is asked for with the proxy's own credentials, and is one only where the proxy says so.
    #[tokio::test]
    async fn a_tunnel_is_asked_for() {
        for (answer, wrong) in [
            ("HTTP/1.1 200 OK\r\n\r\n", None),
            (
                "HTTP/1.1 407 Who are you\r\n\r\n",
                Some("the proxy refused the tunnel: HTTP/1.1 407 Who are you"),
            ),
            ("nonsense\r\n\r\n", Some("the proxy refused the tunnel: nonsense")),
        ] {
            let proxy = always().proxy(&Uri::from_static("https://server.test/")).unwrap();
            assert_eq!(proxy.place().unwrap(), ("proxy.test".to_owned(), 3128));
            assert!(!format!("{proxy:?}").contains("dXNlcjpwdw"), "{proxy:?}");
            let (mut ours, mut theirs) = tokio::io::duplex(1 << 10);
            theirs.write_all(answer.as_bytes()).await.unwrap();
            let told = proxy.tunnel(&mut ours, "server.test:443").await;
            assert_eq!(told.err().map(|error| error.to_string()).as_deref(), wrong);
            drop(ours);
            let mut asked = String::new();
            theirs.read_to_string(&mut asked).await.unwrap();
            assert!(
                asked.starts_with("CONNECT server.test:443 HTTP/1.1\r\nhost: server.test:443\r\n"),
                "{asked}"
            );
            assert!(asked.contains("proxy-authorization: Basic dXNlcjpwdw==\r\n"), "{asked}");
        }
        let long = "x".repeat(HEAD_BYTES + 1);
        let proxy = always().proxy(&Uri::from_static("https://server.test/")).unwrap();
        let (mut ours, mut theirs) = tokio::io::duplex(2 * HEAD_BYTES);
        theirs.write_all(long.as_bytes()).await.unwrap();
        assert!(proxy.tunnel(&mut ours, "server.test:443").await.is_err());
    }

    /// CLI-44: proxies that are reached otherwise are told, not passed by.
    #[test]
    fn proxies_are_reached_by_http() {
        let routes = Proxies::Always("socks5://proxy.test:1080".to_owned()).routes();
        let proxy = routes.proxy(&Uri::from_static("https://server.test/")).unwrap();
        assert!(proxy.place().unwrap_err().to_string().contains("not by socks5"));
    }
}
