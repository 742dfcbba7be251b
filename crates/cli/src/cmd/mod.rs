//! The commands, one file each.

pub(crate) mod bridge;
pub(crate) mod call;
pub(crate) mod complete;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod daemon;
pub(crate) mod demo;
mod entries;
mod gateway;
mod greeting;
mod health;
pub(crate) mod info;
pub(crate) mod key;
pub(crate) mod list;
pub(crate) mod listen;
mod lock;
pub(crate) mod manual;
pub(crate) mod pin;
pub(crate) mod ping;
mod pipes;
mod place;
pub(crate) mod prompt;
pub(crate) mod raw;
pub(crate) mod read;
pub(crate) mod search;
pub(crate) mod serve;
pub(crate) mod servers;

use bytes::Bytes;
use cardan_client::CallError;
use cardan_proto::model::Raw;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::failure::Failure;
use crate::misread::meant_or;

/// Params of a call.
fn encode(params: &impl Serialize) -> Result<Bytes, Failure> {
    let written = serde_json::to_vec(params);
    written.map(Bytes::from).map_err(|error| Failure::usage(format!("cannot be sent: {error}")))
}

/// A result, where it has the shape of its method.
fn decode<T: DeserializeOwned>(raw: &Raw) -> Result<T, Failure> {
    raw.read().map_err(|error| {
        Failure::from(CallError::Shape(error.to_string()))
            .next("see it as it is with --json, and report it to the server's author")
    })
}

/// Takes the first word.
fn first(words: &mut Vec<String>, what: &str) -> Result<String, Failure> {
    if words.is_empty() {
        return Err(Failure::usage(format!("{what} is missing")).next("see --help for examples"));
    }
    Ok(words.remove(0))
}

/// Nothing may be left.
fn none_left(words: &[String]) -> Result<(), Failure> {
    match words.first() {
        Some(word) => {
            let failure = Failure::usage(format!("`{word}` is one word too many"));
            Err(failure.next(meant_or("see --help for examples")))
        }
        None => Ok(()),
    }
}
