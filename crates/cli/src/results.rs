//! Results for people: text as it is meant, pictures drawn or told of, and what can be saved saved.

use cardan_proto::model::tool::CallToolResult;
use cardan_proto::model::{Content, GetPromptResult, Raw, ResourceContents};

use crate::failure::Failure;
use crate::look::args::{ContentArgs, Images};
use crate::look::style::{Paint, Style};
use crate::look::text::{Line, paint};
use crate::look::{Stream, Surface, json, markdown};
use crate::output::{Form, clean, print, print_json};
use crate::save::{Media, Place, save};
use crate::talk::form::one_line;

/// How a result is shown, and where to its media go.
#[derive(Debug)]
pub(crate) struct Results {
    form: Form,
    reading: Reading,
    images: Images,
    place: Option<Place>,
    /// What can be done about media that are only told of.
    hint: &'static str,
    stdout: Surface,
}

/// How text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// As it is.
    Raw,
    /// As JSON or Markdown where it plainly is.
    Guessed,
    /// All of it as Markdown.
    Markdown,
}

/// How wide a page is that is read elsewhere than at a terminal.
const PAGE: usize = 80;

impl Results {
    /// Fails where nothing could be saved, so it is made before anything is called for.
    pub(crate) fn new(form: Form, args: &ContentArgs) -> Result<Self, Failure> {
        let (stdout, form) = (Surface::stdout(), if args.lines.jsonl { Form::Json } else { form });
        let reading = match (args.raw_text, args.markdown, stdout.is_terminal()) {
            (false, true, _) => Reading::Markdown,
            (true, ..) | (false, false, false) => Reading::Raw,
            (false, false, true) => Reading::Guessed,
        };
        let place = args.output.as_deref().map(|path| Place::new(path, args.overwrite));
        place.as_ref().map_or(Ok(()), Place::check)?;
        let hint = if place.is_none() { "; save it with --output" } else { "" };
        Ok(Self { form, reading, images: args.images, place, hint, stdout })
    }

    /// For programs: what came, whatever shape it has.
    pub(crate) fn raw(&self, raw: &Raw) -> Result<(), Failure> {
        match self.form {
            Form::Json => print_json(raw.as_str()),
            Form::Text => Ok(()),
        }
    }

    /// For programs everything is said by [`Self::raw`], unless something is to be saved.
    fn is_said(&self) -> bool {
        self.form == Form::Json && self.place.is_none()
    }

    /// What a tool gave.
    pub(crate) fn called(&self, result: &CallToolResult) -> Result<(), Failure> {
        if self.is_said() {
            return Ok(());
        }
        let mut blocks: Vec<String> = result.content.iter().map(|block| self.block(block)).collect();
        let has_text = result.content.iter().any(is_text);
        if let Some(data) = result.structured_content.as_ref().filter(|_| !has_text) {
            blocks.push(self.structure(data.as_str()));
        }
        self.finish(&blocks, &Media::of_contents(&result.content))
    }

    /// What was read.
    pub(crate) fn read(&self, contents: &[ResourceContents]) -> Result<(), Failure> {
        if self.is_said() {
            return Ok(());
        }
        let blocks: Vec<String> = contents.iter().map(|contents| self.resource(contents)).collect();
        self.finish(&blocks, &contents.iter().filter_map(Media::of_resource).collect::<Vec<_>>())
    }

    /// A prompt that was filled in.
    pub(crate) fn filled(&self, result: &GetPromptResult) -> Result<(), Failure> {
        if self.is_said() {
            return Ok(());
        }
        let blocks = result.messages.iter().map(|message| {
            let role = Line::of(Style::Name, message.role.as_str()).painted(self.stdout.paint());
            let text = self.block(&message.content);
            let turn = if self.stdout.is_terminal() && text.contains('\n') { '\n' } else { ' ' };
            format!("{role}:{turn}{text}")
        });
        let media: Vec<Media<'_>> =
            result.messages.iter().filter_map(|message| Media::of_content(&message.content)).collect();
        self.finish(&blocks.collect::<Vec<_>>(), &media)
    }

