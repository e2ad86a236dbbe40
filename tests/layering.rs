//! The house keeps its rules: who imports whom, how long files are, which rooms are pure, where unsafe code and printing live.
//!
//! The rules are applied to the sources as they lie in `src`, and to made-up sources that break them, one rule each.

mod layering_support;

use std::fs;
use std::path::{Path, PathBuf};

use layering_support::code::{code, without_tests};
use layering_support::paths::{paths, tokens};
use layering_support::rules::breaches;

#[test]
fn the_house_keeps_its_rules() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = sources(&root);
    assert!(files.len() > 30, "found only {} sources under {}", files.len(), root.display());
    let found: Vec<String> = files
        .iter()
        .flat_map(|file| {
            let path = file.strip_prefix(&root).expect("a source lies in src").to_str().expect("names are UTF-8");
            breaches(path, &fs::read_to_string(file).expect("a source can be read"))
        })
        .collect();
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

fn sources(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("src can be listed").map(|entry| entry.expect("src can be listed").path());
    let mut files: Vec<PathBuf> = entries
        .flat_map(|path| match path.extension() {
            _ if path.is_dir() => sources(&path),
            Some(extension) if extension == "rs" => vec![path],
            _ => Vec::new(),
        })
        .collect();
    files.sort();
    files
}

/// Asserts that `body`, put into the file `path`, breaks exactly one rule, and which.
#[track_caller]
fn breaks(path: &str, body: &str, expected: &str) {
    let found = breaches(path, &format!("//! Story.\n{body}\n"));
    assert!(found.len() == 1 && found[0].contains(expected), "expected one `{expected}`, found {found:?} in {body}");
}

#[track_caller]
fn keeps(path: &str, body: &str) {
    let found = breaches(path, &format!("//! Story.\n{body}\n"));
    assert!(found.is_empty(), "{found:?} in {body}");
}

#[test]
fn imports_from_above_are_seen_in_every_spelling() {
    breaks("net/prefix.rs", "use crate::lease::Lease;", "src/net/prefix.rs:2: `net` may not import from `lease`");
    breaks("net/prefix.rs", "use crate::{net::Moment, lease::{Lease, key::SubnetKey}};", "from `lease`");
    breaks("net/prefix.rs", "use crate::{\n    net::Moment,\n    buf,\n};", ":4: `net` may not import from `buf`");
    breaks("net/prefix.rs", "use {std::fmt, crate::buf::Packet as P};", "from `buf`");
    breaks("net/prefix.rs", "fn f() { crate::buf::Packet::with_capacity(1); }", "from `buf`");
    breaks("net/prefix.rs", "fn f<'a>(_: &'a crate::buf::Packet) {}", "from `buf`");
    breaks("net/prefix.rs", "pub use crate::*;", "from `*`");
    breaks("net/prefix.rs", "use super::super::wire;", "from `wire`");
    breaks("net/mod.rs", "use super::wire::ipv4;", "from `wire`");
    breaks("net/mod.rs", "use self::super::wire::ipv4;", "from `wire`");
    breaks("lease/table/slot.rs", "use super::super::super::{forward, net};", "from `forward`");
    breaks("control/registry/mod.rs", "use crate::forward::Drop;", "`control` may not import from `forward`");
    breaks("control/registry/mod.rs", "use crate::port::UdpPort;", "from `port`");
    breaks("lab/demo.rs", "use crate::daemon::RunOptions;", "from `daemon`");
    breaks("cli/run.rs", "use crate::sys::tun;", "from `sys`");
    breaks("attic/mod.rs", "", "the room `attic` is not in the import table");
    breaks("main.rs", "fn main() { felt::daemon::run(); }", "main.rs may use `cli` only");
}

#[test]
fn imports_from_below_and_from_home_are_fine() {
    keeps("lease/table/slot.rs", "use super::super::{Lease, key};\nuse crate::{lease::Update, net::{Prefix, Moment}, sync};");
    keeps("net/mod.rs", "mod wire { }\npub use self::prefix::Prefix;\npub(crate) fn f() {}\npub(in crate::net) fn g() {}");
    keeps("cli/run.rs", "use crate::daemon::RunOptions;");
    keeps("main.rs", "use felt::cli::{self, Failure};\nfn main() {}");
}

