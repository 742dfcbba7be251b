//! Configuration files of every tool: no bytes panic, and a change touches nothing but what it is about.
//! The first byte chooses the tool, the rest is the file.

#![no_main]

use std::path::Path;

use cardan_config::edit::{Change, edit};
use cardan_config::resolve::{Commands, Surroundings};
use cardan_config::server::{Launch, Server, Way};
use cardan_config::{Config, File, Text, Tool, json, show};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((choice, bytes)) = input.split_first() else { return };
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let tool = Tool::ALL[usize::from(*choice) % Tool::ALL.len()];
    let path = Path::new("file");
    let _ = File::parse(Path::new("file.json"), text, None);
    let Ok(file) = File::parse(path, text, Some(tool)) else { return };
    let config = Config { servers: file.servers.clone(), ..Config::default() };
    let surroundings = Surroundings {
        env: &|_| None,
        inputs: &|_| None,
        home: None,
        workspace: None,
        commands: Commands::Refuse,
    };
    for server in &file.servers {
        let shown = json::line(&show::server(server, &config));
        assert!(serde_json::from_str::<serde_json::Value>(&shown).is_ok(), "{shown}");
        let _ = (show::summary(server), format!("{server:?}"));
        // Files that values name are not read here.
        if !text.contains("file") {
            let _ = server.resolve(&surroundings);
        }
    }
    for server in &file.servers {
        if let Ok(edited) = edit(path, text, tool, Change::Remove(&server.name)) {
            let left = File::parse(path, &edited.text, Some(tool)).expect("what was written is read");
            assert!(left.servers.len() < file.servers.len());
        }
    }
    let launch = Launch { program: Text::literal("x"), ..Launch::default() };
    let new = Server::new("never heard of", Way::Command(launch));
    if let Ok(edited) = edit(path, text, tool, Change::Add(&new)) {
        let more = File::parse(path, &edited.text, Some(tool)).expect("what was written is read");
        assert_eq!(more.servers.len(), file.servers.len() + 1);
        edit(path, &edited.text, tool, Change::Remove(&new.name)).expect("what was added can be removed");
    }
});