    /// What came is printed before anything can go wrong with saving it.
    fn finish(&self, blocks: &[String], media: &[Media<'_>]) -> Result<(), Failure> {
        if self.form == Form::Text {
            print(&blocks.join("\n"))?;
        }
        self.place.as_ref().map_or(Ok(()), |place| save(media, place))
    }

    /// One block.
    fn block(&self, block: &Content) -> String {
        match block {
            Content::Text(text) => self.text(&text.text, None),
            Content::Image(_) | Content::Audio(_) => {
                Media::of_content(block).map(|media| self.media(&media)).unwrap_or_default()
            }
            Content::ResourceLink(link) => {
                let line = Line::from("[link to ").with(Style::Plain, &link.name).with(Style::Plain, ": ");
                self.told(line.with(Style::Link, &link.uri).with(Style::Plain, "]"))
            }
            Content::Resource(embedded) => self.resource(&embedded.resource),
            Content::ToolUse(tool) => format!("[use of tool {}]", clean(&one_line(&tool.name))),
            Content::ToolResult(result) => {
                result.content.iter().map(|block| self.block(block)).collect::<Vec<_>>().join("\n")
            }
            Content::Other(block) => {
                let kind = block.get("type").and_then(|kind| kind.as_str()).unwrap_or("unknown");
                format!("[{}, a type of content we do not know; see --json]", clean(&one_line(kind)))
            }
        }
    }

    fn resource(&self, contents: &ResourceContents) -> String {
        match contents {
            ResourceContents::Text(text) => self.text(&text.text, text.mime_type.as_deref()),
            ResourceContents::Blob(_) => {
                Media::of_resource(contents).map(|media| self.media(&media)).unwrap_or_default()
            }
        }
    }

    /// Drawn where the terminal can, else told in a line.
    fn media(&self, media: &Media<'_>) -> String {
        let graphics = self.stdout.graphics().filter(|_| self.images == Images::Auto);
        if let (Some(graphics), Ok(bytes)) = (graphics, &media.bytes)
            && let Some(drawn) = graphics.draw(media.base64, bytes)
        {
            return drawn;
        }
        let line = format!("[{}, {}{}]", media.described(), media.size(), self.hint);
        self.told(Line::of(Style::Faint, &line))
    }

    /// A line of ours in the place of what cannot be shown.
    fn told(&self, line: Line) -> String {
        let lines = match self.stdout.columns() {
            Some(columns) => line.wrapped(columns, 4),
            None => vec![line],
        };
        paint(&lines, self.stdout.paint()).trim_end_matches('\n').to_owned()
    }

    fn text(&self, text: &str, mime_type: Option<&str>) -> String {
        let said = mime_type.map(|kind| kind.split(';').next().unwrap_or_default().trim());
        let lines = match self.reading {
            Reading::Raw => return clean(text).into_owned(),
            Reading::Guessed if json::is_json(text) => json::lines(text),
            Reading::Guessed if said == Some("text/markdown") => self.page(text),
            // Whoever says what it is means it.
            Reading::Guessed
                if said.is_none_or(|kind| kind == "text/plain") && markdown::is_markdown(text) =>
            {
                self.page(text)
            }
            Reading::Guessed => return clean(text).into_owned(),
            Reading::Markdown => self.page(text),
        };
        paint(&lines, self.stdout.paint()).trim_end_matches('\n').to_owned()
    }

    fn page(&self, text: &str) -> Vec<Line> {
        markdown::lines(text, self.stdout.columns().unwrap_or(PAGE), self.stdout.paint())
    }

    fn structure(&self, json: &str) -> String {
        if self.reading == Reading::Raw {
            return crate::output::json_line(json).into_owned();
        }
        paint(&json::lines(json), self.stdout.paint()).trim_end_matches('\n').to_owned()
    }
}

/// Content in plain text, for a person who is asked about it.
pub(crate) fn quoted(blocks: &[Content]) -> String {
    let (form, reading, images, stdout) =
        (Form::Text, Reading::Raw, Images::Never, Surface::plain(Stream::Stderr));
    let plain = Results { form, reading, images, place: None, hint: "", stdout };
    blocks.iter().map(|block| plain.block(block)).collect::<Vec<_>>().join("\n")
}

fn is_text(block: &Content) -> bool {
    match block {
        Content::Text(_) => true,
        Content::Resource(embedded) => matches!(embedded.resource, ResourceContents::Text(_)),
        _ => false,
    }
}

/// JSON at a terminal, a member a line; elsewhere one line.
pub(crate) fn show_json(raw: &str) -> Result<(), Failure> {
    let stdout = Surface::stdout();
    match stdout.is_terminal() || stdout.paint() == Paint::Colors {
        true => print(&paint(&json::lines(raw), stdout.paint())),
        false => print_json(raw),
    }
}
