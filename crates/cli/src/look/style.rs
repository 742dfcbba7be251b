//! What is bold, faint or red: the one table of styles.

/// What a piece of text is. How that looks is said below and nowhere else.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Style {
    #[default]
    Plain,
    /// A heading of our own, or of a document.
    Heading,
    /// What can be typed: the name of a tool, an address.
    Name,
    /// What has to be given.
    Required,
    /// What may be given, and what is said beside.
    Faint,
    /// As wished.
    Good,
    /// Worth a look.
    Warning,
    /// Wrong, or dangerous.
    Bad,
    Strong,
    Emphasis,
    Struck,
    Code,
    Link,
    /// JSON.
    Key,
    Text,
    Number,
    Word,
}

/// Are there colours?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    Plain,
    Colors,
}

/// Back to what the terminal usually does.
pub(crate) const RESET: &str = "\x1b[0m";

impl Style {
    /// The sequence that begins it. The sixteen colours of the terminal's own choice, so that every theme fits.
    pub(crate) const fn sequence(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Heading => "\x1b[1;4m",
            Self::Name | Self::Strong => "\x1b[1m",
            Self::Required | Self::Number => "\x1b[36m",
            Self::Faint => "\x1b[2m",
            Self::Good | Self::Text => "\x1b[32m",
            Self::Warning | Self::Code => "\x1b[33m",
            Self::Bad => "\x1b[31m",
            Self::Emphasis => "\x1b[3m",
            Self::Struck => "\x1b[9m",
            Self::Link => "\x1b[4;34m",
            Self::Key => "\x1b[34m",
            Self::Word => "\x1b[35m",
        }
    }
}
