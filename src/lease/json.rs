//! JSON as flannel's nodes read and write it: Go's habits where they differ from serde's.
//!
//! Reading: keys match in any letter case, unknown keys are ignored, of duplicates the last one counts. Writing: no spaces, and
//! `<`, `>`, `&`, U+2028 and U+2029 inside strings as `\u` escapes. Used by the network config and the lease value.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The members of a JSON object in the order written, values unread.
#[derive(Debug)]
pub(super) struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Fields<'a> {
    /// Reads the object `text`.
    pub(super) fn parse(text: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The value in force for `key`, JSON text; `null` counts as a value.
    pub(super) fn last(&self, key: &str) -> Option<&'a str> {
        self.0.iter().rev().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, value)| value.get())
    }

    /// The value in force for `key` where `null` means "leave it as it is".
    pub(super) fn last_given(&self, key: &str) -> Option<&'a str> {
        let mut given = self.0.iter().rev().filter(|(_, value)| value.get() != "null");
        given.find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, value)| value.get())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Members).map(Self)
    }
}

/// `json`, which must be valid JSON, as Go would write it again: without spaces and with Go's escapes.
pub(super) fn compact(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let (mut in_string, mut escaped) = (false, false);
    for c in json.chars() {
        match c {
            _ if !in_string => {
                in_string = c == '"';
                if !matches!(c, ' ' | '\t' | '\r' | '\n') {
                    out.push(c);
                }
            }
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            _ => {
                in_string = escaped || c != '"';
                escaped = c == '\\' && !escaped;
                out.push(c);
            }
        }
    }
    out
}

/// `text` cut to what an error message has room for.
pub(super) fn excerpt(text: &str) -> String {
    const ROOM: usize = 80;
    let mut cut: String = text.chars().take(ROOM).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_in_any_case_and_the_last_one_counts() {
        let fields = Fields::parse(r#"{"PORT": 1, "x": {"port": 9}, "port": 2, "Port": null}"#).unwrap();
        assert_eq!((fields.last("Port"), fields.last_given("Port"), fields.last("y")), (Some("null"), Some("2"), None));
        assert!(Fields::parse("[]").unwrap_err().to_string().contains("expected a JSON object"));
        assert!(Fields::parse("{} {}").is_err());
    }

    #[test]
    fn compact_text_is_what_go_writes() {
        let json = " { \"a b\" : [ 1 , \"<&> \\\" \\\\\" , \"\u{2028}é\" ] }\r\n\t";
        assert_eq!(compact(json), r#"{"a b":[1,"\u003c\u0026\u003e \" \\","\u2028é"]}"#);
    }

    #[test]
    fn excerpts_are_bounded_and_cut_between_characters() {
        assert_eq!(excerpt("ü"), "ü");
        assert_eq!(excerpt(&"ü".repeat(100)).chars().count(), 81);
    }
}
