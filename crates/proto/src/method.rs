//! The one table of methods: name, kind and direction. Method strings stand nowhere else.
//!
//! Which revision has which method is a question for the era module.

use std::fmt;

/// Who sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sender {
    /// The client.
    Client,
    /// The server.
    Server,
    /// Either side.
    Both,
}

/// What it is on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Answered.
    Call,
    /// Never answered.
    Note,
}

macro_rules! methods {
    ($($name:ident $kind:ident $sender:ident $wire:literal;)*) => {
        /// A method of the protocol, or the name of one we do not know.
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "the wire name in the table says it all")]
        pub enum Method { $($name,)* Other(Box<str>) }

        impl Method {
            /// Every known method.
            pub const KNOWN: &'static [Self] = &[$(Self::$name,)*];

            /// From its name on the wire.
            #[must_use]
            pub fn parse(name: &str) -> Self {
                match name {
                    $($wire => Self::$name,)*
                    other => Self::Other(other.into()),
                }
            }

            /// Its name on the wire.
            #[must_use]
            pub fn name(&self) -> &str {
                match self { $(Self::$name => $wire,)* Self::Other(name) => name }
            }

            /// Call or note, where we know.
            #[must_use]
            pub fn kind(&self) -> Option<Kind> {
                match self { $(Self::$name => Some(Kind::$kind),)* Self::Other(_) => None }
            }

            /// Who sends it, where we know.
            #[must_use]
            pub fn sender(&self) -> Option<Sender> {
                match self { $(Self::$name => Some(Sender::$sender),)* Self::Other(_) => None }
            }
        }
    };
}

methods! {
    Initialize Call Client "initialize";
    Initialized Note Client "notifications/initialized";
    Discover Call Client "server/discover";
    Ping Call Both "ping";
    ToolsList Call Client "tools/list";
    ToolsCall Call Client "tools/call";
    ResourcesList Call Client "resources/list";
    ResourcesTemplatesList Call Client "resources/templates/list";
    ResourcesRead Call Client "resources/read";
    ResourcesSubscribe Call Client "resources/subscribe";
    ResourcesUnsubscribe Call Client "resources/unsubscribe";
    SubscriptionsListen Call Client "subscriptions/listen";
    PromptsList Call Client "prompts/list";
    PromptsGet Call Client "prompts/get";
    CompletionComplete Call Client "completion/complete";
    LoggingSetLevel Call Client "logging/setLevel";
    SamplingCreateMessage Call Server "sampling/createMessage";
    RootsList Call Server "roots/list";
    ElicitationCreate Call Server "elicitation/create";
    TasksGet Call Both "tasks/get";
    TasksCancel Call Both "tasks/cancel";
    TasksResult Call Both "tasks/result";
    TasksList Call Both "tasks/list";
    TasksUpdate Call Client "tasks/update";
    SkillsList Call Client "skills/list";
    SkillsGet Call Client "skills/get";
    DirectoryRead Call Client "resources/directory/read";
    Cancelled Note Both "notifications/cancelled";
    Progress Note Both "notifications/progress";
    Message Note Server "notifications/message";
    ToolsListChanged Note Server "notifications/tools/list_changed";
    PromptsListChanged Note Server "notifications/prompts/list_changed";
    ResourcesListChanged Note Server "notifications/resources/list_changed";
    ResourcesUpdated Note Server "notifications/resources/updated";
    RootsListChanged Note Client "notifications/roots/list_changed";
    ElicitationComplete Note Server "notifications/elicitation/complete";
    TasksStatus Note Both "notifications/tasks/status";
    Tasks Note Server "notifications/tasks";
    SubscriptionsAcknowledged Note Server "notifications/subscriptions/acknowledged";
}

impl Method {
    /// One of the three requests for input, in whichever way the era carries it.
    #[must_use]
    pub fn is_ask(&self) -> bool {
        matches!(self, Self::SamplingCreateMessage | Self::RootsList | Self::ElicitationCreate)
    }

    /// May a call of this method be answered with asks? Fetching the result of a task brings those of the
    /// task, in the one revision that has it.
    #[must_use]
    pub fn may_ask(&self) -> bool {
        matches!(self, Self::ToolsCall | Self::PromptsGet | Self::ResourcesRead | Self::TasksResult)
    }

    /// A call about a task that was made before.
    #[must_use]
    pub fn is_about_task(&self) -> bool {
        matches!(
            self,
            Self::TasksGet | Self::TasksCancel | Self::TasksResult | Self::TasksList | Self::TasksUpdate
        )
    }

    /// Does its result carry cache hints?
    #[must_use]
    pub fn is_cacheable(&self) -> bool {
        matches!(
            self,
            Self::Discover
                | Self::ToolsList
                | Self::PromptsList
                | Self::ResourcesList
                | Self::ResourcesTemplatesList
                | Self::ResourcesRead
                | Self::SkillsList
                | Self::SkillsGet
                | Self::DirectoryRead
        )
    }

    /// May it be sent a second time without a second effect?
    #[must_use]
    pub fn is_safe_to_repeat(&self) -> bool {
        self.is_cacheable()
            || matches!(
                self,
                Self::Ping | Self::PromptsGet | Self::CompletionComplete | Self::TasksGet | Self::TasksList
            )
    }

    /// A note that something on the server changed.
    #[must_use]
    pub fn is_change(&self) -> bool {
        matches!(
            self,
            Self::ToolsListChanged
                | Self::PromptsListChanged
                | Self::ResourcesListChanged
                | Self::ResourcesUpdated
        )
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for method in Method::KNOWN {
            assert_eq!(&Method::parse(method.name()), method);
            assert_eq!(method.kind() == Some(Kind::Note), method.name().starts_with("notifications/"));
        }
        assert_eq!(Method::parse("x/y"), Method::Other("x/y".into()));
    }
}
