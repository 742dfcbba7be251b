//! A typed object that is an object on the wire too.
//!
//! Derived readers take an array for a struct, member by member. On the wire that is a mistake.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Reads `T` from an object only.
#[derive(Debug, Default)]
pub(crate) struct Object<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members(PhantomData))
    }
}

struct Members<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Wire<'a> {
        name: &'a str,
        #[serde(borrow, default)]
        rest: Option<&'a serde_json::value::RawValue>,
    }

    #[test]
    fn arrays_are_no_objects() {
        assert!(serde_json::from_str::<Wire<'_>>(r#"["a",{}]"#).is_ok(), "which is why this module exists");
        assert!(serde_json::from_str::<Object<Wire<'_>>>(r#"["a",{}]"#).is_err());
        let Object(wire) = serde_json::from_str::<Object<Wire<'_>>>(r#"{"name":"a","rest":[1.50]}"#).unwrap();
        assert_eq!((wire.name, wire.rest.map(|rest| rest.get())), ("a", Some("[1.50]")));
    }
}
