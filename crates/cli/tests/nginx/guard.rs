//! By which name the proxy calls us, and what the guard makes of it: the table in `docs/behind-a-proxy.md`.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::common::Serving;
use crate::proxy::{self, Nginx};

/// The status of a request for a page that does not exist: 404 where the guard lets it pass, 403 where not.
fn status(nginx: &Nginx, headers: &[&str]) -> u16 {
    let mut stream = TcpStream::connect(&nginx.address).unwrap();
    let headers = headers.join("\r\n");
    write!(stream, "GET /nowhere HTTP/1.1\r\nConnection: close\r\n{headers}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

const HOST: &str = "Host: mcp.example.org";
const OWN_PAGE: &str = "Origin: https://mcp.example.org";
const OTHER_PAGE: &str = "Origin: https://app.example.org";

/// T1, T2: behind a proxy the guard judges the name that the proxy passes on, and pages by their origin all the same.
#[test]
fn t1_the_guard_judges_what_the_proxy_passes_on() {
    if !proxy::installed() {
        return;
    }
    let passing = "proxy_set_header Host $host;";
    let allowing: &[&str] = &["--allow-host", "mcp.example.org"];
    let page: &[&str] = &["--allow-origin", "https://app.example.org"];
    // Options of ours, configuration of nginx; then without a page, with the page of that name, with another.
    let table: [(&[&str], &str, [u16; 3]); 5] = [
        // nginx calls us by our own address, so programs pass; pages are foreign to that address.
        (&[], "", [404, 403, 403]),
        // The name is passed on, and nobody said that it is ours.
        (&[], passing, [403, 403, 403]),
        (allowing, passing, [404, 404, 403]),
        (page, "", [404, 403, 404]),
        (&[allowing, page].concat(), passing, [404, 404, 404]),
    ];
    for (at, (options, config, [program, own, other])) in table.into_iter().enumerate() {
        let serving = Serving::start(options);
        let nginx = Nginx::start(&format!("guard-{at}"), &serving.address, config);
        assert_eq!(status(&nginx, &[HOST]), program, "{options:?} {config}: no page");
        assert_eq!(status(&nginx, &[HOST, OWN_PAGE]), own, "{options:?} {config}: its own page");
        assert_eq!(status(&nginx, &[HOST, OTHER_PAGE]), other, "{options:?} {config}: another page");
    }
}
