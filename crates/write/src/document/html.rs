//! A document as one page that needs nothing else: no script, no font, no network.
//!
//! Names come from files of strangers: all text is escaped, and the page forbids itself to
//! load or run anything.

use std::io;

use crate::document::digest::policy_source;
use crate::document::escape::{escape_markup, printable};
use crate::document::sectioned::{Body, Document, Paragraph, Section};
use crate::document::table::{Cell, Table, Unit};

pub(crate) const STYLE: &str = "\
html{color-scheme:light dark;--text:#1d2430;--back:#fff;--soft:#f6f7f9;--line:#d5dae1;\
--quiet:#566072;--bad:#a40000;--good:#0a6b0a;--odd:#8a5a00;--bar:#3d7ab8;--link:#0b6bcb}\
@media(prefers-color-scheme:dark){html{--text:#e6e9ef;--back:#14181f;--soft:#1a202a;\
--line:#333c4a;--quiet:#9aa6b7;--bad:#ff8f85;--good:#7fd18a;--odd:#e5b567;--bar:#5a9bd8;\
--link:#6cb6ff}}\
body{font:14px/1.5 system-ui,sans-serif;margin:2em auto 4em;max-width:100em;padding:0 1.5em;\
color:var(--text);background:var(--back)}\
h1{font-size:1.5em;overflow-wrap:anywhere}\
h2{font-size:1.15em;margin:2em 0 .5em;padding-top:.5em;border-top:1px solid var(--line)}\
table{border-collapse:collapse;font-size:13px}\
th,td{padding:.2em .8em;text-align:left;vertical-align:top}\
th{border-bottom:1px solid var(--line);font-weight:600;color:var(--quiet)}\
td.n,th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}\
td.t{overflow-wrap:anywhere}tr:nth-child(even) td{background:var(--soft)}\
tr.note td{color:var(--quiet);padding-left:2.5em}\
.slower,.violated{color:var(--bad);font-weight:600}\
.faster,.ok{color:var(--good);font-weight:600}\
.inconclusive{color:var(--odd)}ol{max-width:75em}li{margin:.8em 0}.advice{color:var(--quiet)}\
.bar{display:block;width:7em;height:4px;background:var(--line);margin-left:auto}\
.bar rect{fill:var(--bar)}";

impl Document {
    /// Writes a page with this title.
    pub fn write_html(&self, title: &str, out: &mut dyn io::Write) -> io::Result<()> {
        let (title, style) = (markup(title), policy_source(STYLE));
        write!(
            out,
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             style-src '{style}'; base-uri 'none'; form-action 'none'\">\n\
             <title>{title}</title>\n<style>{STYLE}</style>\n\
             </head><body>\n<h1>{title}</h1>\n"
        )?;
        self.write_html_body(out)?;
        out.write_all(b"</body></html>\n")
    }

    /// Writes the sections alone, for a page that has more.
    pub(crate) fn write_html_body(&self, out: &mut dyn io::Write) -> io::Result<()> {
        for section in &self.sections {
            section.write_html(out)?;
        }
        for hint in &self.hints {
            writeln!(out, "<p class=\"advice\">{}</p>", markup(hint))?;
        }
        Ok(())
    }
}

pub(crate) fn markup(text: &str) -> String {
    escape_markup(&printable(text))
}

impl Section {
    fn write_html(&self, out: &mut dyn io::Write) -> io::Result<()> {
        if self.is_empty() && self.when_empty.is_none() {
            return Ok(());
        }
        writeln!(out, "<h2 id=\"{}\">{}</h2>", markup(self.key), markup(&self.title))?;
        if self.is_empty() {
            return writeln!(out, "<p>{}</p>", markup(self.when_empty.unwrap_or("none")));
        }
        match &self.body {
            Body::Prose(_, paragraphs) => write_paragraphs(paragraphs, out)?,
            Body::Record(table) | Body::Rows(table) => write_table(table, out)?,
        }
        match self.left_out {
            0 => Ok(()),
            left => writeln!(out, "<p class=\"advice\">… {left} more (--top 0 shows all)</p>"),
        }
    }
}

