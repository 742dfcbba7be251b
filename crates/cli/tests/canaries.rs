//! A server that lets slip what it was given: the command shows none of it.

mod common;

use common::{Scratch, cardan};

const CANARY: &str = "canary-4711-abcdef";

/// Leaks on stderr, as noise, in a log note and in the fault of the call.
const SERVER: &str = r#"
reply() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$1" "$2"; }
echo "stderr has $SOME_API_KEY" >&2
echo "noise has $SOME_API_KEY"
read line
reply 1 '"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"s","version":"1"}}'
read line
printf '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"note has %s"}}\n' "$SOME_API_KEY"
while read line; do
  id=$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
  reply "$id" "\"error\":{\"code\":-32603,\"message\":\"key $SOME_API_KEY is refused\",\"data\":{\"got\":\"$SOME_API_KEY\"}}"
done
"#;

/// T27, S1-C5: neither text nor JSON, neither loud nor quiet, neither alive nor dead.
#[test]
fn the_command_shows_no_secret() {
    let env = format!("SOME_API_KEY={CANARY}");
    for (manner, server, code) in [("lives", SERVER, 10), ("dies", "echo \"$SOME_API_KEY\" >&2; exit 1", 13)]
    {
        for extra in [&[][..], &["--json"], &["-v"], &["--strict"]] {
            let words =
                [&["list", "tools", "--era", "legacy", "--env", &env], extra, &["--", "sh", "-c", server]];
            let ran = cardan(&words.concat());
            let all = format!("{}{}", ran.stdout, ran.stderr);
            assert!(!all.contains("4711"), "{manner} {extra:?}: {all}");
            assert!(all.contains("[redacted]"), "{manner} {extra:?}: it did leak: {all}");
            assert!(extra == ["--strict"] || ran.code == Some(code), "{manner} {extra:?}: {ran:?}");
        }
    }
}

/// T27: a password in an address is hidden as a whole, also where it has characters that should have been escaped.
#[test]
fn a_password_in_an_address_is_hidden_as_a_whole() {
    let scratch = Scratch::new("addresses");
    let config = scratch.file("cardan.toml");
    for scheme in ["http", "https", "ws", "wss", "tcp", "htp"] {
        for password in
            ["zebraquokka", "zebra/quokka", "zebra?quokka", "zebra#quokka", "/zebraquokka", "zebra/?#quokka"]
        {
            let address = format!("{scheme}://user:{password}@localhost:1/mcp");
            std::fs::write(&config, format!("[servers.x]\nurl = '{address}'\n")).expect("it is written");
            for words in [
                &["info", &address][..],
                &["info", &address, "--json"],
                &["call", &address, "x", "-v"],
                &["info", "x", "--config", &config],
                &["config", "list", "--config", &config],
                &["config", "explain", "x", "--config", &config],
                &["servers", "--config", &config],
            ] {
                let ran = cardan(words);
                let all = format!("{}{}", ran.stdout, ran.stderr);
                assert!(!all.contains("zebra") && !all.contains("quokka"), "{words:?}: {all}");
            }
        }
    }
}

/// T27: a token that stands alone before `@` is hidden too, and so is one behind an option that there is not.
#[test]
fn a_token_where_none_belongs_is_hidden() {
    let scratch = Scratch::new("tokens");
    let config = scratch.file("cardan.toml");
    for scheme in ["http", "https", "ws", "wss", "tcp", "htp"] {
        let address = format!("{scheme}://{CANARY}@localhost:1/mcp");
        std::fs::write(&config, format!("[servers.x]\nurl = '{address}'\n")).expect("it is written");
        for words in [
            &["info", &address][..],
            &["info", &address, "--json"],
            &["info", "x", "--config", &config],
            &["config", "list", "--config", &config],
            &["config", "explain", "x", "--config", &config],
        ] {
            let ran = cardan(words);
            let all = format!("{}{}", ran.stdout, ran.stderr);
            assert!(!all.contains("4711"), "{words:?}: {all}");
        }
    }
    let header = format!("Authorization: Bearer {CANARY}");
    let variable = format!("API_KEY={CANARY}");
    for words in [
        &["--token", CANARY][..],
        &["--haeder", &header],
        &["--haeder", &header, "--json"],
        &["--evn", &variable],
        &["--evn", &variable, "--jsonl", "sh"],
    ] {
        let ran = cardan(&[&["call", "https://localhost:1/mcp", "t"], words].concat()).exits(1);
        let all = format!("{}{}", ran.stdout, ran.stderr);
        assert!(!all.contains("4711") && all.contains("did you mean"), "{words:?}: {all}");
    }
}

/// T27: a credential in a header is known without its scheme as well: a server that says the bare token is not shown.
#[test]
fn a_header_hides_its_bare_token() {
    use std::io::{Read, Write};
    let door = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}/mcp", door.local_addr().expect("it is bound"));
    std::thread::spawn(move || {
        for mut stream in door.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let body = format!("who is {CANARY}?");
            let head =
                format!("HTTP/1.1 403 Forbidden\r\nContent-Length: {}\r\nConnection: close", body.len());
            let _ = stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes());
        }
    });
    let header = format!("Authorization: Bearer {CANARY}");
    for extra in [&[][..], &["--json"], &["-v"]] {
        let ran = cardan(&[&["info", "--header", &header], extra, &[&url]].concat());
        let all = format!("{}{}", ran.stdout, ran.stderr);
        assert!(!all.contains("4711"), "{extra:?}: {all}");
        assert!(all.contains("[redacted]"), "{extra:?}: it did leak: {all}");
    }
}
