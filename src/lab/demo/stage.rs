//! What an audience sees: titles, numbered acts, ticked lines, tables.

use std::fmt::Display;
use std::io::Write;
use std::time::Instant;

use comfy_table::Table;

use super::figures;
use crate::lab::Progress;

const BOLD: &str = "1";
const GREEN: &str = "32";
const RED: &str = "31";
const DIM: &str = "2";

/// Where a demo is shown. Whether anybody still looks is not its business: what cannot be written is dropped, and the
/// demo goes on to its tear-down.
pub struct Stage<'a> {
    out: &'a mut dyn Write,
    /// Colours, and lines that are rewritten.
    terminal: bool,
    acts: u32,
    /// The step under way and when it began.
    step: Option<(String, Instant)>,
}

impl<'a> Stage<'a> {
    /// A stage on `out`. Only a `terminal` gets colours and unfinished lines.
    pub fn new(out: &'a mut dyn Write, terminal: bool) -> Self {
        Self { out, terminal, acts: 0, step: None }
    }

    /// The first or the last line of all.
    pub fn title(&mut self, text: &str) {
        let text = self.paint(BOLD, text);
        let gap = if self.acts == 0 { "" } else { "\n" };
        self.say(&format!("{gap}{text}\n"));
    }

    /// A new act begins.
    pub fn act(&mut self, text: &str) {
        self.settled();
        self.acts += 1;
        let text = self.paint(BOLD, &format!("{}  {text}", self.acts));
        self.say(&format!("\n{text}\n"));
    }

    /// Something begins that takes a while.
    pub fn doing(&mut self, text: &str) {
        self.settled();
        if self.terminal {
            let text = self.paint(DIM, text);
            self.say(&format!("   … {text}"));
        }
        self.step = Some((text.to_owned(), Instant::now()));
    }

    /// What was begun is done: its line gets a tick and the time it took.
    pub fn settled(&mut self) {
        if let Some((text, begin)) = self.step.take() {
            let took = self.paint(DIM, &figures::time(begin.elapsed()));
            self.ticked(&format!("{text}  {took}"));
        }
    }

    /// What was begun is done, and came to this.
    pub fn done(&mut self, text: &str) {
        self.step = None;
        self.ticked(text);
    }

    /// What was begun, or expected, failed.
    pub fn failed(&mut self, why: &dyn Display) {
        let step = self.step.take().map(|(text, _)| format!("{text}: ")).unwrap_or_default();
        let cross = self.paint(RED, "✗");
        self.fresh_line();
        self.say(&format!("   {cross} {step}{}\n", why.to_string().replace('\n', "\n     ")));
    }

    /// A remark.
    pub fn note(&mut self, text: &str) {
        let text = self.paint(DIM, text);
        self.say(&format!("   {text}\n"));
    }

    /// A table; the first row holds the headings.
    pub fn table(&mut self, rows: Vec<Vec<String>>) {
        let mut table = Table::new();
        table.load_preset(comfy_table::presets::NOTHING).add_rows(rows);
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        for line in table.lines() {
            self.say(&format!("   {}\n", line.trim_end()));
        }
    }

    fn ticked(&mut self, text: &str) {
        let tick = self.paint(GREEN, "✓");
        self.fresh_line();
        self.say(&format!("   {tick} {text}\n"));
    }

    /// Takes an unfinished line back.
    fn fresh_line(&mut self) {
        if self.terminal {
            self.say("\r\x1b[2K");
        }
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        if self.terminal { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn say(&mut self, text: &str) {
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }
}

impl Progress for Stage<'_> {
    fn step(&mut self, what: &str) {
        self.doing(what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(terminal: bool, play: impl FnOnce(&mut Stage<'_>)) -> String {
        let mut out = Vec::new();
        play(&mut Stage::new(&mut out, terminal));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_file_gets_plain_lines() {
        let text = shown(false, |stage| {
            stage.title("Title");
            stage.act("One");
            stage.doing("waiting");
            stage.done("waited");
            stage.table(vec![vec!["a".into(), "b".into()], vec!["longer".into(), "c".into()]]);
            stage.act("Two");
            stage.doing("trying");
            stage.failed(&"no\nreally");
        });
        let lines = [
            "Title",
            "",
            "1  One",
            "   ✓ waited",
            "   a       b",
            "   longer  c",
            "",
            "2  Two",
            "   ✗ trying: no",
            "     really",
            "",
        ];
        assert_eq!(text, lines.join("\n"));
    }

    #[test]
    fn a_step_that_nobody_ended_is_ticked_by_the_next() {
        let text = shown(false, |stage| {
            stage.step("first");
            stage.step("second");
            stage.settled();
        });
        let lines: Vec<&str> = text.lines().collect();
        let [first, second] = lines[..] else { panic!("{text}") };
        assert!(first.starts_with("   ✓ first  ") && second.starts_with("   ✓ second  "), "{text}");
    }

    #[test]
    fn a_terminal_sees_what_is_under_way() {
        let text = shown(true, |stage| {
            stage.doing("waiting");
            stage.done("waited");
        });
        assert!(text.starts_with("   … \x1b[2mwaiting\x1b[0m\r\x1b[2K"), "{text:?}");
    }
}
