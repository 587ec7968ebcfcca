//! `--check FILE`: metrics and findings as a gate, so that a build can fail on them.
//!
//! A file of lines such as `gpu_utilization >= 60%`, `wall_time < 300ms` or
//! `finding.synchronisation == 0`; `#` begins a comment. What a rule speaks of and the
//! trace lacks does not hold: a gate that cannot see must not be open.

use std::cmp::Ordering;
use std::path::Path;

use anyhow::{Context, bail};
use spanwise_analyze::{Finding, Metric, MetricValue};
use spanwise_report::{FINDING_KEYS, GateRow, finding_key, metric_text};
use spanwise_write::count_text;

/// One line of the file.
#[derive(Debug, Clone, PartialEq)]
struct Rule {
    text: String,
    metric: String,
    comparison: Comparison,
    value: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Less,
    AtMost,
    More,
    AtLeast,
    Equal,
    Unequal,
}

/// What a metric is compared with.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Value {
    /// A part of the whole: 60 % or 0.6.
    Number(f64),
    Percent(f64),
    Nanos(f64),
}

/// Longer signs first: `<=` begins with `<`.
const SIGNS: &[(&str, Comparison)] = &[
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("==", Comparison::Equal),
    ("!=", Comparison::Unequal),
    ("<", Comparison::Less),
    (">", Comparison::More),
];

const UNITS: &[(&str, f64)] = &[("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];

/// Reads a file of rules.
pub(super) struct Gate(Vec<Rule>);

impl Gate {
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = crate::input::text_of(path)
            .with_context(|| format!("{}: cannot be read", path.display()))?;
        let mut rules = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                let place = || format!("{}:{}", path.display(), at + 1);
                rules.push(rule(line).with_context(place)?);
            }
        }
        if rules.is_empty() {
            bail!("{}: no rule in it, such as gpu_utilization >= 60%", path.display());
        }
        Ok(Gate(rules))
    }

    /// Each rule beside what was found.
    pub(super) fn check(
        &self,
        metrics: &[Metric],
        findings: &[Finding],
    ) -> anyhow::Result<Vec<GateRow>> {
        self.0.iter().map(|rule| rule.check(metrics, findings)).collect()
    }
}

fn rule(line: &str) -> anyhow::Result<Rule> {
    let signs = SIGNS.iter().filter_map(|&(sign, comparison)| {
        line.find(sign).map(|at| (at, std::cmp::Reverse(sign.len()), sign, comparison))
    });
    let Some((at, _, sign, comparison)) = signs.min_by_key(|&(at, len, ..)| (at, len)) else {
        bail!("no comparison in {line:?}: write NAME <= VALUE, or another of < > >= == !=");
    };
    let (metric, value) = (line[..at].trim(), line[at + sign.len()..].trim());
    Ok(Rule {
        text: line.to_owned(),
        metric: metric.to_owned(),
        comparison,
        value: parse_value(value)?,
    })
}

fn parse_value(text: &str) -> anyhow::Result<Value> {
    let number = |digits: &str| -> anyhow::Result<f64> {
        match digits.trim().parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number),
            _ => bail!("not a number: {text:?} (such as 0.6, 60% or 300ms)"),
        }
    };
    if let Some(digits) = text.strip_suffix('%') {
        return Ok(Value::Percent(number(digits)?));
    }
    match UNITS.iter().find_map(|&(unit, size)| Some((text.strip_suffix(unit)?, size))) {
        Some((digits, size)) => Ok(Value::Nanos(number(digits)? * size)),
        None => Ok(Value::Number(number(text)?)),
    }
}

impl Rule {
    fn check(&self, metrics: &[Metric], findings: &[Finding]) -> anyhow::Result<GateRow> {
        let row = |found: String, holds| GateRow { rule: self.text.clone(), found, holds };
        if let Some(key) = self.metric.strip_prefix("finding.") {
            if !FINDING_KEYS.contains(&key) {
                bail!("no finding named {key}; there are {}", FINDING_KEYS.join(", "));
            }
            let count = findings.iter().filter(|row| finding_key(&row.kind) == key).count();
            let holds = self.holds(count as f64, self.plain()?);
            return Ok(row(count_text(count as i128), holds));
        }
        let Some(metric) = metrics.iter().find(|metric| metric.name == self.metric) else {
            let names: Vec<&str> = metrics.iter().map(|metric| metric.name).collect();
            let known = names.join(", ");
            bail!("no metric named {}; there are {known}, and finding.KEY", self.metric);
        };
        let holds = match metric.value {
            None => false,
            Some(MetricValue::Share(part, whole)) => {
                self.holds(part as f64 / (whole.max(1)) as f64, self.share()?)
            }
            Some(MetricValue::Nanos(ns)) => self.holds(ns as f64, self.nanos()?),
        };
        Ok(row(metric_text(metric.value), holds))
    }

    fn holds(&self, found: f64, limit: f64) -> bool {
        let order = found.partial_cmp(&limit);
        match self.comparison {
            Comparison::Less => order == Some(Ordering::Less),
            Comparison::AtMost => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Comparison::More => order == Some(Ordering::Greater),
            Comparison::AtLeast => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
            Comparison::Equal => order == Some(Ordering::Equal),
            Comparison::Unequal => order != Some(Ordering::Equal),
        }
    }

    fn share(&self) -> anyhow::Result<f64> {
        match self.value {
            Value::Number(number) => Ok(number),
            Value::Percent(percent) => Ok(percent / 100.0),
            Value::Nanos(_) => bail!("{}: {} is a share, not a time", self.text, self.metric),
        }
    }

    fn nanos(&self) -> anyhow::Result<f64> {
        match self.value {
            Value::Nanos(ns) => Ok(ns),
            _ => bail!("{}: {} is a time: give its unit, as in 300ms", self.text, self.metric),
        }
    }

    fn plain(&self) -> anyhow::Result<f64> {
        match self.value {
            Value::Number(number) => Ok(number),
            _ => bail!("{}: {} is a count", self.text, self.metric),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, value: MetricValue, holds: bool) {
        let metric = Metric { name: "m", value: Some(value), about: "", error: None };
        let row = rule(line).expect("a rule").check(&[metric], &[]).expect("comparable");
        assert_eq!(row.holds, holds, "{line}");
    }

    #[test]
    fn rules_compare_shares_and_times() {
        let half = MetricValue::Share(1, 2);
        check("m >= 50%", half, true);
        check("m > 0.5", half, false);
        check("m<51 %", half, true);
        check("m != 0.5", half, false);
        check("m <= 1.5 ms", MetricValue::Nanos(1_500_000), true);
        check("m == 2s", MetricValue::Nanos(1_500_000), false);
    }

    #[test]
    fn what_is_not_recorded_does_not_hold() {
        let metric = Metric { name: "m", value: None, about: "", error: None };
        let row = rule("m <= 100%").expect("a rule").check(&[metric], &[]).expect("known");
        assert_eq!((row.holds, &*row.found), (false, "not recorded"));
    }

    #[test]
    fn errors_say_what_to_write() {
        let error = |line: &str| rule(line).expect_err("no rule").to_string();
        assert!(error("gpu_utilization 5").starts_with("no comparison in"));
        assert!(error("m < many").starts_with("not a number: \"many\""));
    }
}
