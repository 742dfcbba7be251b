//! Enumerations that later revisions may extend: a word we do not know is kept as it is.

/// Defines an enumeration of words with a last variant for unknown ones.
macro_rules! open_enum {
    ($(#[$doc:meta])* $type:ident { $($(#[$word_doc:meta])* $name:ident = $wire:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type {
            $($(#[$word_doc])* $name,)*
            /// A word we do not know, kept for the way out.
            Other(Box<str>),
        }

        impl $type {
            /// From its word on the wire.
            #[must_use]
            pub fn parse(word: &str) -> Self {
                match word {
                    $($wire => Self::$name,)*
                    other => Self::Other(other.into()),
                }
            }

            /// Its word on the wire.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self { $(Self::$name => $wire,)* Self::Other(word) => word }
            }

            /// Is it one of the words we know?
            #[must_use]
            pub fn is_known(&self) -> bool {
                !matches!(self, Self::Other(_))
            }
        }

        impl ::serde::Serialize for $type {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $type {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = <::std::borrow::Cow<'de, str> as ::serde::Deserialize>::deserialize(deserializer)?;
                Ok(Self::parse(&word))
            }
        }
    };
}

pub(crate) use open_enum;