fn write_paragraphs(paragraphs: &[Paragraph], out: &mut dyn io::Write) -> io::Result<()> {
    out.write_all(b"<ol>\n")?;
    for paragraph in paragraphs {
        writeln!(
            out,
            "<li><strong>{}</strong><br>{}<br><span class=\"advice\">{}</span></li>",
            markup(&paragraph.title),
            markup(&paragraph.evidence),
            markup(&paragraph.advice)
        )?;
    }
    out.write_all(b"</ol>\n")
}

fn write_table(table: &Table, out: &mut dyn io::Write) -> io::Result<()> {
    let columns = table.columns();
    let shown: Vec<usize> = (0..columns.len()).filter(|&at| columns[at].in_text).collect();
    let class = |at: usize| match columns[at].unit {
        Unit::Text | Unit::Status | Unit::Flag => "t",
        _ => "n",
    };
    out.write_all(b"<table>\n<tr>")?;
    for &at in &shown {
        write!(out, "<th class=\"{}\">{}</th>", class(at), markup(&columns[at].title))?;
    }
    out.write_all(b"</tr>\n")?;
    let mut texts: Vec<_> = shown.iter().map(|&at| table.column_texts(at).into_iter()).collect();
    for (row, note) in table.rows().iter().zip(table.notes()) {
        out.write_all(b"<tr>")?;
        for (&at, texts) in shown.iter().zip(&mut texts) {
            let short = texts.next().unwrap_or_default();
            let text = markup(&short);
            match columns[at].unit {
                // The words of a status are ours; the first of them names its color.
                Unit::Status => {
                    let word = text.split(' ').next().unwrap_or_default();
                    write!(out, "<td class=\"t\"><span class=\"{word}\">{text}</span></td>")?;
                }
                _ => {
                    let (class, hover) = (class(at), hover(&row[at], &short));
                    write!(out, "<td class=\"{class}\"{hover}>{text}{}</td>", bar(&row[at]))?;
                }
            }
        }
        out.write_all(b"</tr>\n")?;
        if !note.is_empty() {
            let width = shown.len();
            writeln!(
                out,
                "<tr class=\"note\"><td colspan=\"{width}\">↳ {}</td></tr>",
                markup(note)
            )?;
        }
    }
    out.write_all(b"</table>\n")
}

/// The whole name where a short one is shown.
fn hover(cell: &Cell, short: &str) -> String {
    match cell {
        Cell::Text(whole) if !whole.is_empty() && *printable(whole) != *short => {
            format!(" title=\"{}\"", markup(whole))
        }
        _ => String::new(),
    }
}

/// A share as a bar below its number.
fn bar(cell: &Cell) -> String {
    let &Cell::Share(part, whole) = cell else { return String::new() };
    let percent = (part as f64 / whole.max(1) as f64 * 100.0).clamp(0.0, 100.0);
    format!(
        "<svg class=\"bar\" viewBox=\"0 0 100 4\" preserveAspectRatio=\"none\">\
         <rect width=\"{percent:.1}\" height=\"4\"/></svg>"
    )
}

#[cfg(test)]
mod tests {
    use crate::document::digest::check_policy;
    use crate::document::sectioned::{Body, Document, Paragraph, Section};
    use crate::document::table::{Column, Table, Unit};

    #[test]
    fn names_cannot_become_markup() {
        let mut table = Table::new([
            Column::new("verdict", "verdict", Unit::Status),
            Column::new("name", "name", Unit::Text),
        ]);
        let bad = "</td><script>alert('1')</script>\u{202e}\u{1b}[31m";
        table.push_with_note(["inconclusive".into(), bad.into()], bad.to_owned());
        let paragraph = Paragraph { title: bad.into(), evidence: bad.into(), advice: bad.into() };
        let section =
            |key, body| Section { key, title: bad.to_owned(), body, when_empty: None, left_out: 0 };
        let document = Document {
            sections: vec![
                section("rows", Body::Rows(table.clone())),
                section("prose", Body::Prose(table, vec![paragraph])),
            ],
            hints: vec![bad.to_owned()],
        };
        let mut out = Vec::new();
        document.write_html(bad, &mut out).expect("a vector takes everything");
        let page = String::from_utf8(out).expect("text");
        check_policy(&page);
        assert!(!page.contains("<script"), "{page}");
        assert!(!page.contains(['\u{202e}', '\u{1b}']), "{page}");
        assert!(page.contains("<span class=\"inconclusive\">inconclusive</span>"), "{page}");
        assert_eq!(page.matches("&lt;script&gt;").count(), 10, "{page}");
    }
}
