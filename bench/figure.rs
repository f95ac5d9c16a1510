//! Medians with their spread, and tables of them. One form for both readers: aligned Markdown.

use std::fmt;
use std::time::Duration;

/// Many readings of one thing, ascending.
pub struct Figure(Vec<f64>);

impl Figure {
    /// From readings in any order; at least one.
    pub fn of(mut readings: Vec<f64>) -> Self {
        assert!(!readings.is_empty(), "a figure needs a reading");
        readings.sort_by(f64::total_cmp);
        Self(readings)
    }

    /// From durations, in milliseconds.
    pub fn ms(readings: &[Duration]) -> Self {
        Self::of(readings.iter().map(|reading| reading.as_secs_f64() * 1e3).collect())
    }

    /// The middle one.
    pub fn median(&self) -> f64 {
        self.at(0.5)
    }

    /// This one's median as so many times the other's.
    pub fn times(&self, other: &Self) -> String {
        format!("{:.2}", self.median() / other.median())
    }

    fn at(&self, share: f64) -> f64 {
        self.0[((self.0.len() - 1) as f64 * share).round() as usize]
    }
}

/// The median, and between which two values the middle half lies.
impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = usize::from(self.median() < 100.0) + usize::from(self.median() < 10.0);
        let (low, high) = (self.at(0.25), self.at(0.75));
        write!(f, "{:.digits$} ({low:.digits$} to {high:.digits$})", self.median())
    }
}

/// A table with a heading and a sentence on how it was taken.
pub struct Table {
    title: String,
    how: String,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Begins one.
    pub fn new<const N: usize>(title: &str, how: &str, columns: [&str; N]) -> Self {
        Self { title: title.into(), how: how.into(), rows: vec![columns.map(str::to_owned).to_vec()] }
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "## {}\n\n{}\n", self.title, self.how)?;
        let columns = self.rows[0].len();
        let width = |at: usize| self.rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for (number, row) in self.rows.iter().enumerate() {
            write!(f, "|")?;
            for (at, cell) in row.iter().enumerate() {
                let width = widths[at];
                if at == 0 { write!(f, " {cell:<width$} |")? } else { write!(f, " {cell:>width$} |")? }
            }
            writeln!(f)?;
            if number == 0 {
                write!(f, "|")?;
                for (at, width) in widths.iter().enumerate() {
                    write!(f, "{}{}|", "-".repeat(width + 1), if at == 0 { "-" } else { ":" })?;
                }
                writeln!(f)?;
            }
        }
        Ok(())
    }
}
