//! A source without what is not code: comments, string contents and, if wished, tests are blanked, line ends stay.

/// `text` with comments and the contents of strings and characters replaced by spaces.
pub fn code(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out: Vec<char> = Vec::with_capacity(chars.len());
    let mut at = 0;
    while at < chars.len() {
        let end = skipped(&chars, at);
        if end > at {
            out.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        } else {
            out.push(chars[at]);
            at += 1;
        }
    }
    out.into_iter().collect()
}

/// Code (as [`code`] gives it) with every item under `#[cfg(test)]` blanked too.
pub fn without_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut out = code.to_owned();
    while let Some(start) = out.find(MARK) {
        let end = item_end(&out, start + MARK.len());
        let blank: String = out[start..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        out.replace_range(start..end, &blank);
    }
    out
}

/// Where the item that starts at `from` ends: after its `;`, or after the brace that closes its first one.
fn item_end(code: &str, from: usize) -> usize {
    let mut depth = 0usize;
    for (offset, c) in code[from..].char_indices() {
        match c {
            ';' if depth == 0 => return from + offset + 1,
            '{' | '[' | '(' => depth += 1,
            '}' if depth == 1 => return from + offset + 1,
            '}' | ']' | ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    code.len()
}

/// The end of the comment, string or character that starts at `at`; `at` itself if none does.
fn skipped(chars: &[char], at: usize) -> usize {
    let rest = &chars[at..];
    let starts = |text: &str| text.chars().enumerate().all(|(i, c)| rest.get(i) == Some(&c));
    if starts("//") {
        return at + rest.iter().position(|c| *c == '\n').unwrap_or(rest.len());
    }
    if starts("/*") {
        return at + block_comment(rest);
    }
    let after_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    if !after_word && let Some(len) = raw_string(rest) {
        return at + len;
    }
    match rest[0] {
        '"' => at + quoted(rest, '"'),
        // A lifetime has no closing quote after its first character.
        '\'' if rest.get(1) == Some(&'\\') || rest.get(2) == Some(&'\'') => at + quoted(rest, '\''),
        _ => at,
    }
}

fn block_comment(rest: &[char]) -> usize {
    let (mut depth, mut i) = (0, 0);
    while i < rest.len() {
        match (rest[i], rest.get(i + 1)) {
            ('/', Some('*')) => (depth, i) = (depth + 1, i + 2),
            ('*', Some('/')) => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            return i;
        }
    }
    i
}

/// The length of a raw string, with any of its prefixes.
fn raw_string(rest: &[char]) -> Option<usize> {
    let prefix = usize::from(matches!(rest[0], 'b' | 'c'));
    if rest.get(prefix) != Some(&'r') {
        return None;
    }
    let hashes = rest[prefix + 1..].iter().take_while(|c| **c == '#').count();
    let open = prefix + 1 + hashes;
    if rest.get(open) != Some(&'"') {
        return None;
    }
    let closes = |i: &usize| rest[*i] == '"' && rest[i + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes;
    Some((open + 1..rest.len()).find(closes).map_or(rest.len(), |i| i + 1 + hashes))
}

fn quoted(rest: &[char], quote: char) -> usize {
    let mut i = 1;
    while i < rest.len() {
        match rest[i] {
            '\\' => i += 2,
            c if c == quote => return i + 1,
            _ => i += 1,
        }
    }
    rest.len()
}
