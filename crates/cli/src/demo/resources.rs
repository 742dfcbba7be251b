//! Resources: a clock, pages enough to fill several lists, and files by a template.

use cardan_proto::jsonrpc::fault::Fault;
use cardan_proto::model::{Resource, ResourceContents, ResourceTemplate};
use cardan_server::Stop;
use cardan_server::builder::Builder;
use serde_json::json;

use super::clock;

const CLOCK: &str = "demo://clock";
const TEMPLATE: &str = "demo://file/{name}";
const TEXT: &str = "text/plain";

/// A file whose reading fails, with a code that no protocol knows.
const BROKEN: &str = "broken";
const BROKEN_CODE: i64 = 7001;

/// Three pages of a list.
const PAGES: usize = 25;

/// The files behind the template.
const FILES: [(&str, &str); 4] = [
    ("readme", "Files of the demo server."),
    ("recipe", "Flour, water, salt, time."),
    ("poem", "Two shafts that do not line up\nturn as one."),
    ("numbers.csv", "n,square\n1,1\n2,4\n3,9"),
];

pub(super) fn add_to(builder: Builder) -> Builder {
    let clock = text_resource(CLOCK, "clock", "The current time.");
    let mut builder = builder.resource(clock, async |_| {
        Ok(vec![ResourceContents::text(CLOCK, clock::now()).with_mime_type(TEXT)])
    });
    for page in 1..=PAGES {
        let uri = format!("demo://page/{page}");
        let resource = text_resource(&uri, &format!("page {page}"), "A page that never changes.");
        builder = builder.resource(resource, move |_| {
            let contents = ResourceContents::text(&uri, format!("This is page {page}.")).with_mime_type(TEXT);
            async move { Ok(vec![contents]) }
        });
    }
    let mut template = ResourceTemplate::new(TEMPLATE, "file");
    template.description = Some("A file by its name.".to_owned());
    builder
        .template(template, async |uri: String, variables, _| {
            let name = variables.get("name").map(String::as_str).unwrap_or_default();
            if name == BROKEN {
                let fault = Fault::new(BROKEN_CODE, "the file is broken");
                return Err(Stop::Fault(fault.with_data(&json!({ "part": "shaft", "tries": 3 }))));
            }
            match FILES.iter().find(|(file, _)| *file == name) {
                Some((_, text)) => Ok(vec![ResourceContents::text(uri, *text).with_mime_type(TEXT)]),
                None => Err(Stop::Fault(Fault::resource_not_found(&uri))),
            }
        })
        .complete(TEMPLATE, "name", |typed, _| {
            let names = FILES.iter().map(|(name, _)| *name);
            names.filter(|name| name.starts_with(typed)).map(str::to_owned).collect()
        })
}

fn text_resource(uri: &str, name: &str, description: &str) -> Resource {
    Resource {
        description: Some(description.to_owned()),
        mime_type: Some(TEXT.to_owned()),
        ..Resource::new(uri, name)
    }
}
