//! What the names of a network's annotations begin with: a domain, a slash, and maybe a word.
//!
//! Source: flannel's rules for `--kube-annotation-prefix`.

use std::fmt;
use std::str::FromStr;

/// The default. Source: flannel.
const USUAL: &str = "flannel.alpha.coreos.com";

/// A prefix that makes annotation names of words such as `public-ip`.
///
/// Invariant: a lower-case domain of two or more labels, `/`, and nothing or a lower-case word with `-` at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnotationPrefix(String);

/// Why a text is no prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a lower-case domain, with a word after it or not, such as `example.org` or `example.org/net-`")]
pub struct PrefixError;

impl AnnotationPrefix {
    /// The annotation for `word`.
    #[must_use]
    pub fn name(&self, word: &str) -> String {
        format!("{}{word}", self.0)
    }
}

impl Default for AnnotationPrefix {
    fn default() -> Self {
        Self(format!("{USUAL}/"))
    }
}

impl fmt::Display for AnnotationPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for AnnotationPrefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let (domain, word) = text.split_once('/').unwrap_or((text, ""));
        let word = word.strip_suffix('-').unwrap_or(word);
        let is_domain = domain.contains('.') && domain.split('.').all(is_label);
        // With a slash and nothing after it but `-`, there is no word to end.
        let is_word = word.split('.').all(is_label) || (word.is_empty() && !text.ends_with("/-"));
        if !is_domain || !is_word {
            return Err(PrefixError);
        }
        let end = if word.is_empty() { String::new() } else { format!("{word}-") };
        Ok(Self(format!("{domain}/{end}")))
    }
}

/// Lower-case letters, digits, and hyphens within.
fn is_label(text: &str) -> bool {
    let of_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = [text.bytes().next(), text.bytes().last()];
    ends.into_iter().all(|byte| byte.is_some_and(of_word)) && text.bytes().all(|byte| of_word(byte) || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_flannel_s() {
        for (text, name) in [
            ("flannel.alpha.coreos.com", "flannel.alpha.coreos.com/backend-type"),
            ("org.com", "org.com/backend-type"),
            ("org.com/", "org.com/backend-type"),
            ("flannel.alpha.coreos.com/prefix", "flannel.alpha.coreos.com/prefix-backend-type"),
            ("org.com/prefix-", "org.com/prefix-backend-type"),
            ("or-g.c0m.x/pre-fix", "or-g.c0m.x/pre-fix-backend-type"),
        ] {
            assert_eq!(text.parse::<AnnotationPrefix>().map(|prefix| prefix.name("backend-type")), Ok(name.to_owned()), "{text}");
        }
        for text in [
            "",
            "org",
            "org/",
            "org/prefix",
            "org.COM",
            "org.com/PREFIX",
            "org.com/a/b",
            "org..com",
            "-a.b",
            "a.b/-",
            "a.b/_",
            "a.b/c--",
        ] {
            assert_eq!(text.parse::<AnnotationPrefix>(), Err(PrefixError), "{text}");
        }
        assert_eq!("flannel.alpha.coreos.com".parse(), Ok(AnnotationPrefix::default()));
    }
}
