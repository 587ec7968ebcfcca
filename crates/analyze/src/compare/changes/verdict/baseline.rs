//! Recordings of one side as a small text, to keep beside the code and compare with later.
//!
//! It holds the series, not the trace: lines of words and whole numbers, every name once,
//! a version at the top and a checksum at the end. It may come from a stranger, so every
//! count is bounded before memory is taken, and an error names its line.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::str::SplitWhitespace;

use spanwise_model::hash_bytes;

use crate::compare::changes::CompareOptions;
use crate::compare::changes::causes::achieved::Achieved;
use crate::compare::changes::sides::series::{
    Aspect, Behind, Cell, CompareBy, ComparePlace, CompareSeries, Group, RowSeries, StepOf,
};
use crate::{Phase, TotalNanos};

const HEAD: &str = "spanwise-baseline 1";

/// More is no baseline.
const RECORDINGS_MAX: usize = 1024;
const STEPS_MAX: usize = 100_000;
const CELLS_MAX: usize = 4_000_000;

/// What is wrong with a baseline, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaselineError {
    /// From 1.
    pub line: usize,
    pub what: String,
}

impl std::fmt::Display for BaselineError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for BaselineError {}

const ASPECTS: [(Aspect, &str); 14] = [
    (Aspect::Rows(CompareBy::Operator), "op"),
    (Aspect::Rows(CompareBy::Class), "class"),
    (Aspect::Rows(CompareBy::Kernel), "kernel"),
    (Aspect::Rows(CompareBy::Module), "module"),
    (Aspect::Rows(CompareBy::Layer), "layer"),
    (Aspect::Rows(CompareBy::Phase), "phase"),
    (Aspect::Rows(CompareBy::Step), "step"),
    (Aspect::Rows(CompareBy::Stack), "stack"),
    (Aspect::Rows(CompareBy::PythonLine), "python-line"),
    (Aspect::Rows(CompareBy::Function), "function"),
    (Aspect::Syncs, "syncs"),
    (Aspect::Copies, "copies"),
    (Aspect::Devices, "devices"),
    (Aspect::PhaseWalls, "phase-walls"),
];

/// Writes what [`parse_baseline`] reads.
pub fn baseline_text(series: &[CompareSeries], options: &CompareOptions) -> String {
    let mut writer = Writer::default();
    series.iter().for_each(|series| writer.recording(series));
    let mut text = format!("{HEAD}\nby {}\n", options.by.text());
    if let Some(phase) = options.phase {
        let _ = writeln!(text, "phase {}", phase.text());
    }
    if let Some((from, to)) = options.steps {
        let _ = writeln!(text, "steps {from} {to}");
    }
    for name in &writer.names {
        let _ = writeln!(text, "name {}", escaped(name));
    }
    text.push_str(&writer.body);
    let _ = writeln!(text, "end {:016x}", hash_bytes(text.as_bytes()));
    text
}

/// Writing to a string does not fail, so results are dropped.
#[derive(Default)]
struct Writer {
    names: Vec<String>,
    numbers: HashMap<String, usize>,
    body: String,
}

impl Writer {
    fn name(&mut self, name: &str) -> usize {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        self.numbers.insert(name.to_owned(), self.names.len());
        self.names.push(name.to_owned());
        self.names.len() - 1
    }

    fn recording(&mut self, series: &CompareSeries) {
        let has_steps = if series.has_steps { "steps" } else { "whole" };
        let rank = series.rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string());
        let _ = writeln!(self.body, "recording {has_steps} {rank}");
        if series.ignored_steps > 0 {
            let _ = writeln!(self.body, "ignored {}", series.ignored_steps);
        }
        for (step, wall) in series.steps.iter().zip(&series.wall) {
            let phase = step.phase.map_or("-", Phase::text);
            let _ = writeln!(self.body, "step {} {phase} {wall}", step.number);
        }
        for (word, sums) in [("inside", &series.inside), ("outside", &series.outside)] {
            for (place, ns) in sums {
                let _ = writeln!(self.body, "{word} {} {ns}", place.text());
            }
        }
        for phase in &series.phases {
            let _ = writeln!(self.body, "has {}", phase.text());
        }
        for (aspect, group) in &series.groups {
            let word = ASPECTS.iter().find(|(of, _)| of == aspect).map_or("", |(_, word)| word);
            let _ = writeln!(self.body, "group {word}");
            group.iter().for_each(|((place, key), row)| self.row(*place, key, row));
        }
    }

    fn row(&mut self, place: ComparePlace, key: &str, row: &RowSeries) {
        let key = self.name(key);
        let _ = write!(self.body, "row {} {key}", place.text());
        for cell in &row.cells {
            let _ = write!(self.body, " {}/{}", cell.ns, cell.count);
        }
        self.body.push('\n');
        for (word, names) in [("kernel", &row.behind.kernels), ("line", &row.behind.lines)] {
            for (name, cell) in names {
                let name = self.name(name);
                let _ = writeln!(self.body, "{word} {name} {}/{}", cell.ns, cell.count);
            }
        }
        for (shape, count) in &row.behind.shapes {
            let shape = self.name(shape);
            let _ = writeln!(self.body, "shape {shape} {count}");
        }
        let (bytes, ns) = (row.behind.copied_bytes, row.behind.copied_ns);
        if bytes > 0 || ns > 0 {
            let _ = writeln!(self.body, "copied {bytes} {ns}");
        }
        let Achieved { bytes, flops, ns } = row.behind.achieved;
        if bytes > 0 || flops > 0 || ns > 0 {
            let _ = writeln!(self.body, "achieved {bytes} {flops} {ns}");
        }
    }
}

fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r")
}

fn plain(text: &str) -> String {
    let mut name = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match (c, c == '\\') {
            (_, true) => match rest.next() {
                Some('n') => name.push('\n'),
                Some('r') => name.push('\r'),
                Some(other) => name.push(other),
                None => name.push('\\'),
            },
            (c, false) => name.push(c),
        }
    }
    name
}

/// Reads a baseline: its recordings, and what they were gathered for.
pub fn parse_baseline(text: &str) -> Result<(Vec<CompareSeries>, CompareOptions), BaselineError> {
    let error = |line: usize, what: &str| BaselineError { line, what: what.to_owned() };
    if text.lines().next() != Some(HEAD) {
        return Err(error(1, &format!("not a baseline that this version reads ({HEAD:?})")));
    }
    let lines = text.lines().count();
    let end = text.trim_end_matches('\n').rfind('\n').map_or(0, |at| at + 1);
    let (body, last) = text.split_at(end);
    if last.trim_end() != format!("end {:016x}", hash_bytes(body.as_bytes())) {
        return Err(error(lines, "the checksum does not match: cut off or changed by hand"));
    }
    let mut reader = Reader::new();
    for (at, line) in body.lines().enumerate().skip(1) {
        reader.line(line).map_err(|what| BaselineError { line: at + 1, what })?;
    }
    reader.finish().map_err(|what| BaselineError { line: lines, what })
}

struct Reader {
    options: CompareOptions,
    names: Vec<String>,
    series: Vec<CompareSeries>,
    /// Where the next rows go.
    group: Option<Aspect>,
    row: Option<(ComparePlace, String)>,
    cells: usize,
}

type Read<T> = Result<T, String>;

impl Reader {
    fn new() -> Self {
        Reader {
            options: CompareOptions::by(CompareBy::Operator),
            names: Vec::new(),
            series: Vec::new(),
            group: None,
            row: None,
            cells: 0,
        }
    }

