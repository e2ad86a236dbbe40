//! A place in an object: its value, and the path that leads there.

use std::fmt;

use serde_json::Value;

/// A value and where it stands. The path is only written out when something has to be said about it.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    /// What is there.
    pub(super) value: &'a Value,
    up: Option<&'a At<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Field(&'a str),
    Item(usize),
}

impl<'a> At<'a> {
    /// The value everything else is part of.
    pub(super) fn root(value: &'a Value) -> Self {
        Self { value, up: None, step: Step::Field("") }
    }

    /// A field that is there and not `null`. Of anything but an object: none.
    pub(super) fn field<'b>(&'b self, name: &'b str) -> Option<At<'b>> {
        let value = self.value.get(name).filter(|value| !value.is_null())?;
        Some(At { value, up: Some(self), step: Step::Field(name) })
    }

    /// A field that need not be there; if it is not, its value is `null`.
    pub(super) fn place<'b>(&'b self, name: &'b str) -> At<'b> {
        At { value: self.value.get(name).unwrap_or(&Value::Null), up: Some(self), step: Step::Field(name) }
    }

    /// The fields that are not `null`; of anything but an object: none.
    pub(super) fn fields(&self) -> impl Iterator<Item = At<'_>> {
        let fields = self.value.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
        fields.map(|(name, value)| At { value, up: Some(self), step: Step::Field(name) })
    }

    /// The items, if this is a list.
    pub(super) fn items(&self) -> Option<impl Iterator<Item = At<'_>>> {
        let items = self.value.as_array()?;
        Some(items.iter().enumerate().map(|(at, value)| At { value, up: Some(self), step: Step::Item(at) }))
    }

    /// The name of this field; empty for anything else.
    pub(super) fn name(&self) -> &'a str {
        match self.step {
            Step::Field(name) => name,
            Step::Item(_) => "",
        }
    }

    /// The text here, if it is one.
    pub(super) fn text(&self) -> Option<&'a str> {
        self.value.as_str()
    }

    /// What is here, in a few words.
    pub(super) fn found(&self) -> String {
        found(self.value)
    }
}

/// The path: `spec.ingress[0].from[1]`.
impl fmt::Display for At<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(up) = self.up else { return Ok(()) };
        up.fmt(to)?;
        match self.step {
            Step::Field(name) if up.up.is_none() => to.write_str(name),
            Step::Field(name) => write!(to, ".{name}"),
            Step::Item(at) => write!(to, "[{at}]"),
        }
    }
}

/// Longest text of somebody else's that is repeated.
const EXCERPT: usize = 60;

/// A value in a few words, however large it is.
fn found(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) if text.chars().nth(EXCERPT).is_none() => format!("`{text}`"),
        Value::String(text) => format!("`{}…`", text.chars().take(EXCERPT).collect::<String>()),
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(fields) => match fields.keys().next() {
            None => "an object without fields".to_owned(),
            Some(name) => format!("an object with `{}`", name.chars().take(EXCERPT).collect::<String>()),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_reads_as_in_the_manifest() {
        let value = json!({"spec": {"ingress": [{}, {"from": ["x"]}]}});
        let root = At::root(&value);
        let spec = root.field("spec").unwrap();
        let rules = spec.field("ingress").unwrap();
        let rule = rules.items().unwrap().nth(1).unwrap();
        let peers = rule.field("from").unwrap();
        let peer = peers.items().unwrap().next().unwrap();
        assert_eq!(peer.to_string(), "spec.ingress[1].from[0]");
        assert_eq!(rule.place("ports").to_string(), "spec.ingress[1].ports");
        assert_eq!((root.to_string(), peer.text(), peers.name()), (String::new(), Some("x"), "from"));
    }

    #[test]
    fn what_was_found_is_short() {
        let table = [
            (json!(null), "nothing"),
            (json!(3), "3"),
            (json!("x"), "`x`"),
            (json!([1, 2]), "a list of 2"),
            (json!({}), "an object without fields"),
            (json!({"planets": {}}), "an object with `planets`"),
        ];
        for (value, expected) in table {
            assert_eq!(At::root(&value).found(), expected);
        }
        assert!(At::root(&json!("ü".repeat(1_000_000))).found().len() < 200);
    }
}
