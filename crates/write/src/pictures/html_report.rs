//! A report as one file that opens anywhere: answers, charts, a timeline and a flame graph.
//!
//! The page loads nothing and runs one script, which its policy names by its digest: the flame
//! graph's own. It has a largest size. Where everything would be larger, the pictures lose detail
//! first, then the tables their last rows, and the page says so.

use std::io;

use spanwise_analyze::StepClasses;
use spanwise_model::{Profile, Trace};

use crate::document::digest::policy_source;
use crate::document::html::{STYLE, markup};
use crate::document::sectioned::{Body, Document, Section};
use crate::document::units::bytes_text;
use crate::pictures::flame::{self, FlameOptions};
use crate::pictures::steps_chart::write_steps_chart;
use crate::pictures::timeline::{TimelineSize, write_timeline};

/// What to write.
#[derive(Debug, Clone, Copy)]
pub struct ReportPage<'a> {
    pub title: &'a str,
    pub document: &'a Document,
    /// What the chart of steps shows, where there are steps.
    pub steps: Option<&'a StepClasses>,
    /// What the timeline shows.
    pub trace: Option<&'a Trace>,
    /// What the flame graph shows, and its column.
    pub profile: Option<(&'a Profile, usize)>,
    /// Colors the flame graph by what changed since this one.
    pub base: Option<&'a Profile>,
    pub bytes_max: usize,
}

/// How much detail there is; the first that fits is taken.
struct Detail {
    /// Narrowest frame of the flame graph, in pixels of 1200.
    flame_pixels_min: Option<f64>,
    timeline: Option<TimelineSize>,
    rows_max: usize,
    /// What the page says about it.
    dropped: &'static str,
}

const fn timeline(
    tracks_max: usize,
    rows_max: usize,
    named_pixels_min: f64,
) -> Option<TimelineSize> {
    Some(TimelineSize { tracks_max, rows_max, named_pixels_min })
}

const DETAILS: [Detail; 6] = [
    Detail {
        flame_pixels_min: Some(flame::PIXELS_MIN),
        timeline: timeline(10, 10, 2.0),
        rows_max: usize::MAX,
        dropped: "",
    },
    Detail {
        flame_pixels_min: Some(1.0),
        timeline: timeline(8, 8, 4.0),
        rows_max: usize::MAX,
        dropped: "the flame graph leaves out what is narrower than 1/1200, and the timeline shows \
                  fewer tracks and names",
    },
    Detail {
        flame_pixels_min: Some(4.0),
        timeline: timeline(6, 6, 12.0),
        rows_max: 50,
        dropped: "the flame graph leaves out what is narrower than 1/300, the timeline shows few \
                  tracks and names, and tables have 50 rows at most",
    },
    Detail {
        flame_pixels_min: None,
        timeline: timeline(4, 4, 40.0),
        rows_max: 20,
        dropped: "there is no flame graph, the timeline shows few tracks and names, and tables \
                  have 20 rows at most",
    },
    Detail {
        flame_pixels_min: None,
        timeline: None,
        rows_max: 20,
        dropped: "there is no flame graph and no timeline, and tables have 20 rows at most",
    },
    Detail {
        flame_pixels_min: None,
        timeline: None,
        rows_max: 5,
        dropped: "there is no flame graph and no timeline, and tables have 5 rows at most",
    },
];

/// Writes the page with as much detail as its size allows.
pub fn write_report_page(page: &ReportPage<'_>, out: &mut dyn io::Write) -> io::Result<()> {
    let mut bytes = Vec::new();
    for detail in &DETAILS {
        bytes.clear();
        page.write(detail, &mut bytes)?;
        if bytes.len() <= page.bytes_max {
            return out.write_all(&bytes);
        }
    }
    let needed = bytes_text(bytes.len() as i128);
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("even with the least detail the page is {needed}, more than the size allows"),
    ))
}

