//! Traces of calls: where someone who serves exports them.

use std::sync::Arc;

use cardan_endpoint::Traces;
use cardan_gateway::trace::{Settings, Tracer};
use clap::Args;

use crate::cmd::config::variable;
use crate::failure::Failure;
use crate::log::{LOG, Log};

/// Where traces of calls go.
#[derive(Debug, Clone, Args)]
pub(crate) struct Telemetry {
    /// Export traces of calls to this OTLP endpoint over HTTP, such as http://127.0.0.1:4318; `off` exports none
    #[arg(long, value_name = "URL", help_heading = LOG)]
    pub(crate) otlp: Option<String>,
}

impl Telemetry {
    /// As the command line says, else a configuration, else the environment. None: nobody follows calls.
    pub(crate) fn start(&self, configured: Option<&str>, log: Log) -> Result<Option<Arc<Tracer>>, Failure> {
        let endpoint = self.otlp.as_deref().or(configured);
        let settings = Settings::of(endpoint, &variable).map_err(|wrong| {
            let next = "mend it, or say `--otlp off` to export nothing";
            Failure::usage(wrong.to_string()).next(next)
        })?;
        let Some(settings) = settings else { return Ok(None) };
        let tell = move |line: &str| log.warn("telemetry", line);
        let wrong = |error| Failure::usage(format!("traces cannot be exported: {error}"));
        Tracer::start(settings, tell).map(Some).map_err(wrong)
    }
}

/// What HTTP requests say of traces counts where calls are followed. Elsewhere calls pass untouched.
pub(crate) fn traces(tracer: Option<&Arc<Tracer>>) -> Traces {
    match tracer {
        Some(_) => Traces::Adopted,
        None => Traces::Ignored,
    }
}
