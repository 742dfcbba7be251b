//! Building the fields of a form.

use serde_json::{Number, Value};

use super::form::{Field, FieldType, Items, StringFormat, Titled};

impl Field {
    /// Text.
    #[must_use]
    pub fn string() -> Self {
        Self::of(FieldType::String)
    }

    /// A whole number.
    #[must_use]
    pub fn integer() -> Self {
        Self::of(FieldType::Integer)
    }

    /// A number.
    #[must_use]
    pub fn number() -> Self {
        Self::of(FieldType::Number)
    }

    /// Yes or no.
    #[must_use]
    pub fn boolean() -> Self {
        Self::of(FieldType::Boolean)
    }

    /// One of some values.
    pub fn choice<T: Into<String>>(values: impl IntoIterator<Item = T>) -> Self {
        Self { r#enum: Some(values.into_iter().map(Into::into).collect()), ..Self::string() }
    }

    /// Since 2025-11-25: one of some values, each shown by its title.
    pub fn titled_choice<V: Into<String>, T: Into<String>>(
        choices: impl IntoIterator<Item = (V, T)>,
    ) -> Self {
        Self { one_of: Some(titled(choices)), ..Self::string() }
    }

    /// Since 2025-11-25: several of some values.
    pub fn choices<T: Into<String>>(values: impl IntoIterator<Item = T>) -> Self {
        let values = values.into_iter().map(Into::into).collect();
        let items = Items { r#type: Some(FieldType::String), r#enum: Some(values), any_of: None };
        Self { items: Some(items), ..Self::of(FieldType::Array) }
    }

    /// Since 2025-11-25: several of some values, each shown by its title.
    pub fn titled_choices<V: Into<String>, T: Into<String>>(
        choices: impl IntoIterator<Item = (V, T)>,
    ) -> Self {
        let items = Items { any_of: Some(titled(choices)), ..Items::default() };
        Self { items: Some(items), ..Self::of(FieldType::Array) }
    }

    /// With a title.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// With a description.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Text: how it is written.
    #[must_use]
    pub fn format(mut self, format: StringFormat) -> Self {
        self.format = Some(format);
        self
    }

    /// Text: fewest and most characters.
    #[must_use]
    pub fn length(mut self, min: Option<u64>, max: Option<u64>) -> Self {
        (self.min_length, self.max_length) = (min, max);
        self
    }

    /// Numbers: the least.
    #[must_use]
    pub fn minimum(mut self, least: impl Into<Number>) -> Self {
        self.minimum = Some(least.into());
        self
    }

    /// Numbers: the greatest.
    #[must_use]
    pub fn maximum(mut self, greatest: impl Into<Number>) -> Self {
        self.maximum = Some(greatest.into());
        self
    }

    /// Several choices: fewest and most.
    #[must_use]
    pub fn count(mut self, min: Option<u64>, max: Option<u64>) -> Self {
        (self.min_items, self.max_items) = (min, max);
        self
    }

    /// Filled in at the start. Before 2025-11-25 only a yes or no can have one.
    #[must_use]
    pub fn default(mut self, value: impl Into<Value>) -> Self {
        self.default = Some(value.into());
        self
    }

    /// The values that can be chosen, when it is a choice.
    #[must_use]
    pub fn values(&self) -> Option<Vec<&str>> {
        let items = self.items.as_ref();
        let plain = self.r#enum.as_ref().or_else(|| items?.r#enum.as_ref());
        let titled = self.one_of.as_ref().or_else(|| items?.any_of.as_ref());
        match (plain, titled) {
            (Some(plain), _) => Some(plain.iter().map(String::as_str).collect()),
            (None, Some(titled)) => Some(titled.iter().map(|choice| choice.r#const.as_str()).collect()),
            (None, None) => None,
        }
    }

    fn of(kind: FieldType) -> Self {
        Self {
            r#type: kind,
            title: None,
            description: None,
            format: None,
            min_length: None,
            max_length: None,
            minimum: None,
            maximum: None,
            r#enum: None,
            enum_names: None,
            one_of: None,
            items: None,
            min_items: None,
            max_items: None,
            default: None,
        }
    }
}

fn titled<V: Into<String>, T: Into<String>>(choices: impl IntoIterator<Item = (V, T)>) -> Vec<Titled> {
    choices.into_iter().map(|(value, title)| Titled { r#const: value.into(), title: title.into() }).collect()
}
