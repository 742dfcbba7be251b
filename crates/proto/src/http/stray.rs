//! Headers of parameters that nothing here mirrors. A server ignores them; whoever stands between passes them on as they
//! came, since the server behind may know what they mean.

use std::fmt;
use std::sync::Arc;

use ::http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::headers::{MCP_PARAM_PREFIX, is_param};
use super::param::Mirrors;
use crate::limits::Limits;

/// The headers of one call, in the order in which they came. There is at least one, each begins with
/// [`MCP_PARAM_PREFIX`], and none is looked into. One word long, since every call has room for it.
#[derive(Clone, PartialEq, Eq)]
pub struct Strays(Arc<Vec<(HeaderName, HeaderValue)>>);

impl Strays {
    /// Those of a request for a tool of which this is `known`; nothing: there are none. All of them or none are passed on:
    /// with a part of them the call would say something else.
    pub fn collect(
        headers: &HeaderMap,
        known: Option<&Mirrors>,
        limits: &Limits,
    ) -> Result<Option<Self>, TooMany> {
        let (mut strays, mut bytes) = (Vec::new(), 0);
        for (name, value) in headers {
            if !is_param(name) || known.is_some_and(|known| known.has(name)) {
                continue;
            }
            bytes += name.as_str().len() + value.len();
            if strays.len() == limits.stray_headers || bytes > limits.stray_header_bytes {
                return Err(TooMany);
            }
            strays.push((name.clone(), value.clone()));
        }
        Ok((!strays.is_empty()).then(|| Self(Arc::new(strays))))
    }

    /// These and what `mirrors` derives from the arguments of a call, for a link that may not know its tool; nothing: there are none.
    /// Arguments that cannot be mirrored are the server's to judge.
    #[must_use]
    pub fn with_mirrored(own: Option<Self>, mirrors: &Mirrors, arguments: &Value) -> Option<Self> {
        let mut all = own.map(|own| own.0.to_vec()).unwrap_or_default();
        for (name, value) in mirrors.derive(arguments).unwrap_or_default() {
            if !all.iter().any(|(known, _)| *known == name) {
                all.push((name, value));
            }
        }
        (!all.is_empty()).then(|| Self(Arc::new(all)))
    }

    /// Puts them into the head of a request for a tool of which this is `known`. What is there already stays as it is, and
    /// what is known is derived from the arguments or is not there.
    pub fn pass_on(&self, known: Option<&Mirrors>, headers: &mut HeaderMap) {
        let is_free = |name: &HeaderName, headers: &HeaderMap| {
            !headers.contains_key(name) && !known.is_some_and(|known| known.has(name))
        };
        // Before the first is put there: one that came twice goes on twice.
        let free: Vec<_> = self.0.iter().filter(|(name, _)| is_free(name, headers)).collect();
        for (name, value) in free {
            // A map that holds no more holds far more than any server takes.
            let _ = headers.try_append(name, value.clone());
        }
    }
}

/// Their values are the caller's affair, and may be secret.
impl fmt::Debug for Strays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// More than are passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMany;

impl fmt::Display for TooMany {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "too many {MCP_PARAM_PREFIX} headers mirror no parameter that is known here, send fewer or shorter ones"
        )
    }
}

impl std::error::Error for TooMany {}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn head(lines: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }

    fn mirrors(header: &str) -> Mirrors {
        let schema = json!({"properties": {"a": {"type": "string", "x-mcp-header": header}}});
        Mirrors::collect(&schema).unwrap()
    }

    fn lines(headers: &HeaderMap) -> Vec<(&str, &[u8])> {
        headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect()
    }

    /// INT-1: headers of parameters that are not known, whatever the case of their names, and no others. Values stay as
    /// they came, and one that came twice goes on twice.
    #[test]
    fn what_nothing_mirrors_is_collected() {
        let came = head(&[
            ("Host", "here"),
            ("Mcp-Name", "t"),
            ("MCP-PARAM-REGION", "eu"),
            ("mcp-param-Other", "=?base64?no base64"),
            ("Mcp-Param-Other", "\u{f6}"),
            ("Mcp-Parameter", "x"),
            ("x-mcp-param-other", "x"),
        ]);
        let limits = Limits::DEFAULT;
        let strays = Strays::collect(&came, Some(&mirrors("Region")), &limits).unwrap().unwrap();
        let mut out = HeaderMap::new();
        strays.pass_on(None, &mut out);
        let other = "mcp-param-other";
        assert_eq!(lines(&out), [(other, &b"=?base64?no base64"[..]), (other, "\u{f6}".as_bytes())]);
        assert_eq!(format!("{strays:?}"), format!("[{other:?}, {other:?}]"), "no values");
        let plain = head(&[("Mcp-Name", "t"), ("Mcp-Param-Region", "eu")]);
        assert_eq!(Strays::collect(&plain, Some(&mirrors("region")), &limits), Ok(None));
    }

    /// INT-1: what the head has already wins, and so does what the arguments say, if that is nothing at all.
    #[test]
    fn what_is_known_wins() {
        let came = head(&[("Mcp-Param-A", "forged"), ("Mcp-Param-B", "forged"), ("Mcp-Param-C", "c")]);
        let strays = Strays::collect(&came, None, &Limits::DEFAULT).unwrap().unwrap();
        let mut out = head(&[("mcp-param-a", "true")]);
        strays.pass_on(Some(&mirrors("B")), &mut out);
        assert_eq!(lines(&out), [("mcp-param-a", &b"true"[..]), ("mcp-param-c", b"c")]);
    }

    /// INT-1, INT-6, `limits.stray_headers`, `limits.stray_header_bytes`: one more, or one byte more, and none is taken.
    #[test]
    fn there_are_not_too_many() {
        let came = head(&[("mcp-param-a", "1"), ("mcp-param-b", "22")]);
        let bytes = 2 * "mcp-param-a".len() + 3;
        for (count, most, fits) in [(2, bytes, true), (1, bytes, false), (2, bytes - 1, false)] {
            let limits = Limits { stray_headers: count, stray_header_bytes: most, ..Limits::DEFAULT };
            assert_eq!(Strays::collect(&came, None, &limits).is_ok(), fits, "{count} {most}");
        }
    }
}
