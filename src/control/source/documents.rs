//! From a manifest file's text to the values in it: YAML with any number of documents, or JSON.
//!
//! Whoever may write a manifest must not be able to stop the daemon with it: depth, size and what aliases expand to are bounded,
//! far above what Kubernetes writes. Words are read as Kubernetes reads them: `yes` is true, `010` is eight.

use serde_json::Value;
use serde_saphyr::{Options, Spanned};

/// Largest file that is read, in bytes. A thousand pods as Kubernetes writes them take some 5 MB.
pub const LARGEST: u64 = 64 << 20;

/// What all aliases of a file may expand to, in events of the parser: some for each scalar, list or map.
const EXPANDED: usize = 100_000;

/// Lists and maps within each other.
const DEPTH: usize = 64;

/// Values in one file, and documents. The length of the text bounds them, too; aliases are counted apart.
const NODES: usize = 32 << 20;

/// One document of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Where it begins, counted from 1.
    pub line: u64,
    /// What it says.
    pub value: Value,
}

/// How a text is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON values one after the other.
    Json,
    /// YAML documents; JSON where it looks like that.
    Yaml,
}

/// Why a text is no manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct DocumentError {
    /// Where, counted from 1.
    pub line: u64,
    /// What was found there.
    pub what: String,
}

/// The documents of a text; empty ones are left out.
///
/// # Errors
/// At the first thing that cannot be read: nothing of the text counts then.
pub fn read(text: &str, format: Format) -> Result<Vec<Document>, DocumentError> {
    // Byte order marks are common where files come from Windows.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match format {
        Format::Json => json(text),
        // YAML does not take all that JSON writers make: tabs before a brace, to begin with.
        Format::Yaml if text.trim_start().starts_with('{') => json(text).or_else(|_| yaml(text)),
        Format::Yaml => yaml(text),
    }
}

fn json(text: &str) -> Result<Vec<Document>, DocumentError> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let mut documents = Vec::new();
    loop {
        let line = line_at(text, values.byte_offset());
        match values.next() {
            None => return Ok(documents),
            Some(Ok(value)) => documents.push(Document { line, value }),
            Some(Err(error)) => {
                let what = error.to_string();
                // Its own words for the place come after these.
                let what = what.split(" at line ").next().unwrap_or_default().to_owned();
                return Err(DocumentError { line: error.line() as u64, what });
            }
        }
    }
}

fn yaml(text: &str) -> Result<Vec<Document>, DocumentError> {
    match serde_saphyr::from_multiple_with_options::<Spanned<Value>>(text, options()) {
        Ok(found) => Ok(found.into_iter().map(|found| Document { line: found.referenced.line(), value: found.value }).collect()),
        Err(error) => {
            let what = error.to_string();
            let what = what.split(" at line ").next().unwrap_or_default().to_owned();
            Err(DocumentError { line: error.location().map_or(1, |location| location.line()), what })
        }
    }
}

fn options() -> Options {
    serde_saphyr::options! {
        with_snippet: false,
        legacy_octal_numbers: true,
        budget: serde_saphyr::budget! {
            max_depth: DEPTH,
            max_nodes: NODES,
            max_events: 3 * NODES,
            max_documents: NODES,
            max_total_scalar_bytes: 2 * usize::try_from(LARGEST).unwrap_or(usize::MAX),
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: EXPANDED },
    }
}

/// The line of the first thing at or after `offset` that is no space.
fn line_at(text: &str, offset: usize) -> u64 {
    let (before, after) = text.split_at_checked(offset).unwrap_or((text, ""));
    let blank = &after[..after.len() - after.trim_start().len()];
    1 + before.bytes().chain(blank.bytes()).filter(|byte| *byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn values(text: &str) -> Vec<Value> {
        read(text, Format::Yaml).unwrap().into_iter().map(|document| document.value).collect()
    }

    #[test]
    fn a_file_has_any_number_of_documents() {
        let text = "# first\na: 1\n---\n---\n# nothing\n---\nb: {c: [x]}\n...\n";
        let found = read(text, Format::Yaml).unwrap();
        assert_eq!(
            found,
            [Document { line: 2, value: json!({"a": 1}) }, Document { line: 7, value: json!({"b": {"c": ["x"]}}) }]
        );
        assert!(values("").is_empty() && values("---\n# nothing\n").is_empty());
        let found = read("{\"a\":1}\n\n\t{\"b\":\n2}", Format::Json).unwrap();
        assert_eq!(found, [Document { line: 1, value: json!({"a": 1}) }, Document { line: 3, value: json!({"b": 2}) }]);
    }

    #[test]
    fn words_are_read_as_kubernetes_reads_them() {
        assert_eq!(
            values("\u{feff}a: yes\nb: 010\nc: \"yes\"\nd:\ne: 1.0\nf: 10.0.0.0/8\n"),
            [json!({"a": true, "b": 8, "c": "yes", "d": null, "e": 1.0, "f": "10.0.0.0/8"})]
        );
        assert_eq!(values("a: &x {k: v}\nb: *x\n"), [json!({"a": {"k": "v"}, "b": {"k": "v"}})]);
        assert_eq!(values("\t{\"a\":\t\"\\ud83d\\ude00\"}"), [json!({"a": "😀"})]);
        assert_eq!(values("{a: b}"), [json!({"a": "b"})], "flow YAML is no JSON");
    }

    #[test]
    fn an_error_says_where_and_what() {
        for (text, format, line, part) in [
            ("a: 1\n---\nb: [\n", Format::Yaml, 3, "unclosed"),
            ("a: 1\na: 2\n", Format::Yaml, 2, "duplicate"),
            ("a: *nobody\n", Format::Yaml, 1, "anchor"),
            ("\n\na: b: c\n", Format::Yaml, 3, "mapping"),
            ("{\"a\":\n1,}", Format::Json, 2, "trailing comma"),
            ("a: 1", Format::Json, 1, "expected value"),
        ] {
            let error = read(text, format).unwrap_err();
            assert!(error.line == line && error.what.contains(part), "{text:?}: {error}");
            assert_eq!(error.to_string(), format!("line {line}: {}", error.what));
        }
    }

    #[test]
    fn hostile_texts_end_soon() {
        let tens = |name: &str| [name; 10].join(",");
        let mut laughs = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for level in 1..30 {
            let line = format!("a{level}: &a{level} [{}]\n", tens(&format!("*a{}", level - 1)));
            laughs.push_str(&line);
        }
        let deep = 100_000;
        let texts = [laughs, "[".repeat(deep), "{a: ".repeat(deep), "- ".repeat(deep), "? ".repeat(deep), "{\"a\":".repeat(deep)];
        for text in texts {
            read(&text, Format::Yaml).unwrap_err();
            read(&text, Format::Json).unwrap_err();
        }
    }
}
