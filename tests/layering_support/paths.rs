//! The paths a piece of code names: `a::b::c`, with the groups of `use` written out.

/// A path and the line it starts on, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    pub line: usize,
    pub segments: Vec<String>,
}

impl Path {
    /// Whether the path is `other`, lies inside it, or brings it in by a glob.
    pub fn reaches(&self, other: &[&str]) -> bool {
        let glob = self.segments.last().is_some_and(|last| last == "*");
        let own = if glob { &self.segments[..self.segments.len() - 1] } else { &self.segments[..] };
        let common = own.iter().zip(other).take_while(|(a, b)| a == *b).count();
        common == other.len() || (glob && common == own.len())
    }
}

/// A word or a mark of the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub line: usize,
    pub text: String,
}

impl Token {
    pub fn is_word(&self) -> bool {
        self.text.starts_with(|c: char| c.is_alphabetic() || c == '_')
    }
}

/// Splits code into words, `::` and single marks.
pub fn tokens(code: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let len = match first {
                c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
                ':' if rest.starts_with("::") => 2,
                c => c.len_utf8(),
            };
            tokens.push(Token { line: index + 1, text: rest[..len].to_owned() });
            rest = rest[len..].trim_start();
        }
    }
    tokens
}

/// Every path named in the code.
pub fn paths(tokens: &[Token]) -> Vec<Path> {
    let mut paths = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at].is_word() {
            at = path(tokens, at, &[], &mut paths);
        } else {
            at += 1;
        }
    }
    paths
}

/// Reads the path at `at`, after `prefix`; says where it ends.
fn path(tokens: &[Token], mut at: usize, prefix: &[String], paths: &mut Vec<Path>) -> usize {
    let line = tokens[at].line;
    let mut segments = prefix.to_vec();
    loop {
        segments.push(tokens[at].text.clone());
        at += 1;
        if !is(tokens, at, "::") {
            break;
        }
        match tokens.get(at + 1) {
            Some(next) if next.is_word() || next.text == "*" => at += 1,
            Some(next) if next.text == "{" => return group(tokens, at + 2, &segments, paths),
            // A turbofish: the path goes on behind it, but what it names is known.
            _ => break,
        }
    }
    paths.push(Path { line, segments });
    at
}

/// Reads the members of a group, whose `{` is just before `at`, up to and with its `}`.
fn group(tokens: &[Token], mut at: usize, prefix: &[String], paths: &mut Vec<Path>) -> usize {
    while at < tokens.len() && !is(tokens, at, "}") {
        if is(tokens, at, "as") {
            at += 2;
        } else if tokens[at].is_word() || is(tokens, at, "*") {
            at = path(tokens, at, prefix, paths);
        } else {
            at += 1;
        }
    }
    at + 1
}

fn is(tokens: &[Token], at: usize, text: &str) -> bool {
    tokens.get(at).is_some_and(|token| token.text == text)
}
