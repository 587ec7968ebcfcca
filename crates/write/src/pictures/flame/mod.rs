//! Flame graphs: one SVG file that needs nothing else, or a page around it.
//!
//! The picture is complete without its script (as in a README); with it, frames
//! can be zoomed, searched and read. Names come from files of strangers: they are
//! escaped, and no data ever stands inside the script.

mod nodes;
mod tree;

use std::collections::HashMap;
use std::io::{self, Write};

use spanwise_model::{Profile, StackId, hash_bytes};

use crate::document::digest::policy_source;
use crate::document::escape::escape_markup;
pub use nodes::{FlameBase, FlameNodes, write_flame_nodes};
use tree::Node;

/// What makes the picture answer the mouse.
pub(crate) const SCRIPT: &str = include_str!("flame.js");

/// The style of the picture. A page names it by its digest, so nothing may be put into it.
pub(crate) const STYLE: &str = "\
.flame text{font:11px ui-monospace,Menlo,Consolas,monospace;fill:#111}\
.flame .t{font-size:16px}.flame .b{fill:#0550ae;cursor:pointer}\
.flame g.f{cursor:pointer}.flame g.f:hover rect{stroke:#000;stroke-width:.8}\
.flame rect.hit{fill:#c800c8}";
const PAGE_STYLE: &str = "body{margin:0;background:#fff}svg{width:100%;height:auto}";

const WIDTH: f64 = 1200.0;
const ROW: usize = 17;
/// Above the frames: title and buttons; below: what the mouse points at.
const HEAD: usize = 52;
const FOOT: usize = 30;
const CHARACTER: f64 = 6.6;

/// Narrower than this at full width a frame is left out, and counted.
pub(crate) const PIXELS_MIN: f64 = 0.2;

/// What to draw.
#[derive(Debug, Clone, Copy)]
pub struct FlameOptions<'a> {
    pub title: &'a str,
    /// Row of [`Profile::value_types`].
    pub value: usize,
    /// Roots on top instead of at the bottom.
    pub is_icicle: bool,
    /// A page around the picture.
    pub is_html: bool,
    /// Color by what changed since this profile, instead of by kind of frame.
    pub base: Option<&'a Profile>,
}

/// Draws a profile.
pub fn write_flame(
    profile: &Profile,
    options: &FlameOptions<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut out = io::BufWriter::new(out);
    if options.is_html {
        write!(
            out,
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             style-src '{}' '{}'; script-src '{}'; base-uri 'none'; form-action 'none'\">\n\
             <title>{}</title>\n<style>{PAGE_STYLE}</style>\n</head><body>\n",
            policy_source(PAGE_STYLE),
            policy_source(STYLE),
            policy_source(SCRIPT),
            escape_markup(options.title)
        )?;
    }
    write_picture(profile, options, PIXELS_MIN, &mut out)?;
    match options.is_html {
        true => write!(out, "</svg>\n<script>{SCRIPT}</script>\n</body></html>\n")?,
        false => write!(out, "<script><![CDATA[{SCRIPT}]]></script>\n</svg>\n")?,
    }
    out.flush()
}

/// Draws the picture alone, without its script and its end. Narrower than `pixels_min` a frame is
/// left out, and counted.
pub(crate) fn write_picture(
    profile: &Profile,
    options: &FlameOptions<'_>,
    pixels_min: f64,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Some(value_type) = profile.value_types.get(options.value) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no such column of values"));
    };
    let (nodes, sum) = tree::nodes(profile, options.value);
    let is_wide = |node: &&Node| node.total as f64 / sum as f64 * WIDTH >= pixels_min;
    let drawn: Vec<&Node> = nodes.iter().filter(is_wide).collect();
    let rows = drawn.iter().map(|node| node.depth + 1).max().unwrap_or(0);
    let picture = Picture {
        profile,
        unit: &value_type.unit,
        sum,
        rows,
        is_icicle: options.is_icicle,
        changes: options.base.map(|base| changes(profile, base, options.value)),
    };
    picture.write_head(options.title, value_type, nodes.len() - drawn.len(), out)?;
    for node in drawn {
        picture.write_node(node, out)?;
    }
    Ok(())
}

struct Picture<'a> {
    profile: &'a Profile,
    unit: &'a str,
    sum: i128,
    rows: usize,
    is_icicle: bool,
    /// By stack: the share of the whole that it has now, less what it had.
    changes: Option<HashMap<StackId, f64>>,
}

