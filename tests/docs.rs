//! What the documentation lists is what the program has.

use std::fs;
use std::path::Path;
use std::process::Command;

use felt::forward::DropReason;

fn document(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

#[test]
fn the_readme_lists_every_drop_reason() {
    let rows = DropReason::ALL.iter().map(|reason| format!("| `{}` | {} |", reason.as_str(), reason.describe()));
    let table = format!("| reason | |\n|---|---|\n{}\n", rows.collect::<Vec<_>>().join("\n"));
    assert!(document("README.md").contains(&table), "the table of drop reasons in README.md should be:\n\n{table}");
}

#[test]
fn the_readme_lists_every_flag_of_run_and_no_other() {
    let help = Command::new(env!("CARGO_BIN_EXE_felt")).args(["run", "-h"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let flags = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
        let mut flags: Vec<_> = words.filter(|word| word.starts_with("--") && word.len() > 2).map(str::to_owned).collect();
        flags.sort();
        flags.dedup();
        flags
    };
    let of_help =
        help.lines().filter(|line| line.trim_start().starts_with("--")).filter_map(|line| line.split_whitespace().next());
    let of_help = flags(&of_help.collect::<Vec<_>>().join(" "));
    let readme = document("README.md");
    let section = readme.split("\n## Flags\n").nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `--")?.split('|').next().map(|cell| format!("`--{cell}")));
    assert!(of_help.len() > 20, "{help}");
    assert_eq!(flags(&rows.collect::<Vec<_>>().join(" ")), of_help);
}

#[test]
fn the_map_names_every_room_and_every_test() {
    let map = document("ARCHITECTURE.md");
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let room = name.trim_end_matches(".rs");
        assert!(["main", "lib"].contains(&room) || map.contains(&format!("| `{room}` |")), "{room}");
    }
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let test = name.trim_end_matches(".rs");
        let family = test.split('_').next().map(|first| format!("`{first}_*`")).unwrap();
        let is_test = !["snapshots", "support"].contains(&test) && !test.ends_with("_support");
        assert!(!is_test || map.contains(&format!("`{test}`")) || map.contains(&family), "{test}");
    }
}
