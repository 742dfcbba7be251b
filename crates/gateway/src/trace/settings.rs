//! Where spans go and which are made: what is configured, and the standard variables of OpenTelemetry for the rest.

use std::fmt;

use cardan_proto::http::url::Url;

use super::sampler::{NAMES, Sampler};

/// Where spans go, and which are made. Printing it shows no header.
pub struct Settings {
    /// Where batches are posted.
    pub(super) url: String,
    pub(super) headers: Vec<(String, String)>,
    /// What is said of this program.
    pub(super) resource: Attributes,
    pub(super) sampler: Sampler,
}

/// Names and values.
pub(super) type Attributes = Vec<(Box<str>, Box<str>)>;

/// What is wrong with a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongSettings(String);

impl fmt::Display for WrongSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongSettings {}

/// In place of an address: nothing is exported, whatever the environment says.
const OFF: &str = "off";

/// Below an endpoint, traces are posted here.
const TRACES: &str = "/v1/traces";

impl Settings {
    /// Exports to `endpoint`, or else to where the environment says. Nothing: nowhere.
    pub fn of(
        endpoint: Option<&str>,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, WrongSettings> {
        // An empty variable is one that is not set, by the standard.
        let env = |name: &str| env(name).filter(|value| !value.trim().is_empty());
        let Some(url) = url(endpoint, &env)? else { return Ok(None) };
        if let Err(why) = Url::parse(&url) {
            return Err(WrongSettings(format!("traces cannot be exported to `{}`: {why}", shown(&url))));
        }
        let sampler = match env("OTEL_TRACES_SAMPLER") {
            None => Sampler::default(),
            Some(name) => {
                let ratio = env("OTEL_TRACES_SAMPLER_ARG");
                Sampler::parse(name.trim(), ratio.as_deref()).ok_or_else(|| {
                    let known = NAMES.join(", ");
                    WrongSettings(format!(
                        "OTEL_TRACES_SAMPLER is `{name}`: it is one of {known}, whose ratio in OTEL_TRACES_SAMPLER_ARG is \
                         from 0 to 1"
                    ))
                })?
            }
        };
        let headers = ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"];
        let headers = match headers.iter().find_map(|name| Some((name, env(name)?))) {
            Some((name, text)) => pairs(name, &text)?,
            None => Vec::new(),
        };
        Ok(Some(Self { url, headers, resource: resource(&env)?, sampler }))
    }
}

/// Where batches are posted; nothing: nowhere.
fn url(
    endpoint: Option<&str>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<String>, WrongSettings> {
    let below = |endpoint: &str| [endpoint.trim_end_matches('/'), TRACES].concat();
    match endpoint {
        Some(OFF) => return Ok(None),
        Some(endpoint) => return Ok(Some(below(endpoint))),
        None => {}
    }
    let off = env("OTEL_SDK_DISABLED").is_some_and(|value| value.trim().eq_ignore_ascii_case("true"))
        || env("OTEL_TRACES_EXPORTER").is_some_and(|value| value.trim() == "none");
    if off {
        return Ok(None);
    }
    // The one that is for traces alone is taken as it is.
    let url = env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
        .or_else(|| env("OTEL_EXPORTER_OTLP_ENDPOINT").map(|endpoint| below(endpoint.trim())));
    let protocol =
        || env("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL").or_else(|| env("OTEL_EXPORTER_OTLP_PROTOCOL"));
    if url.is_some()
        && let Some(protocol) = protocol().filter(|protocol| protocol.trim() != PROTOCOL)
    {
        return Err(WrongSettings(format!(
            "OTEL_EXPORTER_OTLP_PROTOCOL is `{protocol}`: traces are exported by {PROTOCOL} alone; name that and an endpoint \
             that takes it, or OTEL_TRACES_EXPORTER=none"
        )));
    }
    Ok(url)
}

const PROTOCOL: &str = "http/protobuf";

/// What of an address can be shown: its scheme and its host. The rest may have keys in it.
pub(super) fn shown(url: &str) -> String {
    const HIDDEN: &str = "...";
    let Some((scheme, rest)) = url.split_once("://") else { return HIDDEN.to_owned() };
    let (authority, behind) = rest.split_at(rest.find(['/', '\\', '?', '#']).unwrap_or(rest.len()));
    // Behind the host nobody is named, so this is a name or a password with such a character.
    let host = if behind.contains('@') { HIDDEN } else { authority.rsplit('@').next().unwrap_or(HIDDEN) };
    match scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        true => format!("{scheme}://{host}"),
        false => HIDDEN.to_owned(),
    }
}

/// What is said of this program.
fn resource(env: &dyn Fn(&str) -> Option<String>) -> Result<Attributes, WrongSettings> {
    let name = "OTEL_RESOURCE_ATTRIBUTES";
    let given = env(name).map_or(Ok(Vec::new()), |text| pairs(name, &text))?;
    let mut all = Attributes::new();
    let service = env("OTEL_SERVICE_NAME").map(|name| ("service.name".to_owned(), name.trim().to_owned()));
    let usual = [("service.name", "cardan"), ("service.version", env!("CARGO_PKG_VERSION"))];
    let usual = usual.map(|(key, value)| (key.to_owned(), value.to_owned()));
    for (key, value) in service.into_iter().chain(given).chain(usual) {
        if !all.iter().any(|(known, _)| **known == *key) {
            all.push((key.into(), value.into()));
        }
    }
    Ok(all)
}

/// `key=value,key=value`, with values in percent-encoding.
fn pairs(name: &str, text: &str) -> Result<Vec<(String, String)>, WrongSettings> {
    let members = text.split(',').map(str::trim).filter(|member| !member.is_empty());
    // What is wrong may be a secret, so it is not shown.
    let wrong = || WrongSettings(format!("{name} is no list of key=value, with commas in between"));
    let pair = |member: &str| {
        let (key, value) = member.split_once('=')?;
        let (key, value) = (key.trim(), decoded(value.trim())?);
        (!key.is_empty()).then(|| (key.to_owned(), value))
    };
    members.map(|member| pair(member).ok_or_else(wrong)).collect()
}

fn decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut out = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let digits = part.get(..2).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        out.push(u8::from_str_radix(digits, 16).ok()?);
        out.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(out).ok()
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("url", &shown(&self.url))
            .field("sampler", &self.sampler)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(endpoint: Option<&str>, vars: &[(&str, &str)]) -> Result<Option<Settings>, WrongSettings> {
        let find = |name: &str| vars.iter().find(|(known, _)| *known == name).map(|(_, v)| (*v).to_owned());
        Settings::of(endpoint, &find)
    }

