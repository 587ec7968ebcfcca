//! A chart of steps: each a bar of its GPU time by class, with how long it took on the clock.

use std::io;
use std::ops::Range;

use spanwise_analyze::{StepClassTimes, StepClasses};

use crate::document::html::markup;
use crate::document::units::nanos_text;

const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 240.0;
/// Room for the numbers at the left, above, and below the bars.
const LEFT: f64 = 70.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 24.0;
const BAR_MAX: f64 = 60.0;
/// More are too narrow to see; of a longer run the first are drawn.
const STEPS_MAX: usize = 250;
/// How far apart the numbers of steps stand at least.
const NUMBER_WIDTH: f64 = 34.0;

/// Okabe and Ito's, which people with color blindness can distinguish; the rest is gray.
const COLORS: [&str; 8] =
    ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a800", "#8a8f98"];

/// How many classes have a color of their own, the rest among them.
pub const CHART_CLASSES_MAX: usize = COLORS.len();

/// Draws the chart; nothing where there are no steps with GPU work.
pub(crate) fn write_steps_chart(made: &StepClasses, out: &mut dyn io::Write) -> io::Result<()> {
    let steps = &made.steps[..made.steps.len().min(STEPS_MAX)];
    let sum = |step: &StepClassTimes| step.class_ns.iter().sum::<i128>();
    let most = steps.iter().map(|step| step.wall_ns.max(sum(step))).max().unwrap_or(0);
    if most <= 0 || made.classes.is_empty() {
        return Ok(());
    }
    writeln!(out, "<h2 id=\"steps-by-class\">Steps, GPU time by class</h2>")?;
    writeln!(
        out,
        "<svg class=\"steps\" xmlns=\"http://www.w3.org/2000/svg\" \
         viewBox=\"0 0 {WIDTH} {HEIGHT}\">"
    )?;
    let tall = HEIGHT - TOP - BOTTOM;
    let y_of = |ns: i128| TOP + tall * (1.0 - ns as f64 / most as f64);
    for part in [most, most / 2, 0] {
        let (y, text) = (y_of(part), nanos_text(part));
        writeln!(
            out,
            "<line x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"e\" x=\"{:.0}\" y=\"{:.1}\">{text}</text>",
            LEFT - 6.0,
            y + 4.0
        )?;
    }
    let pitch = ((WIDTH - LEFT) / steps.len() as f64).min(BAR_MAX);
    let every = (NUMBER_WIDTH / pitch).ceil().max(1.0) as usize;
    for (at, step) in steps.iter().enumerate() {
        let x = LEFT + at as f64 * pitch;
        write_bar(made, step, x..x + pitch * 0.86, y_of, out)?;
        if at % every == 0 {
            let middle = x + pitch * 0.43;
            let y = HEIGHT - 8.0;
            let number = step.number;
            writeln!(out, "<text class=\"m\" x=\"{middle:.1}\" y=\"{y}\">{number}</text>")?;
        }
    }
    writeln!(out, "</svg>")?;
    write_legend(made, steps.len(), out)
}

fn write_bar(
    made: &StepClasses,
    step: &StepClassTimes,
    columns: Range<f64>,
    y_of: impl Fn(i128) -> f64,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let (x, width) = (columns.start, columns.end - columns.start);
    let mut below = 0;
    for (class, &ns) in step.class_ns.iter().enumerate().filter(|(_, ns)| **ns > 0) {
        let (top, bottom) = (y_of(below + ns), y_of(below));
        writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{:.1}\" \
             fill=\"{}\"><title>step {}, {}: {}</title></rect>",
            (bottom - top).max(0.1),
            COLORS[class.min(CHART_CLASSES_MAX - 1)],
            step.number,
            markup(&made.classes[class]),
            nanos_text(ns)
        )?;
        below += ns;
    }
    let y = y_of(step.wall_ns);
    writeln!(
        out,
        "<path class=\"w\" d=\"M{x:.1} {y:.1}h{width:.1}\">\
         <title>step {}: {} on the clock</title></path>",
        step.number,
        nanos_text(step.wall_ns)
    )
}

fn write_legend(made: &StepClasses, shown: usize, out: &mut dyn io::Write) -> io::Result<()> {
    write!(out, "<p class=\"legend\">")?;
    for (class, name) in made.classes.iter().enumerate() {
        let color = COLORS[class.min(CHART_CLASSES_MAX - 1)];
        write!(
            out,
            "<span><svg viewBox=\"0 0 10 10\">\
             <rect width=\"10\" height=\"10\" fill=\"{color}\"/></svg> {}</span> ",
            markup(name)
        )?;
    }
    write!(
        out,
        "<span><svg viewBox=\"0 0 10 10\"><path class=\"w\" d=\"M0 5h10\"/></svg> \
         the step on the clock</span>"
    )?;
    if made.steps.len() > shown {
        write!(out, " <span>… {} more steps</span>", made.steps.len() - shown)?;
    }
    writeln!(out, "</p>")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(made: &StepClasses) -> String {
        let mut out = Vec::new();
        write_steps_chart(made, &mut out).expect("a vector takes everything");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn bars_are_as_tall_as_their_work_and_names_stay_text() {
        let step = |number, wall_ns, class_ns| StepClassTimes { number, wall_ns, class_ns };
        let made = StepClasses {
            classes: vec!["matmul".to_owned(), "<script>".to_owned()],
            steps: vec![step(3, 1000, vec![500, 250]), step(4, 800, vec![0, 100])],
        };
        let picture = drawn(&made);
        assert_eq!(picture.matches("<rect x=").count(), 3, "{picture}");
        let tall = HEIGHT - TOP - BOTTOM;
        for part in [0.5, 0.25, 0.1] {
            assert!(
                picture.contains(&format!("height=\"{:.1}\"", tall * part)),
                "{part}: {picture}"
            );
        }
        assert!(!picture.contains("<script>") && picture.contains("&lt;script&gt;"), "{picture}");
        assert!(picture.contains("step 4: 800 ns on the clock"), "{picture}");
    }

    #[test]
    fn without_steps_or_work_there_is_no_chart() {
        assert_eq!(drawn(&StepClasses::default()), "");
        let steps = vec![StepClassTimes { number: 1, wall_ns: 5, class_ns: Vec::new() }];
        assert_eq!(drawn(&StepClasses { classes: Vec::new(), steps }), "");
    }
}
