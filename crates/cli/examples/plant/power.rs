//! How often a planted difference is found, and how often one is found that is not there.
//!
//! Two recordings of one program give every operator a true value a step (their mean) and a
//! noise (the logarithm of their ratio, over √2). A trial draws both sides anew from them
//! and compares them as the command does, through the text of a baseline. Two models of
//! noise: the real one, drawn in blocks of neighbouring steps, the same for all rows, with
//! its lasting part and a sign by chance; and a normal one of the same size and correlation.

use std::fmt::Write as _;
use std::sync::Arc;

use anyhow::Context;
use spanwise_analyze::{
    Allowance, ClassRules, CompareBy, CompareOptions, Facts, Verdict, baseline_text, compare,
    compare_series, parse_baseline,
};
use spanwise_model::{Trace, hash_bytes};

use super::noise::Chance;

/// Neighbouring steps that are drawn together.
const BLOCK: usize = 4;

/// One row of both recordings.
struct Row {
    /// As the baseline begins its line: `row gpu 7`.
    head: String,
    /// The true value of each step.
    truth: Vec<f64>,
    counts: Vec<String>,
    noise: Vec<f64>,
}

/// What trials are drawn from.
pub(crate) struct Template {
    names: Vec<String>,
    steps: Vec<String>,
    wall: Row,
    rows: Vec<Row>,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Model {
    Resampled,
    Normal,
}

/// Where the difference is.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Planted {
    /// One operator on the GPU with at least 5 % of its work.
    Gpu,
    /// One with at least 1 %.
    GpuSmall,
    /// One operator on the host with at least 5 % of the step.
    Host,
    /// Everything on the host, and the step with it.
    Step,
}

#[derive(Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) model: Model,
    pub(crate) planted: Planted,
    pub(crate) percent: f64,
    pub(crate) steps: usize,
    /// On each side.
    pub(crate) recordings: usize,
}

pub(crate) fn table(recordings: [&Arc<Trace>; 2], trials: u64) -> anyhow::Result<String> {
    let template = Template::new(recordings);
    let mut table = String::from(
        "noise      where    percent  steps  recordings  found    false alarms (any row at all)\n",
    );
    let all = template.steps.len();
    for model in [Model::Resampled, Model::Normal] {
        let settings = [
            (Planted::Gpu, 3.0, all, 1),
            (Planted::Gpu, 3.0, all / 2, 1),
            (Planted::Gpu, 3.0, 6, 1),
            (Planted::GpuSmall, 3.0, all, 1),
            (Planted::GpuSmall, 6.0, all, 1),
            (Planted::Host, 3.0, all, 1),
            (Planted::Host, 30.0, all, 1),
            (Planted::Step, 3.0, all, 1),
            (Planted::Step, 10.0, all, 1),
            (Planted::Step, 3.0, all, 5),
        ];
        for (planted, percent, steps, recordings) in settings {
            let setting = Setting { model, planted, percent, steps, recordings };
            let (found, alarms) = template.trials(setting, trials)?;
            let model = if model == Model::Resampled { "resampled" } else { "normal" };
            let planted = match planted {
                Planted::Gpu => "GPU >5%",
                Planted::GpuSmall => "GPU >1%",
                Planted::Host => "host",
                Planted::Step => "step",
            };
            let share = |count: u64| 100.0 * count as f64 / trials as f64;
            writeln!(
                table,
                "{model:<9}  {planted:<7}  {percent:>5} %  {steps:>5}  {recordings:>10}  \
                 {:>5.1} %  {:>5.1} %",
                share(found),
                share(alarms)
            )?;
        }
    }
    Ok(table)
}

/// The lines of a recording by operator: steps, rows.
fn lines(trace: &Arc<Trace>) -> (String, CompareOptions) {
    let options = CompareOptions::by(CompareBy::Operator);
    let series = compare_series(&Facts::new(trace), &ClassRules::standard(), &options);
    (baseline_text(&[series], &options), options)
}

fn values(words: &str) -> Vec<(f64, String)> {
    let value = |word: &str| {
        let (ns, count) = word.split_once('/').unwrap_or((word, "1"));
        (ns.parse().unwrap_or(0.0), count.to_owned())
    };
    words.split_whitespace().map(value).collect()
}

