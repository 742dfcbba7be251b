//! What the exit code says. The codes are a promise: scripts branch on them.

use std::process::ExitCode;

use cardan_client::Class;
use cardan_proto::session::event::Hurdle;
use http::StatusCode;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// As wanted.
    Done,
    /// The command line, a file or an argument is wrong; nothing was sent.
    Usage,
    /// The server wants to know who we are, or does not let us.
    Auth,
    /// No session with the server.
    Unreachable,
    /// The tool ran and failed.
    ToolFailed,
    /// The server has no such tool, resource or prompt.
    NotFound,
    /// Of the configured servers some are not up.
    NotAllUp,
    /// What there is to say could not be written where it should go; whatever was called for was done.
    Unwritten,
    /// The server answered with a JSON-RPC error.
    Fault,
    /// The server broke the protocol.
    Violation,
    /// No answer in time.
    Timeout,
    /// The server ended, or closed the link.
    Exited,
    /// The server asked for input and nobody could answer.
    InputRequired,
    /// By the user; the server was told.
    Interrupted,
}

impl Exit {
    /// All of them.
    pub(crate) const ALL: [Self; 14] = [
        Self::Done,
        Self::Usage,
        Self::Auth,
        Self::Unreachable,
        Self::ToolFailed,
        Self::NotFound,
        Self::NotAllUp,
        Self::Unwritten,
        Self::Fault,
        Self::Violation,
        Self::Timeout,
        Self::Exited,
        Self::InputRequired,
        Self::Interrupted,
    ];

    /// The number that scripts see.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Usage | Self::Unwritten => 1,
            Self::Auth => 3,
            Self::Unreachable | Self::NotAllUp => 4,
            Self::ToolFailed | Self::NotFound => 5,
            Self::Fault => 10,
            Self::Violation => 11,
            Self::Timeout => 12,
            Self::Exited => 13,
            Self::InputRequired => 14,
            Self::Interrupted => 130,
        }
    }

    /// In words, first in every error that people read.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Usage => "usage",
            Self::Auth => "not authorized",
            Self::Unreachable => "unreachable",
            Self::ToolFailed => "tool error",
            Self::NotFound => "not found",
            Self::NotAllUp => "not all up",
            Self::Unwritten => "not written",
            Self::Fault => "JSON-RPC error",
            Self::Violation => "protocol violation",
            Self::Timeout => "timeout",
            Self::Exited => "server exited",
            Self::InputRequired => "input required",
            Self::Interrupted => "interrupted",
        }
    }
}

impl Exit {
    /// What to try where nothing better is known; nothing: who ends a command knows why.
    pub(crate) const fn next_step(self) -> Option<&'static str> {
        Some(match self {
            Self::Done | Self::Interrupted => return None,
            Self::Usage => "see --help for how it is written",
            Self::Auth => "give a token with --bearer-env, or what the server wants with --header",
            Self::Unreachable => "see whether the server runs, and whether its address is right",
            Self::ToolFailed => "correct the arguments, or see the server's log",
            Self::NotFound => "see what there is with `cardan list SERVER`",
            Self::NotAllUp => "see how one is configured with `cardan config explain NAME`",
            Self::Unwritten => "make room, or write elsewhere; what was called has been done",
            Self::Fault => "see what the server says, here and in its log",
            Self::Violation => "report it to the server's author, or see the server's log",
            Self::Timeout => "allow more time with --timeout",
            Self::Exited => "see what it says on stderr, or start the command by hand",
            Self::InputRequired => "answer with --answer, or at a terminal",
        })
    }

    /// How a command ends for want of a link.
    pub(crate) fn of_hurdle(hurdle: Hurdle) -> Self {
        match hurdle {
            Hurdle::Config => Self::Usage,
            Hurdle::Late => Self::Timeout,
            Hurdle::Status(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => Self::Auth,
            _ => Self::Unreachable,
        }
    }

    /// The class of a failure of which no more is known than how the command ends.
    pub(crate) const fn class(self) -> Class {
        match self {
            Self::Usage => Class::Config,
            Self::Auth => Class::AuthRequired,
            Self::Unreachable | Self::NotAllUp => Class::Connect,
            Self::ToolFailed => Class::ToolError,
            Self::NotFound | Self::InputRequired => Class::Capability,
            Self::Fault => Class::JsonRpc,
            Self::Violation => Class::Envelope,
            Self::Timeout => Class::TimeoutTotal,
            Self::Exited => Class::Exit,
            Self::Interrupted => Class::Cancelled,
            Self::Unwritten | Self::Done => Class::Internal,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}
