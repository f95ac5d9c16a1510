//! Aligned columns for people. What comes from outside is made safe to print: a control character
//! in a name must not move the cursor or hide a line.

use crate::model::limits::CELL_COLUMNS_MAX;
use std::fmt;

/// Rows of text cells. Every column but the last is as wide as its widest cell.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
    bounded: bool,
}

impl Table {
    /// A table with a heading; its cells are escaped and bounded.
    pub fn headed<const N: usize>(heading: [&str; N]) -> Self {
        Self { rows: vec![heading.map(str::to_owned).to_vec()], bounded: true }
    }

    /// A table of our own texts, printed as they are.
    pub fn plain() -> Self {
        Self::default()
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        let cells = cells.into_iter();
        self.rows.push(if self.bounded {
            cells.map(|cell| bound(&printable(&cell))).collect()
        } else {
            cells.collect()
        });
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |at: usize| self.rows.iter().filter_map(|row| row.get(at)).map(|cell| columns_of(cell)).max();
        let widths: Vec<usize> = (0..columns).map(|at| width(at).unwrap_or(0)).collect();
        for row in &self.rows {
            for (at, cell) in row.iter().enumerate() {
                f.write_str(cell)?;
                if at + 1 < row.len() {
                    let gap = widths[at] - columns_of(cell) + 2;
                    write!(f, "{:gap$}", "")?;
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// The text with every control and direction-changing character spelled out.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        // Bidirectional overrides and line separators reorder or break what a terminal shows.
        let tricky = matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || tricky {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

fn bound(text: &str) -> String {
    if columns_of(text) <= CELL_COLUMNS_MAX {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut columns = 0;
    for c in text.chars() {
        columns += column_count(c);
        if columns >= CELL_COLUMNS_MAX {
            break;
        }
        out.push(c);
    }
    out.push('…');
    out
}

fn columns_of(text: &str) -> usize {
    text.chars().map(column_count).sum()
}

/// How many terminal columns a character takes, near enough for alignment: combining marks none,
/// East Asian wide and emoji two (Unicode Standard Annex 11, the blocks people meet).
fn column_count(c: char) -> usize {
    match c {
        '\u{300}'..='\u{36f}' | '\u{200b}'..='\u{200d}' | '\u{fe00}'..='\u{fe0f}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{303e}'
        | '\u{3041}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1faff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_whatever_the_letters_are() {
        let mut table = Table::headed(["ID", "NAME", "X"]);
        table.row(["a".into(), "备份".into(), "1".into()]);
        table.row(["bcd".into(), "e\u{301}".into(), "2".into()]);
        assert_eq!(table.to_string(), "ID   NAME  X\na    备份  1\nbcd  e\u{301}     2\n");
    }

    #[test]
    fn a_name_cannot_steer_the_terminal_or_fill_it() {
        let mut table = Table::headed(["NAME"]);
        table.row(["a\u{1b}[2J\n\u{202e}b".into()]);
        table.row(["备".repeat(500)]);
        let text = table.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "a\\u{1b}[2J\\n\\u{202e}b");
        assert!(columns_of(lines[2]) <= CELL_COLUMNS_MAX && lines[2].ends_with('…'), "{}", lines[2]);
    }
}