impl Picture<'_> {
    fn write_head(
        &self,
        title: &str,
        value: &spanwise_model::ValueType,
        left_out: usize,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let height = HEAD + self.rows * ROW + FOOT;
        let left_out = match left_out {
            0 => String::new(),
            count => format!("; {count} too narrow to draw"),
        };
        let sum = self.amount(self.sum);
        write!(
            out,
            "<svg class=\"flame\" xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" \
             height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\">\n\
             <style>{STYLE}</style>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
             <text class=\"t\" x=\"12\" y=\"22\">{}</text>\n\
             <text x=\"12\" y=\"40\">{}: {sum}{left_out}</text>\n\
             <text class=\"b\" id=\"search\" x=\"1090\" y=\"22\">search</text>\n\
             <text class=\"b\" id=\"reset\" x=\"1146\" y=\"22\">reset</text>\n\
             <text id=\"matched\" x=\"1060\" y=\"40\"></text>\n\
             <text id=\"details\" x=\"12\" y=\"{}\"></text>\n",
            escape_markup(title),
            escape_markup(&value.name),
            height - 10
        )
    }

    fn write_node(&self, node: &Node, out: &mut dyn Write) -> io::Result<()> {
        let frame = self.profile.frames_of(node.stack).next();
        let name = frame.map_or("", |frame| self.profile.text(frame.name));
        let group = frame.map_or("", |frame| self.profile.text(frame.group));
        let (x, w) = (node.start as f64 / self.sum as f64, node.total as f64 / self.sum as f64);
        let (left, pixels) = (x * WIDTH, w * WIDTH);
        let row = if self.is_icicle { node.depth } else { self.rows - 1 - node.depth };
        let y = HEAD + row * ROW;
        let change =
            self.changes.as_ref().map(|changes| changes.get(&node.stack).copied().unwrap_or(0.0));
        let color = match change {
            Some(change) => change_color(change),
            None => group_color(group, name),
        };
        let mut title = format!(
            "{name} {group}: {} ({:.2} %), itself {}",
            self.amount(node.total),
            100.0 * w,
            self.amount(node.own)
        );
        if let Some(change) = change {
            title.push_str(&format!(", {:+.2} points", 100.0 * change));
        }
        let room = ((pixels - 6.0) / CHARACTER) as usize;
        writeln!(
            out,
            "<g class=\"f\" data-name=\"{0}\" data-x=\"{x:.9}\" data-w=\"{w:.9}\" \
             data-depth=\"{1}\"><title>{2}</title><rect x=\"{left:.2}\" y=\"{y}\" \
             width=\"{3:.2}\" height=\"16\" rx=\"1\" fill=\"{color}\"/>\
             <text x=\"{4:.2}\" y=\"{5}\">{6}</text></g>",
            escape_markup(name),
            node.depth,
            escape_markup(&title),
            (pixels - 0.5).max(0.2),
            left + 3.0,
            y + 12,
            escape_markup(&fitted(name, room)),
        )
    }

    fn amount(&self, value: i128) -> String {
        match self.unit {
            "nanoseconds" => crate::document::units::nanos_text(value),
            "bytes" => crate::document::units::bytes_text(value),
            unit => format!("{} {unit}", crate::count_text(value)),
        }
    }
}

/// As much of a name as there is room for.
pub(crate) fn fitted(name: &str, room: usize) -> String {
    match name.chars().count() {
        _ if room < 3 => String::new(),
        len if len <= room => name.to_owned(),
        _ => name.chars().take(room - 1).chain(['…']).collect(),
    }
}

/// One hue a kind of frame, a little lighter or darker by name, so that
/// neighbors can be distinguished and the same frame has the same color everywhere.
fn group_color(group: &str, name: &str) -> String {
    let hue = match group {
        "[python]" => 48,
        "[cpu_op]" | "[Operator]" => 28,
        "[cuda_runtime]" | "[cuda_driver]" | "[Runtime]" => 200,
        "[kernel]" | "[Kernel]" => 120,
        "[gpu_memcpy]" | "[gpu_memset]" | "[Memcpy]" | "[Memset]" => 165,
        "[user_annotation]" => 280,
        "[spanwise]" => 0,
        other => hash_bytes(other.as_bytes()) % 360,
    };
    let light = 62 + hash_bytes(name.as_bytes()) % 16;
    let saturation = if group == "[spanwise]" { 0 } else { 70 };
    format!("hsl({hue},{saturation}%,{light}%)")
}

/// Red for more, blue for less, white for the same; full at five points.
fn change_color(change: f64) -> String {
    let strength = (change.abs() / 0.05).min(1.0);
    let light = 96.0 - 36.0 * strength;
    format!("hsl({},85%,{light:.0}%)", if change > 0.0 { 5 } else { 215 })
}

/// How the share of each stack changed. Shares, not values: two recordings are
/// seldom of the same length.
fn changes(profile: &Profile, base: &Profile, value: usize) -> HashMap<StackId, f64> {
    let share = |total: i128, sum: i128| total as f64 / sum.max(1) as f64;
    let mut numbers = HashMap::new();
    let base_paths = paths(base, &mut numbers);
    let (before, before_sum) = tree::nodes(base, value);
    let mut shares: HashMap<u32, f64> = HashMap::new();
    for node in &before {
        shares.insert(base_paths[node.stack.index()], share(node.total, before_sum));
    }
    let own_paths = paths(profile, &mut numbers);
    let (now, now_sum) = tree::nodes(profile, value);
    now.iter()
        .map(|node| {
            let was = shares.get(&own_paths[node.stack.index()]).copied().unwrap_or(0.0);
            (node.stack, share(node.total, now_sum) - was)
        })
        .collect()
}

