//! What each tool calls what: one table, used for reading and for writing.

use crate::tool::Tool;

/// What a key of a server's table means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    Type,
    Command,
    Args,
    Env,
    /// Names to remove from the environment.
    EnvUnset,
    /// Names to pass on.
    EnvPass,
    EnvFile,
    EnvPolicy,
    Cwd,
    Url,
    /// Gemini: an address that is Streamable HTTP.
    HttpUrl,
    Headers,
    /// Codex: headers whose values are names of variables.
    HeaderEnv,
    HeadersHelper,
    BearerEnv,
    Ca,
    Enabled,
    Disabled,
    Start(Unit),
    Call(Unit),
    /// A table of rules.
    Tools,
    /// The same for prompts.
    Prompts,
    /// The same for resources and templates.
    Resources,
    Allow,
    Deny,
    Era,
    Revision,
    Dialect,
    Lazy,
    IdleStop,
    Concurrency,
    Sessions,
    Reconnect,
    Isolation,
    Extra,
}

/// In what a time is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// A number of seconds, or text with its unit: `500ms`, `10s`, `2m`, `1h`.
    Any,
    Seconds,
    Milliseconds,
}

use Field as F;

/// What most tools say.
const COMMON: &[(&str, Field)] = &[
    ("type", F::Type),
    ("command", F::Command),
    ("args", F::Args),
    ("env", F::Env),
    ("cwd", F::Cwd),
    ("url", F::Url),
    ("headers", F::Headers),
];

const CARDAN: &[(&str, Field)] = &[
    ("type", F::Type),
    ("command", F::Command),
    ("args", F::Args),
    ("env", F::Env),
    ("env_unset", F::EnvUnset),
    ("env_pass", F::EnvPass),
    ("env_file", F::EnvFile),
    ("env_policy", F::EnvPolicy),
    ("cwd", F::Cwd),
    ("url", F::Url),
    ("headers", F::Headers),
    ("headers_helper", F::HeadersHelper),
    ("bearer_env", F::BearerEnv),
    ("ca", F::Ca),
    ("enabled", F::Enabled),
    ("start_timeout", F::Start(Unit::Any)),
    ("call_timeout", F::Call(Unit::Any)),
    ("tools", F::Tools),
    ("prompts", F::Prompts),
    ("resources", F::Resources),
    ("era", F::Era),
    ("revision", F::Revision),
    ("dialect", F::Dialect),
    ("lazy", F::Lazy),
    ("idle_stop", F::IdleStop),
    ("concurrency", F::Concurrency),
    ("sessions", F::Sessions),
    ("reconnect", F::Reconnect),
    ("isolation", F::Isolation),
    ("extra", F::Extra),
];

/// What a tool says in its own way; this goes before what most say.
fn own(tool: Tool) -> &'static [(&'static str, Field)] {
    match tool {
        Tool::Cardan => CARDAN,
        Tool::ClaudeDesktop => &[],
        Tool::ClaudeCode => &[("headersHelper", F::HeadersHelper), ("timeout", F::Call(Unit::Milliseconds))],
        Tool::VsCode => &[("envFile", F::EnvFile)],
        Tool::Cursor => &[("envFile", F::EnvFile)],
        Tool::Windsurf => &[("serverUrl", F::Url), ("disabled", F::Disabled), ("disabledTools", F::Deny)],
        Tool::Codex => &[
            ("env_vars", F::EnvPass),
            ("http_headers", F::Headers),
            ("env_http_headers", F::HeaderEnv),
            ("bearer_token_env_var", F::BearerEnv),
            ("enabled", F::Enabled),
            ("startup_timeout_sec", F::Start(Unit::Seconds)),
            ("startup_timeout_ms", F::Start(Unit::Milliseconds)),
            ("tool_timeout_sec", F::Call(Unit::Seconds)),
            ("enabled_tools", F::Allow),
            ("disabled_tools", F::Deny),
        ],
        Tool::Gemini => &[
            ("httpUrl", F::HttpUrl),
            ("timeout", F::Call(Unit::Milliseconds)),
            ("includeTools", F::Allow),
            ("excludeTools", F::Deny),
        ],
        Tool::OpenCode => &[
            ("environment", F::Env),
            ("enabled", F::Enabled),
            ("disabled", F::Disabled),
            ("timeout", F::Start(Unit::Milliseconds)),
        ],
        Tool::Inspector => &[
            ("protocolEra", F::Era),
            ("connectionTimeout", F::Start(Unit::Milliseconds)),
            ("requestTimeout", F::Call(Unit::Milliseconds)),
        ],
        Tool::Mcporter => &[
            ("baseUrl", F::Url),
            ("bearerTokenEnv", F::BearerEnv),
            ("allowedTools", F::Allow),
            ("blockedTools", F::Deny),
        ],
        Tool::OhMyPi => &[
            ("enabled", F::Enabled),
            ("timeout", F::Call(Unit::Milliseconds)),
            ("enabledTools", F::Allow),
            ("disabledTools", F::Deny),
        ],
    }
}

/// What is understood in any tool's file: snippets are pasted into the wrong one.
const STRAYS: &[(&str, Field)] = &[
    ("transport", F::Type),
    ("environment", F::Env),
    ("envFile", F::EnvFile),
    ("serverUrl", F::Url),
    ("httpUrl", F::HttpUrl),
    ("baseUrl", F::Url),
    // S1-48: what the clients of one of the texts that we started from have.
    ("endpoint", F::Url),
    ("requestTimeout", F::Call(Unit::Milliseconds)),
    ("timeoutMs", F::Call(Unit::Milliseconds)),
    ("headersHelper", F::HeadersHelper),
    ("enabled", F::Enabled),
    ("disabled", F::Disabled),
];

/// What a key means in a tool's file.
pub(crate) fn field(tool: Tool, key: &str) -> Option<Field> {
    let find = |table: &[(&str, Field)]| table.iter().find(|(name, _)| *name == key).map(|(_, field)| *field);
    let known = find(own(tool));
    if tool == Tool::Cardan {
        return known;
    }
    known.or_else(|| find(COMMON)).or_else(|| find(STRAYS))
}

/// What a tool calls it; None where it has no word for it.
pub(crate) fn name(tool: Tool, field: Field) -> Option<&'static str> {
    let find = |table: &'static [(&'static str, Field)]| {
        table.iter().find(|(_, known)| *known == field).map(|(name, _)| *name)
    };
    find(own(tool)).or_else(|| if tool == Tool::Cardan { None } else { find(COMMON) })
}

/// The keys of a server in `cardan.toml`.
pub(crate) fn of_cardan() -> impl Iterator<Item = &'static str> {
    CARDAN.iter().map(|(name, _)| *name)
}

/// The keys of `[defaults]`.
pub(crate) const DEFAULTS: [&str; 11] = [
    "start_timeout",
    "call_timeout",
    "era",
    "revision",
    "dialect",
    "env_policy",
    "lazy",
    "idle_stop",
    "concurrency",
    "sessions",
    "reconnect",
];
