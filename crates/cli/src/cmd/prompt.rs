//! `cardan prompt`: a prompt with its arguments filled in.

use cardan_proto::method::Method;
use cardan_proto::model::{GetPromptParams, GetPromptResult, Prompt};

use super::entries::{RawPage, name_of, wanted};
use super::{decode, encode, first};
use crate::args::PromptArgs;
use crate::arguments::{Arguments, unknown};
use crate::connect::Connection;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::results::Results;
use crate::talk;
use crate::target::Target;

pub(crate) async fn run(args: PromptArgs) -> Result<(), Failure> {
    let PromptArgs { words, args, content, options, server } = args;
    let (target, mut words) = Target::split(words, server)?;
    let name = first(&mut words, "the prompt's name")?;
    let arguments = Arguments::parse(&words, args.as_deref())?;
    let results = Results::new(options.form(), &content)?;
    let connection = Connection::open(&target, &options).await?;
    let outcome = prompt(&connection, name, arguments, &results).await;
    connection.finish(outcome).await
}

async fn prompt(
    connection: &Connection,
    name: String,
    arguments: Arguments,
    results: &Results,
) -> Result<(), Failure> {
    let pages = connection.client().pages::<RawPage>(Method::PromptsList);
    let prompts = connection.looked_up(pages.all()).await?;
    let Some(entry) = prompts.iter().find(|entry| name_of(entry).as_ref() == Some(&name)) else {
        let seen: Vec<String> = prompts.iter().filter_map(name_of).collect();
        let known: Vec<&str> = seen.iter().map(String::as_str).collect();
        return Err(unknown("prompt", &name, "the server", &known).classed(Exit::NotFound));
    };
    let prompt: Prompt = wanted("prompt", &name, entry)
        .map_err(|failure| failure.next("report it to the server's author; `cardan raw` can ask for it"))?;
    let params = fill(connection, &prompt, arguments).await?;
    let raw = connection.call(Method::PromptsGet, Some(encode(&params)?)).await?;
    results.raw(&raw)?;
    results.filled(&decode::<GetPromptResult>(&raw)?)
}

async fn fill(
    connection: &Connection,
    prompt: &Prompt,
    arguments: Arguments,
) -> Result<GetPromptParams, Failure> {
    let mut arguments = arguments.texts()?;
    let owner = format!("prompt {}", prompt.name);
    let known: Vec<&str> = prompt.arguments.iter().flatten().map(|argument| argument.name.as_str()).collect();
    if let Some(key) = arguments.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(unknown("argument", key, &owner, &known));
    }
    if let Some(console) = connection.person().console() {
        connection.unless_left(talk::arguments::of_prompt(console, prompt, &mut arguments)).await?;
    }
    if let Some(missing) = prompt.missing(Some(&arguments)) {
        let failure = Failure::usage(format!("{owner} needs /arguments/{missing}"));
        return Err(failure.next(format!("add {missing}=<text>")));
    }
    let arguments = (!arguments.is_empty()).then_some(arguments);
    Ok(GetPromptParams { name: prompt.name.clone(), arguments, ..GetPromptParams::default() })
}
