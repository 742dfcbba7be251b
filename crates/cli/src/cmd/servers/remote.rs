//! `cardan servers --at URL`: how the servers of a gateway stand that runs elsewhere, as it says itself.

use std::time::Duration;

use cardan_dial::{FetchError, Http};
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval};

use super::all_up;
use super::args::ServersArgs;
use super::row::health_table;
use crate::access::Access;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupts;
use crate::look::Surface;
use crate::look::table::Frame;
use crate::output::{Form, Reader, clean, json_line, print_json, show, write};

/// Where a token is looked for.
const KEY: &str = "CARDAN_KEY";

/// How often the gateway is asked with `--watch`.
const TICK: Duration = Duration::from_secs(1);

pub(super) async fn run(at: &str, args: &ServersArgs, interrupts: &Interrupts) -> Result<(), Failure> {
    let gateway = Gateway::of(at, args)?;
    let said = tokio::select! {
        said = gateway.ask() => said?,
        () = interrupts.first() => return Err(Failure::new(Exit::Interrupted, "interrupted by the user")),
    };
    if args.watch {
        return watch(&gateway, said, args.form(), interrupts).await;
    }
    match args.form() {
        Form::Json => print_json(&said.to_string())?,
        Form::Text => show(&health_table(servers(&said), Surface::stdout().columns())).map(drop)?,
    }
    let fine = |server: &&Value| server["up"] == true || server["state"] == "asleep";
    let down: Vec<_> = servers(&said).iter().filter(|server| !fine(server)).map(name).collect();
    let down: Vec<&str> = down.iter().map(|name| &**name).collect();
    all_up(&down, servers(&said).len()).map_err(|failure| failure.next("see why in the column CAUSE"))
}

/// A gateway that runs somewhere.
struct Gateway {
    origin: String,
    http: Http,
}

impl Gateway {
    fn of(at: &str, args: &ServersArgs) -> Result<Self, Failure> {
        // Any address of a gateway will do: that of its endpoint is the one that people have.
        let origin = at.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
        let usual = std::env::var_os(KEY).map(|_| KEY.to_owned());
        let access = Access::page(args.bearer_env.clone().or(usual), args.ca.clone());
        let (http, _) = access.http(&format!("{origin}/readyz"))?;
        Ok(Self { origin, http })
    }

    async fn ask(&self) -> Result<Value, Failure> {
        let origin = &self.origin;
        let unreachable = |message: String| Failure::new(Exit::Unreachable, message);
        let (status, body) = match self.http.fetch().await {
            Ok(fetched) => fetched,
            Err(FetchError::Setup(error)) => return Err(Failure::usage(error.to_string())),
            Err(error) => {
                return Err(unreachable(format!("no gateway answers at {origin}: {error}"))
                    .next("start one with `cardan serve --config FILE`, or name the address that it tells"));
            }
        };
        let keyless = || {
            Failure::new(Exit::Auth, format!("the gateway at {origin} asks for a key")).next(format!(
                "put a good token into {KEY}, or into another variable and name it with --bearer-env"
            ))
        };
        match (status.as_u16(), serde_json::from_slice::<Value>(&body)) {
            // A bridge has one server.
            (200 | 503, Ok(said)) if said["servers"].is_array() || said["server"].is_object() => Ok(said),
            (401, _) => Err(keyless()),
            (200 | 503, Ok(said)) if is_for_strangers(&said) => Err(keyless()),
            _ => {
                Err(unreachable(format!("what answers at {origin} is no gateway of ours: it says {status}"))
                    .next("name the address of a gateway, as `cardan serve --config FILE` tells it"))
            }
        }
    }
}

/// Whether calls may come, and nothing else.
fn is_for_strangers(said: &Value) -> bool {
    said["status"].is_string() && said.as_object().is_some_and(|said| said.len() == 1)
}

/// Those of a gateway, or the one of a bridge.
fn servers(said: &Value) -> &[Value] {
    match (&said["servers"], &said["server"]) {
        (Value::Array(servers), _) => servers,
        (_, server @ Value::Object(_)) => std::slice::from_ref(server),
        _ => &[],
    }
}

fn name(server: &Value) -> String {
    clean(server["name"].as_str().unwrap_or("?")).into_owned()
}

/// What makes a difference: not how long it has been so.
fn gist(said: &Value) -> Value {
    let mut said = said.clone();
    for server in said["servers"].as_array_mut().into_iter().flatten() {
        server["since_ms"] = json!(0);
        server["catalog_age_ms"] = json!(0);
    }
    said
}

/// Shows every change, until the user has seen enough, whoever reads has, or the gateway is gone.
async fn watch(
    gateway: &Gateway,
    mut said: Value,
    form: Form,
    interrupts: &Interrupts,
) -> Result<(), Failure> {
    let mut clock = interval(TICK);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut shown, mut frame) = (Value::Null, Frame::default());
    loop {
        let stdout = Surface::stdout();
        let news = gist(&said) != shown;
        let reader = match (stdout.can_redraw(), form) {
            (true, Form::Text) => write(&frame.draw(health_table(servers(&said), stdout.columns()), stdout))?,
            (_, Form::Json) if news => write(&json_line(&said.to_string()))?,
            (false, Form::Text) if news => show(&health_table(servers(&said), stdout.columns()))?,
            (_, Form::Json) | (false, Form::Text) => Reader::There,
        };
        shown = gist(&said);
        if reader == Reader::Gone {
            return Ok(());
        }
        tokio::select! {
            _ = clock.tick() => {}
            () = interrupts.first() => return Ok(()),
        }
        said = tokio::select! {
            said = gateway.ask() => said?,
            () = interrupts.first() => return Ok(()),
        };
    }
}
