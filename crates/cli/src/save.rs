//! Images, sounds and blobs as files. Names are ours: nothing that a server says becomes a path.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use cardan_proto::model::{Content, ResourceContents};

use crate::failure::Failure;
use crate::output::tell;

/// Something that is no text.
#[derive(Debug)]
pub(crate) struct Media<'a> {
    kind: Kind,
    /// Of a blob.
    uri: Option<&'a str>,
    mime_type: Option<&'a str>,
    pub(crate) base64: &'a str,
    /// What it stands for, if it stands for anything.
    pub(crate) bytes: Result<Vec<u8>, NotBase64>,
}

/// The server did not encode it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NotBase64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Image,
    Audio,
    Blob,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Audio => "audio",
            Self::Blob => "blob",
        }
    }
}

impl<'a> Media<'a> {
    /// All there are, in their order.
    pub(crate) fn of_contents(blocks: &'a [Content]) -> Vec<Self> {
        let each = blocks.iter().flat_map(|block| match block {
            Content::ToolResult(result) => Self::of_contents(&result.content),
            block => Self::of_content(block).into_iter().collect(),
        });
        each.collect()
    }

    pub(crate) fn of_content(block: &'a Content) -> Option<Self> {
        let (kind, media) = match block {
            Content::Image(media) => (Kind::Image, media),
            Content::Audio(media) => (Kind::Audio, media),
            Content::Resource(embedded) => return Self::of_resource(&embedded.resource),
            _ => return None,
        };
        let (mime_type, bytes) = (Some(media.mime_type.as_str()), media.bytes().map_err(|_| NotBase64));
        Some(Self { kind, uri: None, mime_type, base64: &media.data, bytes })
    }

    pub(crate) fn of_resource(contents: &'a ResourceContents) -> Option<Self> {
        let ResourceContents::Blob(blob) = contents else { return None };
        let (mime_type, bytes) = (blob.mime_type.as_deref(), blob.bytes().map_err(|_| NotBase64));
        Some(Self { kind: Kind::Blob, uri: Some(&blob.uri), mime_type, base64: &blob.blob, bytes })
    }

    /// What it is, in a few words.
    pub(crate) fn described(&self) -> String {
        let uri = self.uri.map_or_else(String::new, |uri| format!(" {uri}"));
        format!("{}{uri}, {}", self.kind.name(), self.mime_type.unwrap_or("unknown type"))
    }

    pub(crate) fn size(&self) -> String {
        match &self.bytes {
            Ok(bytes) => format!("{} bytes", grouped(bytes.len())),
            Err(NotBase64) => "not valid base64".to_owned(),
        }
    }
}

/// With a comma between thousands.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Where files go.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
    existing: Existing,
}

/// What happens to a file that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Existing {
    Kept,
    Replaced,
}

impl Place {
    pub(crate) fn new(path: &Path, overwrite: bool) -> Self {
        let existing = if overwrite { Existing::Replaced } else { Existing::Kept };
        Self { path: path.to_owned(), existing }
    }

    /// Looks whether something can be saved there, before anything is called for.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let wrong = |why: &str, next: &str| {
            let message = format!("cannot save to {}: {why}", self.path.display());
            Err(Failure::usage(message).next(next))
        };
        if self.path.as_os_str() == "-" {
            return wrong("that is no place for files", "name a file or a directory; a file called - is ./-");
        }
        // With a / at its end a file would not be found.
        let there = fs::metadata(self.path.components().as_path());
        match (self.is_directory(), &there) {
            (true, Ok(about)) if !about.is_dir() => {
                wrong("it is no directory", "leave the / at its end away")
            }
            (true, _) => Ok(()),
            // A link that leads nowhere is in the way, too.
            (false, _) if self.existing == Existing::Kept && fs::symlink_metadata(&self.path).is_ok() => {
                wrong("it exists", TAKEN)
            }
            (false, Ok(_)) => Ok(()),
            (false, Err(_)) => match self.path.parent() {
                Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
                    wrong("its directory does not exist", "make the directory first, or name another")
                }
                _ => Ok(()),
            },
        }
    }

    /// A directory, or what is written like one.
    fn is_directory(&self) -> bool {
        self.path.is_dir() || self.path.to_string_lossy().ends_with('/')
    }

    /// A file to write to, and its name. In a directory another name is found where one is taken.
    fn open(&self, nth: usize, media: &Media<'_>) -> io::Result<(File, PathBuf)> {
        if !self.is_directory() {
            return Ok((self.create(&self.path)?, self.path.clone()));
        }
        fs::create_dir_all(&self.path)?;
        let (name, end) = (media.kind.name(), extension(media.mime_type.unwrap_or_default()));
        for turn in 1..=MAX_NAMES {
            let again = if turn == 1 { String::new() } else { format!("-{turn}") };
            let path = self.path.join(format!("{name}-{nth}{again}.{end}"));
            match self.create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                file => return Ok((file?, path)),
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "all names are taken"))
    }

    fn create(&self, path: &Path) -> io::Result<File> {
        match self.existing {
            Existing::Kept => OpenOptions::new().write(true).create_new(true).open(path),
            Existing::Replaced => File::create(path),
        }
    }
}