/// The path of names and groups to each stack, as a number: by that of its parent and the frame
/// on top, so that the work is in proportion to the stacks, however deep they are.
fn paths<'p>(
    profile: &'p Profile,
    numbers: &mut HashMap<(u32, &'p str, &'p str), u32>,
) -> Vec<u32> {
    let mut paths = vec![0; profile.stack_parents.len()];
    for stack in 1..paths.len() {
        let frame = &profile.frames[profile.stack_frames[stack] as usize];
        let parent = paths[profile.stack_parents[stack] as usize];
        let next = numbers.len() as u32 + 1;
        let key = (parent, profile.text(frame.name), profile.text(frame.group));
        paths[stack] = *numbers.entry(key).or_insert(next);
    }
    paths
}

#[cfg(test)]
mod tests {
    use spanwise_model::{Label, ProfileBuilder, ProfileFrame, StrId};

    use super::*;

    /// Samples as (frames from the root, value).
    fn build(samples: &[(&[&str], i64)]) -> Profile {
        let mut builder = ProfileBuilder::new(&[("wall", "nanoseconds")], 0);
        for &(frames, value) in samples {
            let mut stack = StackId::EMPTY;
            for name in frames {
                let (name, group) = (builder.string(name), builder.string("[python]"));
                let frame = ProfileFrame { name, group, file: StrId::EMPTY, line: 0 };
                let frame = builder.frame(frame);
                stack = builder.push(stack, frame);
            }
            let labels = builder.labels(Vec::<Label>::new());
            builder.add(stack, labels, 0, value);
        }
        builder.finish()
    }

    fn drawn(profile: &Profile, base: Option<&Profile>, is_html: bool) -> String {
        let options = FlameOptions { title: "a < b", value: 0, is_icicle: false, is_html, base };
        let mut out = Vec::new();
        write_flame(profile, &options, &mut out).expect("to memory");
        String::from_utf8(out).expect("text")
    }

    /// What follows `key="` in each frame, in order.
    fn attributes<'a>(svg: &'a str, key: &str) -> Vec<&'a str> {
        let key = format!(" {key}=\"");
        let frames = svg.split("<g class=\"f\"").skip(1);
        frames.filter_map(|frame| frame.split_once(&key)?.1.split('"').next()).collect()
    }

    #[test]
    fn widths_are_shares_and_children_stand_inside() {
        let profile = build(&[(&["a"], 10), (&["a", "b"], 30), (&["c"], 60)]);
        let svg = drawn(&profile, None, false);
        assert_eq!(attributes(&svg, "data-name"), ["a", "b", "c"]);
        assert_eq!(attributes(&svg, "data-x"), ["0.000000000", "0.100000000", "0.400000000"]);
        assert_eq!(attributes(&svg, "data-w"), ["0.400000000", "0.300000000", "0.600000000"]);
        assert_eq!(attributes(&svg, "data-depth"), ["0", "1", "0"]);
    }

    #[test]
    fn names_cannot_become_markup() {
        let hostile = "</text><script>alert(1)</script>\"onload=\"x\u{1}";
        let profile = build(&[(&[hostile], 1)]);
        for is_html in [false, true] {
            let page = drawn(&profile, None, is_html);
            assert_eq!(page.matches("<script>").count(), 1, "only our own");
            assert!(!page.contains("\"onload"), "no attribute of theirs");
            assert!(!page.contains('\u{1}'), "no character that XML forbids");
            assert!(page.contains("a &lt; b"));
        }
    }

    #[test]
    fn a_page_runs_its_own_script_and_nothing_else() {
        crate::document::digest::check_policy(&drawn(&build(&[(&["a"], 1)]), None, true));
    }

    #[test]
    fn what_grew_is_red_and_what_shrank_is_blue() {
        let (old, new) =
            (build(&[(&["a"], 50), (&["b"], 50)]), build(&[(&["a"], 80), (&["b"], 20)]));
        let colors = drawn(&new, Some(&old), false);
        let colors: Vec<&str> = attributes(&colors, "fill");
        assert_eq!(colors, ["hsl(5,85%,60%)", "hsl(215,85%,60%)"]);
        let same = drawn(&new, Some(&new), false);
        assert_eq!(attributes(&same, "fill"), ["hsl(215,85%,96%)", "hsl(215,85%,96%)"]);
    }

    #[test]
    fn nothing_spent_draws_nothing() {
        assert_eq!(attributes(&drawn(&build(&[]), None, true), "data-x"), [""; 0]);
    }
}
