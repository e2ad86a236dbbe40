//! A matrix for a terminal: a line for each source, a letter for each destination.

use std::fmt::Write as _;

use crate::policy::offline::{End, EndKind, Letter, Matrix, Table};

/// How much room there is, and what it can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Screen {
    /// Columns of the terminal; `None`: it is none.
    pub width: Option<u16>,
    /// Whether it shows colour.
    pub colour: bool,
}

/// Ends shown at most, however wide the screen is.
const MOST: usize = 100;

/// Longest name shown whole.
const LONGEST_NAME: usize = 40;

/// All tables, a legend, and a note if something was left out.
pub fn text(matrix: &Matrix, screen: Screen) -> String {
    if matrix.tables.is_empty() {
        return "no pod has an address, so there is nothing to judge".to_owned();
    }
    let sheet = Sheet::new(&matrix.ends, screen);
    let mut text = String::new();
    for table in &matrix.tables {
        sheet.table(table, &mut text);
        text.push('\n');
    }
    let meant = Letter::ALL.iter().map(|letter| format!("{} {}", sheet.paint(*letter), letter.meaning()));
    text.push_str(&meant.collect::<Vec<_>>().join("   "));
    let left_out = matrix.ends.len() - sheet.ends.len();
    if left_out > 0 {
        let all = matrix.ends.len();
        write!(text, "\n{left_out} of {all} ends are not shown; --format json and --format html have more").unwrap_or_default();
    }
    text
}

/// How a table is laid out.
struct Sheet<'a> {
    ends: &'a [End],
    names: Vec<String>,
    /// Width of the names.
    wide: usize,
    /// Digits of the largest number.
    digits: usize,
    /// Whether letters stand apart.
    airy: bool,
    colour: bool,
}

impl<'a> Sheet<'a> {
    fn new(all: &'a [End], screen: Screen) -> Self {
        let names: Vec<String> = all.iter().map(|end| shortened(&end.to_string())).collect();
        let wide = names.iter().map(|name| name.chars().count()).max().unwrap_or_default();
        let digits = all.len().min(MOST).to_string().len();
        let room = screen.width.map_or(usize::MAX, |width| usize::from(width).saturating_sub(wide + digits + 4));
        let fits = |airy: bool, count: usize| {
            let gaps = all.windows(2).take(count.saturating_sub(1)).filter(|pair| !together(&pair[0], &pair[1])).count();
            count * if airy { 2 } else { 1 } + gaps <= room
        };
        let most = all.len().min(MOST);
        let airy = fits(true, most);
        // A few are shown even where they do not fit: the terminal folds lines, which is better than none.
        let shown = (most.min(4)..=most).rev().find(|count| fits(airy, *count)).unwrap_or(most.min(4));
        Self { ends: &all[..shown], names, wide, digits, airy, colour: screen.colour }
    }