/// What to do where a file is in the way.
const TAKEN: &str = "choose another name, or replace it with --overwrite";

/// How many names are tried before a directory counts as full.
const MAX_NAMES: usize = 1000;

/// Saves all of them, and tells where.
pub(crate) fn save(media: &[Media<'_>], place: &Place) -> Result<(), Failure> {
    if media.is_empty() {
        tell("nothing to save: the result has no image, sound or blob");
        return Ok(());
    }
    if media.len() > 1 && !place.is_directory() {
        let message = format!("{} cannot be saved as one file, {}", media.len(), place.path.display());
        return Err(Failure::unwritten(message).next("name a directory, with / at its end"));
    }
    let mut unsaved = 0;
    for (at, media) in media.iter().enumerate() {
        let Ok(bytes) = &media.bytes else {
            tell(&format!("not saved: {}, {}", media.described(), media.size()));
            unsaved += 1;
            continue;
        };
        let written = place.open(at + 1, media).and_then(|(mut file, path)| {
            file.write_all(bytes)?;
            Ok(path)
        });
        match written {
            Ok(path) => tell(&format!("saved {}: {}, {}", path.display(), media.described(), media.size())),
            Err(error) => return Err(unwritten(place, &error)),
        }
    }
    if unsaved > 0 {
        let message =
            format!("{unsaved} of {} could not be saved: the server sent no valid base64", media.len());
        return Err(Failure::unwritten(message).next("report it to the server's author"));
    }
    Ok(())
}

fn unwritten(place: &Place, error: &io::Error) -> Failure {
    let failure = Failure::unwritten(format!("cannot save to {}: {error}", place.path.display()));
    failure.next(match error.kind() {
        io::ErrorKind::AlreadyExists => TAKEN,
        _ => "name a place that can be written to",
    })
}

/// How files of a type end. An unknown type says nothing of its name.
fn extension(mime_type: &str) -> &'static str {
    let essence = mime_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.as_str() {
        "image/png" => "png",
        "image/jpeg" | "image/jpg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        "image/svg+xml" => "svg",
        "image/bmp" => "bmp",
        "image/tiff" => "tiff",
        "image/avif" => "avif",
        "audio/wav" | "audio/x-wav" | "audio/wave" | "audio/vnd.wave" => "wav",
        "audio/mpeg" | "audio/mp3" => "mp3",
        "audio/ogg" => "ogg",
        "audio/flac" | "audio/x-flac" => "flac",
        "audio/mp4" | "audio/aac" => "m4a",
        "audio/webm" => "weba",
        "video/mp4" => "mp4",
        "video/webm" => "webm",
        "application/pdf" => "pdf",
        "application/zip" => "zip",
        "application/gzip" | "application/x-gzip" => "gz",
        "application/json" => "json",
        "application/xml" | "text/xml" => "xml",
        "text/html" => "html",
        "text/csv" => "csv",
        "text/markdown" => "md",
        "text/plain" => "txt",
        _ => "bin",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CLI-56: a file ends as its type does, and never as a server would like it to.
    #[test]
    fn a_file_ends_as_its_type_does() {
        let rows =
            [("image/png", "png"), ("Image/JPEG; q=1", "jpg"), ("../../etc/passwd", "bin"), ("", "bin")];
        for (kind, end) in rows {
            assert_eq!(extension(kind), end, "{kind}");
        }
        assert_eq!([0, 999, 1234, 1_234_567].map(grouped), ["0", "999", "1,234", "1,234,567"]);
    }
}