impl Template {
    pub(crate) fn new(recordings: [&Arc<Trace>; 2]) -> Self {
        let texts = recordings.map(|trace| lines(trace).0);
        let steps = texts.each_ref().map(|text| {
            let lines = text.lines().filter_map(|line| line.strip_prefix("step "));
            lines.filter_map(|line| line.rsplit_once(' ')).collect::<Vec<_>>()
        });
        let count = steps[0].len().min(steps[1].len());
        let wall =
            |side: usize| steps[side].iter().map(|step| step.1).collect::<Vec<_>>().join(" ");
        let named = texts.each_ref().map(|text| Template::rows_of(text));
        let mut template = Template {
            names: Vec::new(),
            steps: steps[0][..count].iter().map(|step| step.0.to_owned()).collect(),
            wall: Row::new(String::new(), [&wall(0), &wall(1)], count),
            rows: Vec::new(),
        };
        for (place, name, values) in &named[0] {
            let same = named[1].iter().find(|row| row.0 == *place && row.1 == *name);
            let Some((_, _, other)) = same else { continue };
            let head = format!("row {place} {}", template.names.len());
            template.names.push(name.clone());
            template.rows.push(Row::new(head, [values, other], count));
        }
        template
    }

    /// Place, name and values of the rows by operator.
    fn rows_of(text: &str) -> Vec<(String, String, String)> {
        let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("name ")).collect();
        let group = text.lines().skip_while(|line| *line != "group op").skip(1);
        let rows = group.take_while(|line| !line.starts_with("group "));
        let row = |line: &str| {
            let mut words = line.strip_prefix("row ")?.splitn(3, ' ');
            let place = words.next()?.to_owned();
            let name = (*names.get(words.next()?.parse::<usize>().ok()?)?).to_owned();
            Some((place, name, words.next()?.to_owned()))
        };
        rows.filter_map(row).collect()
    }

    /// In how many trials a planted difference is found, and how many without one raise an
    /// alarm anywhere.
    pub(crate) fn trials(&self, setting: Setting, trials: u64) -> anyhow::Result<(u64, u64)> {
        let (mut found, mut alarms) = (0, 0);
        for trial in 0..trials {
            found += u64::from(self.trial(setting, trial, true)?);
            alarms += u64::from(self.trial(setting, trial, false)?);
        }
        Ok((found, alarms))
    }

    fn trial(&self, setting: Setting, trial: u64, is_planted: bool) -> anyhow::Result<bool> {
        let mut chance = Chance::new(trial * 2 + u64::from(is_planted));
        let candidates = self.candidates(setting.planted);
        let target = candidates.get(chance.below(candidates.len())).copied();
        let base = self.drawn(setting, None, &mut chance);
        let planted = (is_planted, target);
        let other = self.drawn(setting, Some(planted), &mut chance);
        let read = |text: &str| parse_baseline(text).context("what was drawn can be read");
        let (base, other) = (read(&base)?.0, read(&other)?.0);
        let compared = compare(&base, &other, CompareBy::Operator, &Allowance::default());
        if !is_planted {
            let mut all = compared.rows.iter().chain(&compared.overall).chain([&compared.wall]);
            return Ok(all.any(|row| row.is_changed()));
        }
        let verdict = match (setting.planted, target) {
            (Planted::Step, _) | (_, None) => Some(compared.wall.verdict),
            (_, Some(at)) => {
                let place = self.rows[at].head.split(' ').nth(1).unwrap_or_default();
                let is_target = |row: &&spanwise_analyze::CompareRow| {
                    row.place.text() == place && row.key == self.names[at]
                };
                compared.rows.iter().find(is_target).map(|row| row.verdict)
            }
        };
        Ok(verdict == Some(Verdict::Slower))
    }

    fn candidates(&self, planted: Planted) -> Vec<usize> {
        let sum = |row: &Row| row.truth.iter().sum::<f64>();
        let place = match planted {
            Planted::Gpu | Planted::GpuSmall => "row gpu",
            Planted::Host | Planted::Step => "row host",
        };
        let of_place = |row: &&Row| row.head.starts_with(place);
        let gpu = || self.rows.iter().filter(of_place).map(sum).sum::<f64>();
        let least = match planted {
            Planted::Gpu => gpu() * 0.05,
            Planted::GpuSmall => gpu() * 0.01,
            Planted::Host | Planted::Step => sum(&self.wall) * 0.05,
        };
        let rows = self.rows.iter().enumerate();
        rows.filter(|(_, row)| of_place(row) && sum(row) >= least).map(|(at, _)| at).collect()
    }

    /// One side; with a target and whether it is slower there.
    fn drawn(
        &self,
        setting: Setting,
        planted: Option<(bool, Option<usize>)>,
        chance: &mut Chance,
    ) -> String {
        let mut text = String::from("spanwise-baseline 1\nby op\n");
        for name in &self.names {
            let _ = writeln!(text, "name {name}");
        }
        for _ in 0..setting.recordings {
            self.recording(setting, planted, chance, &mut text);
        }
        let sum = hash_bytes(text.as_bytes());
        let _ = writeln!(text, "end {sum:016x}");
        text
    }

    fn recording(
        &self,
        setting: Setting,
        planted: Option<(bool, Option<usize>)>,
        chance: &mut Chance,
        text: &mut String,
    ) {
        let draw = Draw::new(setting, self.steps.len(), chance);
        let slower = |is_there: bool| {
            let is_planted = planted.is_some_and(|(is_planted, _)| is_planted) && is_there;
            if is_planted { 1.0 + setting.percent / 100.0 } else { 1.0 }
        };
        let _ = writeln!(text, "recording steps -");
        let is_step = setting.planted == Planted::Step;
        let walls = draw.values(&self.wall, slower(is_step), chance);
        for (step, wall) in self.steps.iter().zip(walls) {
            let _ = writeln!(text, "step {step} {wall:.0}");
        }
        let _ = writeln!(text, "group op");
        for (at, row) in self.rows.iter().enumerate() {
            let is_target = match is_step {
                true => row.head.starts_with("row host"),
                false => planted.is_some_and(|(_, target)| target == Some(at)),
            };
            text.push_str(&row.head);
            let values = draw.values(row, slower(is_target), chance);
            for (value, count) in values.iter().zip(&row.counts) {
                let _ = write!(text, " {value:.0}/{count}");
            }
            text.push('\n');
        }
    }
}

