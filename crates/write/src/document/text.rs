//! Tables as aligned text, fitted to the width of a terminal.

use std::io;

use crate::document::escape::printable;
use crate::document::table::{Cell, Table, Unit};
use crate::document::units::{bytes_text, count_text, nanos_text, percent_text, rounded};

/// The format of text output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    pub color: bool,
    /// Columns of the screen; longer names are shortened in the middle.
    pub width: usize,
}

impl Style {
    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    fn status(self, word: &str, text: &str) -> String {
        match word {
            "ok" | "faster" => self.paint("32", text),
            "note" | "inconclusive" => self.paint("33", text),
            "same" => text.to_owned(),
            _ => self.paint("1;31", text),
        }
    }

    fn paint(self, code: &str, text: &str) -> String {
        match self.color {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }
}

const INDENT: usize = 2;
const GAP: usize = 2;
/// What a name should have …
const TEXT_WIDTH_WANTED: usize = 40;
/// … and what it gets at least.
const TEXT_WIDTH_MIN: usize = 16;

pub(crate) fn write_table(table: &Table, style: Style, out: &mut dyn io::Write) -> io::Result<()> {
    let texts: Vec<Vec<String>> =
        (0..table.columns().len()).map(|at| table.column_texts(at)).collect();
    let shown = shown_columns(table, &texts, style.width);
    let rows = 0..table.rows().len();
    let cells = rows.map(|row| shown.iter().map(|&at| texts[at][row].clone()).collect());
    let cells: Vec<Vec<String>> = cells.collect();
    let widths = fitted_widths(table, &shown, &cells, style.width);
    let header: Vec<String> =
        shown.iter().map(|&at| printable(&table.columns()[at].title).into_owned()).collect();
    writeln!(out, "{}", style.dim(&line(table, &shown, &widths, &header, None)))?;
    let notes: Vec<String> = table.notes().iter().map(|note| printable(note).into()).collect();
    let note_indent = note_indent(&notes, &widths, style.width);
    for (row, note) in cells.iter().zip(notes) {
        writeln!(out, "{}", line(table, &shown, &widths, row, Some(style)))?;
        if !note.is_empty() {
            let room = style.width.saturating_sub(note_indent + 2);
            let note = style.dim(&format!("↳ {}", shortened(&note, room.max(TEXT_WIDTH_MIN))));
            writeln!(out, "{:note_indent$}{note}", "")?;
        }
    }
    Ok(())
}

/// The columns for people: optional ones give way, last first, while a screen is
/// too narrow to leave names a readable width.
fn shown_columns(table: &Table, texts: &[Vec<String>], screen: usize) -> Vec<usize> {
    let columns = table.columns();
    let mut shown: Vec<usize> = (0..columns.len()).filter(|&at| columns[at].in_text).collect();
    let width = |at: usize| {
        let widest = texts[at].iter().map(|text| display_width(text)).max().unwrap_or(0);
        let wanted = if columns[at].unit == Unit::Text { TEXT_WIDTH_WANTED } else { usize::MAX };
        widest.min(wanted).max(display_width(&columns[at].title).min(wanted))
    };
    while INDENT + shown.iter().map(|&at| width(at) + GAP).sum::<usize>() > screen + GAP {
        match shown.iter().rposition(|&at| columns[at].is_optional) {
            Some(place) => drop(shown.remove(place)),
            None => break,
        }
    }
    shown
}

/// Where the lines under rows begin: below the last column, or so much further
/// left that the longest one fits.
fn note_indent(notes: &[String], widths: &[usize], screen: usize) -> usize {
    let before = widths.split_last().map_or(0, |(_, before)| before.iter().sum::<usize>());
    let last_column = INDENT + before + GAP * widths.len().saturating_sub(1);
    let longest = notes.iter().map(|note| display_width(note)).max().unwrap_or(0);
    last_column.min(screen.saturating_sub(longest + 2)).max(2 * INDENT)
}

fn cell_text(cell: &Cell, unit: Unit) -> String {
    match (cell, unit) {
        (Cell::None, _) => "-".to_owned(),
        (Cell::Text(text), _) if text.is_empty() => "-".to_owned(),
        (Cell::Text(text), _) => printable(text).into_owned(),
        (Cell::Flag(value), _) => if *value { "yes" } else { "no" }.to_owned(),
        (Cell::Decimal(number), _) => number.clone(),
        (Cell::Share(part, whole), _) => percent_text(*part, *whole),
        (Cell::Int(value), unit) => amount_text(*value, unit),
        (Cell::Amount(value, unit), _) => amount_text(*value, *unit),
        (Cell::Mean(sum, of), unit) => amount_text(rounded(*sum, (*of).max(1).into(), 0), unit),
        (Cell::Change(value), unit) => {
            let sign = if *value > 0 { "+" } else { "" };
            format!("{sign}{}", amount_text(*value, unit))
        }
    }
}

fn amount_text(value: i128, unit: Unit) -> String {
    match unit {
        Unit::Nanos => nanos_text(value),
        Unit::Bytes => bytes_text(value),
        _ => count_text(value),
    }
}

/// A single value as people read it.
pub(crate) fn value_text(cell: &Cell, unit: Unit) -> String {
    cell_text(cell, unit)
}

fn is_text(unit: Unit) -> bool {
    matches!(unit, Unit::Text | Unit::Status | Unit::Flag)
}

/// Natural widths; where they exceed the screen, the widest text gives way.
fn fitted_widths(
    table: &Table,
    shown: &[usize],
    cells: &[Vec<String>],
    screen: usize,
) -> Vec<usize> {
    let natural = shown.iter().enumerate().map(|(place, &at)| {
        let of_cells = cells.iter().map(|row| display_width(&row[place])).max().unwrap_or(0);
        of_cells.max(display_width(&table.columns()[at].title))
    });
    let mut widths: Vec<usize> = natural.collect();
    let spaces = INDENT + GAP * widths.len().saturating_sub(1);
    while spaces + widths.iter().sum::<usize>() > screen {
        let shrinkable = (0..widths.len())
            .filter(|&place| table.columns()[shown[place]].unit == Unit::Text)
            .filter(|&place| widths[place] > TEXT_WIDTH_MIN);
        match shrinkable.max_by_key(|&place| widths[place]) {
            Some(place) => widths[place] -= 1,
            None => break,
        }
    }
    widths
}

/// One line: numbers to the right, text to the left, nothing after the last.
fn line(
    table: &Table,
    shown: &[usize],
    widths: &[usize],
    texts: &[String],
    status: Option<Style>,
) -> String {
    let mut line = " ".repeat(INDENT);
    for (place, (text, &width)) in texts.iter().zip(widths).enumerate() {
        if place > 0 {
            line.push_str(&" ".repeat(GAP));
        }
        let unit = table.columns()[shown[place]].unit;
        let text = shortened(text, width);
        let padding = " ".repeat(width - display_width(&text).min(width));
        let painted = match (unit, status) {
            (Unit::Status, Some(style)) => style.status(&text, &text),
            _ => text,
        };
        match is_text(unit) {
            true => line.extend([painted, padding]),
            false => line.extend([padding, painted]),
        }
    }
    line.truncate(line.trim_end_matches(' ').len());
    line
}

/// The text in at most `width` columns, with its middle left out where it is longer.
pub fn shortened(text: &str, width: usize) -> String {
    if display_width(text) <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(1);
    let head = prefix(text.chars(), room.div_ceil(2));
    let tail: String = prefix(text.chars().rev(), room / 2).chars().rev().collect();
    format!("{head}…{tail}")
}

fn prefix(chars: impl Iterator<Item = char>, width: usize) -> String {
    let mut used = 0;
    let fits = |c: &char| {
        used += char_width(*c);
        used <= width
    };
    chars.take_while(fits).collect()
}

pub(crate) fn display_width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// Columns that a character takes: marks none, East Asian characters and symbols
/// two. Coarse on purpose; an exact table is large and names are mostly ASCII.
fn char_width(c: char) -> usize {
    match u32::from(c) {
        0x300..=0x36f | 0x200b..=0x200d | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f
        | 0x2e80..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1faff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// The text broken at spaces into lines of at most `width` columns; a word that is
/// longer stands alone.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            line.push_str(word);
        } else if display_width(line) + 1 + display_width(word) <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::table::Column;

    #[track_caller]
    fn check(width: usize, color: bool, expected: &str) {
        let columns = [
            Column::new("self", "self", Unit::Nanos),
            Column::new("share", "share", Unit::Percent),
            Column::new("status", "status", Unit::Status),
            Column::new("name", "function", Unit::Text),
            Column::hidden("secret", Unit::Text),
        ];
        let mut table = Table::new(columns);
        let name = "void at::native::gather_rows_of_several_tables_kernel<4, float>(float*)";
        table.push([1_234_567_i64.into(), Cell::Share(1, 2), "ok".into(), name.into(), "x".into()]);
        let row = [12_i64.into(), Cell::Share(0, 0), "note".into(), "\x1b[2J".into(), "x".into()];
        table.push_with_note(row, "launched by a\nb".into());
        let mut out = Vec::new();
        write_table(&table, Style { color, width }, &mut out).expect("a vector takes everything");
        assert_eq!(String::from_utf8(out).expect("text"), expected);
    }

    #[test]
    fn numbers_stand_right_and_names_are_shortened_in_the_middle() {
        check(
            60,
            false,
            concat!(
                "      self   share  status  function\n",
                "  1.235 ms  50.0 %  ok      gather_rows_of_s…_kernel<4, f32>\n",
                "     12 ns       -  note    \\u{1b}[2J\n",
                "                            ↳ launched by a\\nb\n",
            ),
        );
    }

    #[test]
    fn wide_screens_shorten_nothing() {
        check(
            120,
            false,
            concat!(
                "      self   share  status  function\n",
                "  1.235 ms  50.0 %  ok      ",
                "gather_rows_of_several_tables_kernel<4, f32>\n",
                "     12 ns       -  note    \\u{1b}[2J\n",
                "                            ↳ launched by a\\nb\n",
            ),
        );
    }

    #[test]
    fn optional_columns_give_way_to_names() {
        let count = |key| Column::new(key, key, Unit::Count);
        let columns = [count("a"), count("b").optional(), Column::new("name", "name", Unit::Text)];
        let mut table = Table::new(columns);
        table.push([1_u64.into(), 2_u64.into(), "n".repeat(60).into()]);
        let texts: Vec<Vec<String>> = (0..3).map(|at| table.column_texts(at)).collect();
        assert_eq!(shown_columns(&table, &texts, 48), [0, 1, 2]);
        assert_eq!(shown_columns(&table, &texts, 47), [0, 2]);
    }

    #[test]
    fn numbers_of_lines_count_nothing() {
        let mut table = Table::new([Column::number("line", "line"), Column::count("calls", "")]);
        table.push([1131_u64.into(), 1131_u64.into()]);
        assert_eq!([table.column_texts(0), table.column_texts(1)], [["1131"], ["1,131"]]);
    }

    #[test]
    fn color_only_when_asked_for() {
        check(
            60,
            true,
            concat!(
                "\x1b[2m      self   share  status  function\x1b[0m\n",
                "  1.235 ms  50.0 %  \x1b[32mok\x1b[0m      gather_rows_of_s…_kernel<4, f32>\n",
                "     12 ns       -  \x1b[33mnote\x1b[0m    \\u{1b}[2J\n",
                "                            \x1b[2m↳ launched by a\\nb\x1b[0m\n",
            ),
        );
    }

    #[test]
    fn means_and_changes() {
        assert_eq!(cell_text(&Cell::Mean(7_000, 2), Unit::Nanos), "3.500 µs");
        assert_eq!(cell_text(&Cell::Mean(5, 2), Unit::Count), "3");
        assert_eq!(cell_text(&Cell::Change(1_500), Unit::Nanos), "+1.500 µs");
        assert_eq!(cell_text(&Cell::Change(-2), Unit::Bytes), "-2 B");
        assert_eq!(cell_text(&Cell::Change(0), Unit::Count), "0");
    }

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("extraordinary one", 5), ["extraordinary", "one"]);
        assert_eq!(wrapped("", 5), [""]);
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(display_width("漢字a"), 5);
        assert_eq!(shortened("漢字漢字漢字", 7), "漢…字");
    }
}
