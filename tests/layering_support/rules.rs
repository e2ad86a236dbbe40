//! The rules of the house, applied to sources given as text.

use super::code::{code, without_tests};
use super::paths::{Path, Token, paths, tokens};

/// Which rooms a room may import from. Every room is here.
const IMPORTS: &[(&str, &[&str])] = &[
    ("net", &[]),
    ("sync", &[]),
    ("wire", &["net"]),
    ("buf", &["net"]),
    ("lease", &["net", "sync", "wire", "buf"]),
    ("policy", &["net", "sync", "wire", "buf"]),
    ("flow", &["net", "sync", "wire", "buf"]),
    ("forward", &["net", "sync", "wire", "buf", "lease", "policy", "flow"]),
    ("sys", &["net", "buf"]),
    ("port", &["net", "wire", "buf", "sys"]),
    ("control", &["net", "sync", "wire", "buf", "lease", "policy", "sys"]),
    ("obs", &["net", "sync", "wire", "buf", "lease", "policy", "flow", "forward"]),
    ("lab", &["net", "sync", "wire", "buf", "lease", "policy", "flow", "forward", "sys", "port", "control", "obs"]),
    ("bench", &["net", "sync", "wire", "buf", "lease", "policy", "flow", "forward", "sys", "port", "control", "obs", "lab"]),
    ("daemon", &["net", "sync", "wire", "buf", "lease", "policy", "flow", "forward", "sys", "port", "control", "obs"]),
    // What is printed speaks of networks and leases; how packets go is none of its matter.
    ("cli", &["net", "lease", "policy", "control", "obs", "lab", "bench", "daemon"]),
];

/// Rooms that take bytes, time and snapshots as arguments and give bytes back.
const PURE: &[&str] = &["net", "sync", "wire", "buf", "lease", "policy", "flow", "forward"];

/// What pure rooms do not name: clocks, sockets, files, threads, the environment, tokio, the kernel.
const IMPURE: &[&[&str]] = &[
    &["std", "time", "Instant"],
    &["std", "time", "SystemTime"],
    &["std", "net", "UdpSocket"],
    &["std", "net", "TcpListener"],
    &["std", "net", "TcpStream"],
    &["std", "os"],
    &["std", "fs"],
    &["std", "thread"],
    &["std", "env"],
    &["std", "process"],
    &["std", "io", "stdin"],
    &["tokio"],
    &["tokio_util"],
    &["libc"],
    &["socket2"],
];

/// Names that are impure however they were brought in.
const IMPURE_WORDS: &[&str] = &["Instant", "SystemTime", "UdpSocket", "TcpListener", "TcpStream"];

/// Macros that print.
const PRINTING: &[&str] = &["print", "println", "eprint", "eprintln", "dbg"];

/// Longest file that needs no excuse, and longest there may be.
const LINES: usize = 400;
const LINES_AT_MOST: usize = 500;

/// Files over [`LINES`], each with its excuse.
const LONG: &[(&str, &str)] = &[];

/// Longest `mod.rs`: declarations and the module's story.
const MOD_LINES: usize = 150;

/// Longest `main.rs`.
const MAIN_LINES: usize = 60;

/// How far above `unsafe` its reason may stand.
const SAFETY_REACH: usize = 8;

/// Every breach in one file. `path` is relative to `src`, with `/`.
pub fn breaches(path: &str, text: &str) -> Vec<String> {
    let whole = tokens(&code(text));
    let shipped = tokens(&without_tests(&code(text)));
    let shipped_paths = paths(&shipped);
    let mut found = Vec::new();
    found.extend(size(path, text));
    found.extend(story(text));
    found.extend(unsafety(path, text, &whole));
    match path.split_once('/') {
        Some((room, _)) => {
            found.extend(imports(room, path, &shipped_paths));
            if PURE.contains(&room) {
                found.extend(purity(room, &shipped, &shipped_paths));
            }
            if room != "cli" {
                found.extend(printing(&shipped, &shipped_paths));
            }
        }
        None => found.extend(front(path, &shipped_paths)),
    }
    // Several names from one room in one line are one breach.
    found.dedup();
    found.into_iter().map(|breach| format!("src/{path}{breach}")).collect()
}