    fn table(&self, table: &Table, text: &mut String) {
        let count = |letter| table.count(letter);
        let refused = count(Letter::Ingress) + count(Letter::Egress) + count(Letter::Both);
        let title = format!("{} {}", table.probe, table.family);
        let title = if self.colour { format!("\x1b[1m{title}\x1b[0m") } else { title };
        let mut lines = vec![format!("{title}: {} allowed, {refused} refused", count(Letter::Allowed))];
        let margin = " ".repeat(self.wide + self.digits + 4);
        for place in 0..self.digits {
            let numbers = (1..=self.ends.len()).map(|number| digit(number, self.digits, place));
            lines.push(format!("{margin}{}", self.spaced(numbers.map(String::from))));
        }
        for (number, row) in table.rows.iter().take(self.ends.len()).enumerate() {
            let letters = row.iter().take(self.ends.len()).map(|letter| self.paint(*letter));
            let (name, wide, digits) = (&self.names[number], self.wide, self.digits);
            lines.push(format!(" {:>digits$} {name:<wide$}  {}", number + 1, self.spaced(letters)));
        }
        for line in lines {
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }

    /// Cells of one line, with a gap where another namespace, or another kind of end, begins.
    fn spaced(&self, cells: impl Iterator<Item = String>) -> String {
        let mut line = String::new();
        for (number, cell) in cells.enumerate() {
            if number > 0 && !together(&self.ends[number - 1], &self.ends[number]) {
                line.push(' ');
            }
            line.push_str(&cell);
            if self.airy {
                line.push(' ');
            }
        }
        line
    }

    fn paint(&self, letter: Letter) -> String {
        let colour = match letter {
            Letter::Allowed => "32",
            Letter::Ingress | Letter::Egress => "31",
            Letter::Both => "1;31",
            Letter::NoFlow => "2",
        };
        let letter = letter.as_char();
        if self.colour { format!("\x1b[{colour}m{letter}\x1b[0m") } else { letter.to_string() }
    }
}

/// Whether two neighbours belong to one group.
pub fn together(one: &End, other: &End) -> bool {
    match (&one.kind, &other.kind) {
        (EndKind::Pod { namespace: one, .. }, EndKind::Pod { namespace: other, .. }) => one == other,
        (one, other) => std::mem::discriminant(one) == std::mem::discriminant(other),
    }
}

/// The digit of `number`, counted from the left of `digits`; a space instead of leading zeros.
fn digit(number: usize, digits: usize, place: usize) -> char {
    format!("{number:>digits$}").chars().nth(place).unwrap_or(' ')
}

/// The end of a long name tells more than its middle.
fn shortened(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= LONGEST_NAME {
        return name.to_owned();
    }
    let (front, back) = (&letters[..LONGEST_NAME / 2], &letters[letters.len() - (LONGEST_NAME / 2 - 1)..]);
    front.iter().chain(['…'].iter()).chain(back).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::offline::{Family, Probe};

    fn matrix(pods: usize) -> Matrix {
        let ends = (0..pods).map(|number| End {
            kind: EndKind::Pod { namespace: format!("n{}", number / 50), name: format!("pod-{number:03}") },
            addresses: Vec::new(),
        });
        let rows = vec![vec![Letter::Allowed; pods]; pods];
        let table = Table { probe: Probe::parse("TCP/80").unwrap(), family: Family::V4, rows };
        Matrix { ends: ends.collect(), tables: vec![table] }
    }

    #[test]
    fn lines_fit_the_screen() {
        for (pods, width) in [(3, 80), (60, 80), (60, 200), (120, 80), (120, 300), (200, 120)] {
            let shown = text(&matrix(pods), Screen { width: Some(width), colour: false });
            let table: Vec<&str> = shown.lines().take_while(|line| !line.is_empty()).skip(1).collect();
            assert!(table.iter().all(|line| line.chars().count() <= usize::from(width)), "{pods} {width}:\n{shown}");
            assert_eq!(shown.contains("are not shown"), pods > MOST || width < 81 && pods == 120, "{pods} {width}:\n{shown}");
        }
    }

    #[test]
    fn colour_is_for_those_who_see_it() {
        let plain = text(&matrix(2), Screen { width: None, colour: false });
        let coloured = text(&matrix(2), Screen { width: None, colour: true });
        assert!(!plain.contains('\x1b') && coloured.contains("\x1b[32m.\x1b[0m"));
        assert!(plain.starts_with("TCP/80 IPv4: 4 allowed, 0 refused\n               1 2\n 1 n0/pod-000  . .\n"), "{plain}");
    }

    #[test]
    fn long_names_keep_both_ends() {
        let name = format!("{}/{}-x7k2p", "namespace".repeat(3), "deployment".repeat(3));
        let short = shortened(&name);
        assert_eq!(short.chars().count(), LONGEST_NAME);
        assert!(short.starts_with("namespace") && short.ends_with("-x7k2p"), "{short}");
    }
}