    #[test]
    fn what_is_said_here_goes_before_what_the_environment_says() {
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4318/");
        for (endpoint, vars, wanted) in [
            (None, &[][..], None),
            (None, &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")], None),
            (None, &[base], Some("http://a:4318/v1/traces")),
            (Some("http://b/x"), &[base], Some("http://b/x/v1/traces")),
            (Some("off"), &[base], None),
            (None, &[base, ("OTEL_SDK_DISABLED", "TRUE")], None),
            (None, &[base, ("OTEL_TRACES_EXPORTER", "none")], None),
            (None, &[base, ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c/own")], Some("http://c/own")),
        ] {
            let settings = of(endpoint, vars).unwrap();
            assert_eq!(settings.map(|settings| settings.url).as_deref(), wanted, "{endpoint:?} {vars:?}");
        }
    }

    #[test]
    fn headers_and_names_are_read_as_others_read_them() {
        let vars = [
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20c2VjcmV0, x-team = blue"),
            ("OTEL_SERVICE_NAME", "gate"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,deployment.environment=prod"),
        ];
        let settings = of(Some("http://a"), &vars).unwrap().unwrap();
        let headers: Vec<_> = settings.headers.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(headers, [("authorization", "Basic c2VjcmV0"), ("x-team", "blue")]);
        let resource: Vec<_> = settings.resource.iter().map(|(k, v)| (&**k, &**v)).collect();
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            resource,
            [("service.name", "gate"), ("deployment.environment", "prod"), ("service.version", version)]
        );
        assert!(!format!("{settings:?}").contains("c2VjcmV0"), "T27: headers are shown nowhere");
    }

    #[test]
    fn what_is_wrong_is_told_without_secrets() {
        for (vars, said) in [
            (&[("OTEL_TRACES_SAMPLER", "sometimes")][..], "parentbased_always_on"),
            (&[("OTEL_EXPORTER_OTLP_HEADERS", "s3cret")], "OTEL_EXPORTER_OTLP_HEADERS is no list"),
            (&[("OTEL_EXPORTER_OTLP_HEADERS", "a=%zz")], "OTEL_EXPORTER_OTLP_HEADERS is no list"),
        ] {
            let wrong = of(Some("http://a"), vars).unwrap_err().to_string();
            assert!(wrong.contains(said) && !wrong.contains("s3cret"), "{wrong}");
        }
        let grpc =
            [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:4317"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")];
        assert!(of(None, &grpc).unwrap_err().to_string().contains("http/protobuf"));
        assert!(of(Some("gopher://a"), &[]).unwrap_err().to_string().contains("cannot be exported"));
        // T27: keys in an address are shown nowhere.
        for (url, host) in [
            ("http://me:s3cret@a:4318", "`http://a:4318`"),
            ("gopher://a/s3cret?key=s3cret", "`gopher://a`"),
            ("http://me:s3cret/x@a", "`http://...`"),
            ("me:s3cret@a", "`...`"),
            ("me:s3cret://a", "`...`"),
        ] {
            let wrong = of(Some(url), &[]).unwrap_err().to_string();
            assert!(wrong.contains(host) && !wrong.contains("s3cret"), "{wrong}");
        }
        let settings = of(Some("http://a/s3cret"), &[]).unwrap();
        assert!(!format!("{settings:?}").contains("s3cret"), "{settings:?}");
    }
}