fn size(path: &str, text: &str) -> Option<String> {
    let lines = text.lines().count();
    let excused = LONG.iter().any(|(long, _)| *long == path);
    let most = match path.rsplit('/').next() {
        Some("mod.rs") => MOD_LINES,
        Some("main.rs") => MAIN_LINES,
        _ if excused => LINES_AT_MOST,
        _ => LINES,
    };
    (lines > most).then(|| format!(": {lines} lines, at most {most} are allowed; split it by subject"))
}

fn story(text: &str) -> Option<String> {
    (!text.starts_with("//!")).then(|| ":1: expected the module's story (`//!`) first".to_owned())
}

fn imports(room: &str, path: &str, paths: &[Path]) -> Vec<String> {
    let Some((_, allowed)) = IMPORTS.iter().find(|(known, _)| *known == room) else {
        return vec![format!(": the room `{room}` is not in the import table of tests/layering_support/rules.rs")];
    };
    let depth = depth(path);
    let named = paths.iter().filter_map(|path| Some((path.line, room_of(path, depth)?)));
    let foreign = named.filter(|(_, named)| *named != room && !allowed.contains(named));
    foreign.map(|(line, named)| format!(":{line}: `{room}` may not import from `{named}`")).collect()
}

/// How many modules deep a file lies: 1 for a room's `mod.rs`.
fn depth(path: &str) -> usize {
    let names = path.trim_end_matches(".rs").split('/').count();
    if path.ends_with("/mod.rs") { names - 1 } else { names }
}

/// The room a path leads into, if it starts from the crate's root.
fn room_of(path: &Path, depth: usize) -> Option<&str> {
    let segments = &path.segments;
    let first = segments.iter().position(|segment| segment != "self").unwrap_or(0);
    let supers = segments[first..].iter().take_while(|segment| *segment == "super").count();
    let next = if segments[0] == "crate" {
        1
    } else if supers >= depth && supers > 0 {
        first + supers
    } else {
        return None;
    };
    segments.get(next).map(String::as_str).filter(|room| *room != "self")
}

fn purity(room: &str, tokens: &[Token], paths: &[Path]) -> Vec<String> {
    let by_path = paths.iter().filter(|path| IMPURE.iter().any(|impure| path.reaches(impure)));
    let by_path = by_path.map(|path| (path.line, path.segments.join("::")));
    let by_word = tokens.iter().filter(|token| IMPURE_WORDS.contains(&token.text.as_str()));
    let by_word = by_word.map(|token| (token.line, token.text.clone()));
    let mut found: Vec<_> = by_path.chain(by_word).collect();
    found.sort();
    found.dedup_by_key(|(line, _)| *line);
    found.into_iter().map(|(line, named)| format!(":{line}: `{room}` is pure and may not name `{named}`")).collect()
}

fn printing(tokens: &[Token], paths: &[Path]) -> Vec<String> {
    let macros = tokens.windows(2).filter(|pair| PRINTING.contains(&pair[0].text.as_str()) && pair[1].text == "!");
    let macros = macros.map(|pair| (pair[0].line, format!("{}!", pair[0].text)));
    let streams = paths.iter().filter(|path| path.segments.ends_with(&["io".to_owned(), "stdout".to_owned()]));
    let streams = streams.map(|path| (path.line, path.segments.join("::")));
    macros.chain(streams).map(|(line, named)| format!(":{line}: only `cli` prints, found `{named}`")).collect()
}

fn unsafety(path: &str, text: &str, tokens: &[Token]) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    let mut last = 0;
    for pair in tokens.windows(2).filter(|pair| pair[0].text == "unsafe") {
        let line = pair[0].line;
        if !path.starts_with("sys/") {
            found.push(format!(":{line}: `unsafe` is for `sys` only"));
        } else if ["{", "impl"].contains(&pair[1].text.as_str()) {
            let from = last.max(line.saturating_sub(SAFETY_REACH + 1));
            if !lines[from..line].iter().any(|line| line.contains("// SAFETY:")) {
                found.push(format!(":{line}: `unsafe` without a `// SAFETY:` comment above it"));
            }
        }
        last = line;
    }
    found
}

/// The files beside the rooms: the map and the binary.
fn front(path: &str, paths: &[Path]) -> Vec<String> {
    let foreign = paths.iter().filter(|named| {
        let root = ["felt", "crate"].contains(&named.segments[0].as_str());
        root && named.segments.len() > 1 && named.segments[1] != "cli"
    });
    foreign.map(|named| format!(":{}: {path} may use `cli` only, found `{}`", named.line, named.segments.join("::"))).collect()
}