#[test]
fn what_is_no_code_does_not_count() {
    keeps(
        "net/prefix.rs",
        "// use crate::lease::Lease;\n/* crate::buf /* unsafe */ tokio */\n/// [`crate::buf::Packet`], `std::fs`",
    );
    keeps(
        "net/prefix.rs",
        "const A: &str = \"crate::buf tokio::spawn \\\" unsafe { }\";\nconst B: &str = r#\"std::fs \" unsafe {\"#;",
    );
    keeps("net/prefix.rs", "const C: [char; 3] = ['\"', '\\'', '/'];\nfn f<'a>(x: &'a str) -> &'a str { x }");
    keeps(
        "net/prefix.rs",
        "#[cfg(test)]\nmod tests {\n    use crate::lease::Lease;\n    fn f() { std::thread::sleep(x); println!(); }\n}",
    );
    keeps("net/prefix.rs", "#[cfg(test)]\nuse crate::lease::Lease;");
    // What follows the tests counts again.
    breaks("net/prefix.rs", "#[cfg(test)]\nmod tests { fn f() { {} } }\nuse crate::lease::Lease;", ":4: `net` may not import");
    breaks("net/prefix.rs", "#[cfg(not(test))]\nuse crate::lease::Lease;", "from `lease`");
    breaks("net/prefix.rs", "const A: &str = \"\\\\\"; use crate::buf;", "from `buf`");
}

#[test]
fn pure_rooms_name_no_clock_socket_file_or_runtime() {
    for body in [
        "use std::time::Instant;",
        "use std::time::{Duration, SystemTime};",
        "use std::time::*;",
        "use std::{fmt, fs};",
        "use std::fs::File;",
        "use std::{net::{Ipv4Addr, UdpSocket}, fmt};",
        "use std::net;\nfn f() { net::TcpStream::connect(x); }",
        "fn f() { ::std::thread::sleep(x); }",
        "use tokio::sync::mpsc;",
        "async fn f() { tokio::spawn(x); }",
        "use std::os::fd::OwnedFd;",
        "fn f() { std::env::var(x); }",
    ] {
        breaks("forward/egress.rs", body, "`forward` is pure and may not name");
        keeps("daemon/run.rs", body);
    }
    keeps("forward/egress.rs", "use std::net::{Ipv4Addr, SocketAddr};\nuse std::time::Duration;\nuse std::{fmt, io};");
}

#[test]
fn unsafe_code_is_in_sys_and_says_why() {
    breaks("port/os.rs", "fn f() { unsafe { g() } }", "`unsafe` is for `sys` only");
    breaks("port/os.rs", "#[cfg(test)]\nmod tests { fn f() { unsafe { g() } } }", "`unsafe` is for `sys` only");
    breaks("sys/tun.rs", "fn f() { unsafe { g() } }", "without a `// SAFETY:`");
    breaks("sys/tun.rs", "unsafe impl Send for X {}", "without a `// SAFETY:`");
    breaks("sys/tun.rs", "// SAFETY: one reason.\nfn f() { unsafe { g() } }\nfn h() { unsafe { g() } }", ":4: `unsafe` without");
    keeps(
        "sys/tun.rs",
        "fn f() {\n    // SAFETY: g has no conditions.\n    let x =\n        unsafe { g() };\n}\nunsafe fn h() {}",
    );
}

#[test]
fn only_cli_prints() {
    for body in [
        "fn f() { println!(\"x\"); }",
        "fn f() { eprint!(\"x\"); }",
        "fn f() { std::io::stdout().lock(); }",
        "fn f() { dbg!(x); }",
    ] {
        breaks("lab/demo.rs", body, "only `cli` prints");
        keeps("cli/output.rs", body);
    }
    keeps("lab/demo.rs", "fn f(child: Child) { child.stdout.take(); writeln!(out, \"x\"); Stdio::piped(); }");
}

#[test]
fn files_are_short_and_tell_their_story() {
    let lines = |count: usize| "//\n".repeat(count - 2);
    keeps("net/prefix.rs", &lines(400));
    breaks("net/prefix.rs", &lines(401), "401 lines, at most 400");
    keeps("net/mod.rs", &lines(150));
    breaks("net/mod.rs", &lines(151), "151 lines, at most 150");
    keeps("main.rs", &lines(60));
    breaks("main.rs", &lines(61), "61 lines, at most 60");
    assert_eq!(breaches("net/prefix.rs", "use std::fmt;\n"), ["src/net/prefix.rs:1: expected the module's story (`//!`) first"]);
}

#[test]
fn blanking_keeps_lines_where_they_are() {
    let text = "a /* x\n y */ b // c\n\"d\n\\\" e\" f 'g' 'h: loop\n#[cfg(test)]\nmod t {\n}\ni";
    let blank = without_tests(&code(text));
    assert_eq!(blank.lines().count(), text.lines().count());
    assert_eq!(blank.split_whitespace().collect::<Vec<_>>(), ["a", "b", "f", "'h:", "loop", "i"]);
    assert_eq!(tokens(&blank).last().map(|token| (token.line, token.text.as_str())), Some((8, "i")));
}

#[test]
fn groups_are_written_out() {
    let named = paths(&tokens("use a::{b::{c, d as e}, self, f::*};\ng::<h::i>::j;"));
    let named: Vec<String> = named.iter().map(|path| path.segments.join("::")).collect();
    assert_eq!(named, ["use", "a::b::c", "a::b::d", "a::self", "a::f::*", "g", "h::i", "j"]);
}