    fn line(&mut self, line: &str) -> Read<()> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word == "name" {
            self.names.push(plain(rest));
            return Ok(());
        }
        let mut words = rest.split_whitespace();
        match word {
            "by" => {
                let by = words.next().and_then(CompareBy::parse);
                self.options.by = by.ok_or("not a way to group")?;
            }
            "phase" => self.options.phase = Some(phase(&mut words)?),
            "steps" => {
                self.options.steps = Some((number(&mut words)?, number(&mut words)?));
            }
            "recording" => self.recording(&mut words)?,
            "ignored" | "step" | "inside" | "outside" | "has" | "group" => {
                self.part(word, &mut words)?
            }
            "row" => self.row(&mut words)?,
            "kernel" | "line" | "shape" | "copied" | "achieved" => {
                self.behind(word, &mut words)?;
            }
            _ => return Err(format!("not a line of a baseline: {word:?}")),
        }
        match words.next() {
            None => Ok(()),
            Some(more) => Err(format!("more than belongs to {word}: {more:?}")),
        }
    }

    fn recording(&mut self, words: &mut SplitWhitespace<'_>) -> Read<()> {
        if self.series.len() >= RECORDINGS_MAX {
            return Err(format!("more than {RECORDINGS_MAX} recordings"));
        }
        let has_steps = match words.next() {
            Some("steps") => true,
            Some("whole") => false,
            _ => return Err("a recording has steps or is a whole".to_owned()),
        };
        let rank = match words.next() {
            Some("-") => None,
            word => Some(parsed(word)?),
        };
        self.series.push(CompareSeries { has_steps, rank, ..CompareSeries::default() });
        (self.group, self.row) = (None, None);
        Ok(())
    }

    fn part(&mut self, word: &str, words: &mut SplitWhitespace<'_>) -> Read<()> {
        let series = self.series.last_mut().ok_or("no recording yet")?;
        match word {
            "ignored" => series.ignored_steps = parsed::<u32>(words.next())?.into(),
            "step" => {
                if series.steps.len() >= STEPS_MAX || !series.groups.is_empty() {
                    return Err(format!("a step too many, or behind a group (of {STEPS_MAX})"));
                }
                let number = number(words)?;
                let phase = match words.next() {
                    Some("-") => None,
                    word => Some(phase_of(word)?),
                };
                series.steps.push(StepOf { number, phase });
                series.wall.push(amount(words.next())?);
            }
            "has" => series.phases.push(phase(words)?),
            "group" => {
                let word = words.next();
                let aspect = ASPECTS.iter().find(|(_, name)| Some(*name) == word);
                let aspect = aspect.ok_or("not a group that this version knows")?.0;
                series.groups.insert(aspect, Group::new());
                (self.group, self.row) = (Some(aspect), None);
            }
            _ => {
                let sums = if word == "inside" { &mut series.inside } else { &mut series.outside };
                sums.insert(place(words)?, amount(words.next())?);
            }
        }
        Ok(())
    }

    fn name(&self, words: &mut SplitWhitespace<'_>) -> Read<String> {
        let at: usize = parsed(words.next())?;
        self.names.get(at).cloned().ok_or_else(|| format!("no name {at}"))
    }

    fn row(&mut self, words: &mut SplitWhitespace<'_>) -> Read<()> {
        let key = (place(words)?, self.name(words)?);
        let series = self.series.last_mut().ok_or("no recording yet")?;
        let group = self.group.and_then(|aspect| series.groups.get_mut(&aspect));
        let group = group.ok_or("no group yet")?;
        let mut cells = Vec::new();
        for word in words {
            self.cells += 1;
            if self.cells > CELLS_MAX || cells.len() >= series.steps.len() {
                return Err("more values than steps, or than a baseline has".to_owned());
            }
            cells.push(cell(Some(word))?);
        }
        if cells.len() != series.steps.len() {
            return Err(format!("{} values of {} steps", cells.len(), series.steps.len()));
        }
        let row = RowSeries { cells, behind: Behind::default() };
        if group.insert(key.clone(), row).is_some() {
            return Err("the same row again".to_owned());
        }
        self.row = Some(key);
        Ok(())
    }

    fn behind(&mut self, word: &str, words: &mut SplitWhitespace<'_>) -> Read<()> {
        let name = match word {
            "copied" | "achieved" => String::new(),
            _ => self.name(words)?,
        };
        let series = self.series.last_mut().ok_or("no recording yet")?;
        let group = self.group.and_then(|aspect| series.groups.get_mut(&aspect));
        let row = group.zip(self.row.as_ref()).and_then(|(group, key)| group.get_mut(key));
        let behind = &mut row.ok_or("no row yet")?.behind;
        match word {
            "kernel" => drop(behind.kernels.insert(name, cell(words.next())?)),
            "line" => drop(behind.lines.insert(name, cell(words.next())?)),
            "shape" => drop(behind.shapes.insert(name, parsed::<u32>(words.next())?.into())),
            "copied" => {
                behind.copied_bytes = amount(words.next())?;
                behind.copied_ns = amount(words.next())?;
            }
            _ => {
                let mut next = || amount(words.next());
                behind.achieved = Achieved { bytes: next()?, flops: next()?, ns: next()? };
            }
        }
        Ok(())
    }

    fn finish(self) -> Read<(Vec<CompareSeries>, CompareOptions)> {
        match self.series.iter().any(|series| !series.steps.is_empty()) {
            true => Ok((self.series, self.options)),
            false => Err("no step in it".to_owned()),
        }
    }
}

fn parsed<T: std::str::FromStr>(word: Option<&str>) -> Read<T> {
    let word = word.ok_or("a number is missing")?;
    word.parse().map_err(|_| format!("not a number: {word:?}"))
}

fn number(words: &mut SplitWhitespace<'_>) -> Read<i64> {
    parsed(words.next())
}

/// A time or a size: never below 0, and never so large that sums of it could overflow.
fn amount(word: Option<&str>) -> Read<TotalNanos> {
    Ok(TotalNanos::from(parsed::<u64>(word)?))
}

fn cell(word: Option<&str>) -> Read<Cell> {
    let (ns, count) = word.and_then(|word| word.split_once('/')).ok_or("not time/count")?;
    Ok(Cell { ns: amount(Some(ns))?, count: parsed::<u32>(Some(count))?.into() })
}

fn place(words: &mut SplitWhitespace<'_>) -> Read<ComparePlace> {
    words.next().and_then(ComparePlace::parse).ok_or_else(|| "not a place".to_owned())
}

fn phase(words: &mut SplitWhitespace<'_>) -> Read<Phase> {
    phase_of(words.next())
}

fn phase_of(word: Option<&str>) -> Read<Phase> {
    word.and_then(Phase::parse).ok_or_else(|| "not a phase".to_owned())
}
