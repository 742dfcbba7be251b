//! `cardan complete`: what a server proposes for an argument of a prompt or a template.

use std::time::Duration;

use cardan_proto::method::Method;
use cardan_proto::model::Prompt;
use cardan_proto::model::complete::{
    CompleteArgument, CompleteContext, CompleteParams, CompleteResult, Reference,
};
use cardan_proto::model::uri_template::UriTemplate;
use cardan_proto::session::event::Delivery;
use clap::Args;
use tokio::time::timeout;

use super::{decode, encode, first};
use crate::args::{Options, Server};
use crate::arguments::{Arguments, unknown};
use crate::connect::Connection;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{self, Form, clean, tell};
use crate::target::Target;

#[derive(Debug, Args)]
#[command(
    override_usage = "cardan complete [OPTIONS] <NAME> <KEY=VALUE>... -- <COMMAND>...\n       \
                      cardan complete [OPTIONS] <SERVER> <NAME> <KEY=VALUE>...",
    after_help = "\
NAME is a prompt, or the template of a resource if it holds `://`. The first pair is the argument and what is typed so far; the \
others are arguments that are filled in already.

Examples:
  cardan complete greet name=A -- cardan demo
  cardan complete 'demo://file/{name}' name= -- cardan demo"
)]
pub(crate) struct CompleteArgs {
    /// The prompt or template, the argument, and those filled in; first the server, unless a command follows `--`
    #[arg(value_name = "WORD", required = true)]
    words: Vec<String>,
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(flatten)]
    server: Server,
}

pub(crate) async fn run(args: CompleteArgs) -> Result<(), Failure> {
    let CompleteArgs { words, options, server } = args;
    let (target, mut words) = Target::split(words, server)?;
    let of = first(&mut words, "the prompt or template")?;
    let params = params(of, words)?;
    let connection = Connection::open(&target, &options).await?;
    let outcome = complete(&connection, &params, options.form()).await;
    connection.finish(outcome).await
}

/// What is asked for, from the prompt or template and the pairs behind it.
pub(crate) fn params(of: String, mut words: Vec<String>) -> Result<CompleteParams, Failure> {
    let pair = first(&mut words, "the argument")?;
    let Some((name, typed)) = pair.split_once('=') else {
        return Err(Failure::usage(format!("`{pair}` does not say what is typed so far"))
            .next(format!("write {pair}=, or {pair}=<the first letters>")));
    };
    let argument = CompleteArgument { name: name.to_owned(), value: typed.to_owned() };
    let known = Arguments::parse(&words, None)?.texts()?;
    let context = (!known.is_empty()).then_some(CompleteContext { arguments: Some(known) });
    let reference = match of.contains("://") {
        true => Reference::Resource { uri: of },
        false => Reference::Prompt { name: of, title: None },
    };
    Ok(CompleteParams { reference, argument, context, meta: None })
}

/// How long advice may take.
const ADVICE: Duration = Duration::from_secs(2);

/// What of the question the server does not have, by its own lists: looked up only where it has answered and proposes nothing.
async fn unknown_of(connection: &Connection, params: &CompleteParams) -> Option<Failure> {
    let argument = params.argument.name.as_str();
    let (what, name, known) = match &params.reference {
        Reference::Prompt { name, .. } => {
            let prompts = timeout(ADVICE, connection.client().all_prompts()).await.ok()?.ok()?;
            let arguments = |prompt: Prompt| {
                (prompt.name, prompt.arguments.into_iter().flatten().map(|argument| argument.name).collect())
            };
            ("prompt", name, prompts.into_iter().map(arguments).collect::<Vec<(String, Vec<String>)>>())
        }
        // Without variables it is a resource, of which there is nothing to propose.
        Reference::Resource { uri } if uri.contains('{') => {
            let templates = timeout(ADVICE, connection.client().all_templates()).await.ok()?.ok()?;
            let variables = |uri: String| {
                let names = UriTemplate::parse(&uri)
                    .map(|template| template.variables().map(str::to_owned).collect());
                (uri, names.unwrap_or_default())
            };
            (
                "template",
                uri,
                templates.into_iter().map(|template| variables(template.uri_template)).collect(),
            )
        }
        _ => return None,
    };
    let names: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
    let Some((_, arguments)) = known.iter().find(|(known, _)| known == name) else {
        return Some(
            unknown(what, name, "the server", &names).classed(Exit::NotFound).delivered(Delivery::Sent),
        );
    };
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let owner = format!("{what} {name}");
    (!arguments.contains(&argument)).then(|| {
        unknown("argument", argument, &owner, &arguments).classed(Exit::NotFound).delivered(Delivery::Sent)
    })
}

async fn complete(connection: &Connection, params: &CompleteParams, form: Form) -> Result<(), Failure> {
    let raw = match connection.call(Method::CompletionComplete, Some(encode(params)?)).await {
        Ok(raw) => raw,
        // Servers say in many ways that they do not know something, and in none that could be relied on.
        Err(failure) if failure.exit() == Exit::Fault => {
            return Err(unknown_of(connection, params).await.unwrap_or(failure));
        }
        Err(failure) => return Err(failure),
    };
    if form == Form::Json {
        return output::print_json(raw.as_str());
    }
    let completion = decode::<CompleteResult>(&raw)?.completion;
    if completion.values.is_empty()
        && let Some(failure) = unknown_of(connection, params).await
    {
        return Err(failure);
    }
    // A value is a line.
    let values: Vec<_> = completion.values.iter().map(|value| clean(value).replace('\n', "\\n")).collect();
    output::print(&values.join("\n"))?;
    match (completion.total, completion.has_more) {
        (Some(total), _) if total > completion.values.len() as u64 => {
            tell(&format!("{} of {total}; type more to see others", completion.values.len()));
        }
        (_, Some(true)) => tell("there are more; type more to see them"),
        _ => {}
    }
    Ok(())
}