impl ReportPage<'_> {
    fn write(&self, detail: &Detail, out: &mut dyn io::Write) -> io::Result<()> {
        let (title, script) = (markup(self.title), policy_source(flame::SCRIPT));
        let styles = [format!("{STYLE}{PICTURES}"), flame::STYLE.to_owned()];
        let [style, flame_style] = styles.map(|style| policy_source(&style));
        write!(
            out,
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             style-src '{style}' '{flame_style}'; script-src '{script}'; base-uri 'none'; \
             form-action 'none'\">\n<title>{title}</title>\n<style>{STYLE}{PICTURES}</style>\n\
             </head><body data-report>\n<h1>{title}</h1>\n"
        )?;
        if !detail.dropped.is_empty() {
            let most = bytes_text(self.bytes_max as i128);
            writeln!(out, "<p class=\"advice\">To stay below {most}, {}.</p>", detail.dropped)?;
        }
        self.write_contents(detail, out)?;
        // What matters most, the pictures, then all the details.
        let mut answers = shortened(self.document, detail.rows_max);
        let is_last_of_head = |section: &Section| section.key == "findings";
        let head = answers.sections.iter().position(is_last_of_head).map_or(1, |at| at + 1);
        let tables = answers.sections.split_off(head.min(answers.sections.len()));
        let tables = Document { sections: tables, hints: std::mem::take(&mut answers.hints) };
        answers.write_html_body(out)?;
        self.write_pictures(detail, out)?;
        tables.write_html_body(out)?;
        out.write_all(b"</body></html>\n")
    }

    /// Links to all that is below.
    fn write_contents(&self, detail: &Detail, out: &mut dyn io::Write) -> io::Result<()> {
        let sections = self.document.sections.iter();
        let sections = sections.filter(|it| !it.is_empty() || it.when_empty.is_some());
        let links = sections.map(|it| (it.key, it.title.as_str()));
        let has_timeline = self.trace.is_some() && detail.timeline.is_some();
        let has_flame = self.profile.is_some() && detail.flame_pixels_min.is_some();
        let pictures =
            [(has_timeline, ("timeline", "Timeline")), (has_flame, ("flame", "Flame graph"))];
        let pictures = pictures.into_iter().filter(|(is_there, _)| *is_there).map(|(_, link)| link);
        write!(out, "<nav>")?;
        for (key, title) in links.chain(pictures) {
            write!(out, "<a href=\"#{}\">{}</a>", markup(key), markup(title))?;
        }
        writeln!(out, "</nav>")
    }

    fn write_pictures(&self, detail: &Detail, out: &mut dyn io::Write) -> io::Result<()> {
        if let Some(steps) = self.steps {
            write_steps_chart(steps, out)?;
        }
        if let (Some(trace), Some(size)) = (self.trace, detail.timeline) {
            writeln!(out, "<h2 id=\"timeline\">Timeline</h2>")?;
            write_timeline(trace, size, out)?;
        }
        if let (Some((profile, value)), Some(pixels_min)) = (self.profile, detail.flame_pixels_min)
        {
            writeln!(out, "<h2 id=\"flame\">Flame graph</h2>")?;
            let options =
                FlameOptions { title: "", value, is_icicle: true, is_html: true, base: self.base };
            flame::write_picture(profile, &options, pixels_min, out)?;
            // Exactly these bytes are what the policy names.
            write!(out, "</svg>\n<script>{}</script>\n", flame::SCRIPT)?;
        }
        Ok(())
    }
}

const PICTURES: &str = "\
.timeline,.flame,.steps{width:100%;height:auto;border:1px solid var(--line);border-radius:4px}\
.timeline text{font:10px ui-monospace,Menlo,Consolas,monospace;fill:#111;pointer-events:none}\
.timeline text.t{font-size:11px;font-weight:600;fill:var(--text)}\
.steps text{font-size:11px;fill:var(--quiet)}\
.steps .e{text-anchor:end}.steps .m{text-anchor:middle}\
.steps line{stroke:var(--line)}.w{stroke:var(--text);stroke-width:1.5;fill:none}\
.legend span{margin-right:1.2em;white-space:nowrap}.legend svg{width:.8em;height:.8em}\
nav{display:flex;flex-wrap:wrap;gap:.2em 1.1em;margin:.6em 0 1.4em;font-size:13px}\
nav a{color:var(--link);text-decoration:none}nav a:hover{text-decoration:underline}";

/// The document with at most `rows_max` rows in each table.
fn shortened(document: &Document, rows_max: usize) -> Document {
    let mut document = document.clone();
    for section in &mut document.sections {
        if let Body::Rows(table) = &mut section.body {
            let rows = table.rows().len();
            table.truncate(rows_max);
            section.left_out += rows - table.rows().len();
        }
    }
    document
}

#[cfg(test)]
mod tests {
    use spanwise_model::{Label, ProfileBuilder, StackId};

    use super::*;
    use crate::document::digest::check_policy;

    #[test]
    fn a_page_with_pictures_uses_what_its_policy_names() {
        let mut builder = ProfileBuilder::new(&[("wall", "nanoseconds")], 0);
        let labels = builder.labels(Vec::<Label>::new());
        builder.add(StackId::EMPTY, labels, 0, 1);
        let profile = builder.finish();
        let page = ReportPage {
            title: "a",
            document: &Document { sections: Vec::new(), hints: Vec::new() },
            steps: None,
            trace: None,
            profile: Some((&profile, 0)),
            base: None,
            bytes_max: 1 << 20,
        };
        let mut out = Vec::new();
        write_report_page(&page, &mut out).expect("to memory");
        let page = String::from_utf8(out).expect("text");
        assert_eq!((page.matches("<style>").count(), page.matches("<script>").count()), (2, 1));
        check_policy(&page);
    }
}