impl Row {
    fn new(head: String, [first, second]: [&str; 2], steps: usize) -> Self {
        let (first, second) = (values(first), values(second));
        let pairs = || first.iter().zip(&second).take(steps);
        let noise = |a: f64, b: f64| {
            if a > 0.0 && b > 0.0 { (a / b).ln() / std::f64::consts::SQRT_2 } else { 0.0 }
        };
        Row {
            head,
            truth: pairs().map(|(a, b)| f64::midpoint(a.0, b.0)).collect(),
            counts: pairs().map(|(a, _)| a.1.clone()).collect(),
            noise: pairs().map(|(a, b)| noise(a.0, b.0)).collect(),
        }
    }
}

/// What the rows of one recording share.
struct Draw {
    setting: Setting,
    /// By step: which of the real ones its noise comes from.
    from: Vec<usize>,
    sign: f64,
}

impl Draw {
    fn new(setting: Setting, real: usize, chance: &mut Chance) -> Self {
        let mut from = Vec::new();
        while from.len() < setting.steps.min(real) {
            let start = chance.below(real);
            from.extend((0..BLOCK).map(|at| (start + at) % real));
        }
        from.truncate(setting.steps.min(real));
        let sign = if chance.below(2) == 0 { 1.0 } else { -1.0 };
        Draw { setting, from, sign }
    }

    fn values(&self, row: &Row, factor: f64, chance: &mut Chance) -> Vec<f64> {
        let noise: Vec<f64> = match self.setting.model {
            Model::Resampled => self.from.iter().map(|&at| row.noise[at] * self.sign).collect(),
            Model::Normal => normal_noise(&row.noise, self.from.len(), chance),
        };
        row.truth.iter().zip(noise).map(|(truth, noise)| truth * factor * noise.exp()).collect()
    }
}

/// Of the same size, lasting part and correlation of neighbours as the real one.
fn normal_noise(real: &[f64], steps: usize, chance: &mut Chance) -> Vec<f64> {
    let count = real.len().max(1) as f64;
    let mean = real.iter().sum::<f64>() / count;
    let off: Vec<f64> = real.iter().map(|value| value - mean).collect();
    let spread: f64 = off.iter().map(|off| off * off).sum();
    let together: f64 = off.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let alike = if spread > 0.0 { (together / spread).clamp(0.0, 0.95) } else { 0.0 };
    let deviation = (spread / count).sqrt();
    let lasting = mean.abs() * chance.normal();
    let mut state = chance.normal();
    let mut next = || {
        state = alike * state + (1.0 - alike * alike).sqrt() * chance.normal();
        lasting + deviation * state
    };
    (0..steps).map(|_| next()).collect()
}
