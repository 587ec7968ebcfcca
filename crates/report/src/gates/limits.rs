//! Rules about one trace: metrics and findings beside fixed limits.
//!
//! `gpu_utilization >= 60%`, `wall_time < 300ms` or `finding.synchronisation == 0`. What a rule
//! names and the trace lacks does not hold: a gate that cannot see must not be open.

use std::cmp::Ordering;
use std::path::Path;

use spanwise_analyze::{Finding, Metric, MetricValue};
use spanwise_write::count_text;

use super::words::{Amount, mistake};
use super::{CHANGE, GateRule};
use crate::{FINDING_KEYS, GateRow, ReportError, finding_key, metric_text};

/// One rule about a metric of a trace, or about how many findings of a kind it has.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitRule {
    text: String,
    metric: String,
    operator: Operator,
    limit: Amount,
    /// Where the limit is written, in characters.
    limit_at: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Less,
    AtMost,
    More,
    AtLeast,
    Equal,
    Unequal,
}

const OPERATORS: [(&str, Operator); 6] = [
    ("<=", Operator::AtMost),
    (">=", Operator::AtLeast),
    ("==", Operator::Equal),
    ("!=", Operator::Unequal),
    ("<", Operator::Less),
    (">", Operator::More),
];

/// Reads the lines of a file of rules; `#` begins a comment.
pub fn parse_limits(text: &str, file: &Path) -> Result<Vec<LimitRule>, ReportError> {
    let mut rules = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let of_line =
            |error| ReportError::Request(format!("{}:{}: {error}", file.display(), at + 1));
        rules.push(LimitRule::parse(line).map_err(of_line)?);
    }
    if rules.is_empty() {
        let what = format!("{}: no rule, such as gpu_utilization >= 60%", file.display());
        return Err(ReportError::Request(what));
    }
    Ok(rules)
}

/// Each rule beside what was found.
pub fn check_limits(
    rules: &[LimitRule],
    metrics: &[Metric],
    findings: &[Finding],
) -> Result<Vec<GateRow>, ReportError> {
    rules.iter().map(|rule| rule.check(metrics, findings)).collect()
}

impl LimitRule {
    /// Reads a rule. One about two traces is an error.
    pub fn parse(text: &str) -> Result<Self, ReportError> {
        match GateRule::parse(text)? {
            GateRule::Limit(rule) => Ok(rule),
            GateRule::Change(_) => Err(mistake(text, 0, CHANGE)),
        }
    }

    /// Reads a rule; `None` where nothing is compared.
    pub(super) fn of_text(text: &str) -> Result<Option<Self>, ReportError> {
        // Of `<=` and `<` at one place, the longer one.
        let found = OPERATORS.iter().filter_map(|row| Some((text.find(row.0)?, row)));
        let first = found.min_by_key(|&(at, row)| (at, std::cmp::Reverse(row.0.len())));
        let Some((at, &(sign, operator))) = first else { return Ok(None) };
        let rest = &text[at + sign.len()..];
        let value = rest.trim_start();
        let limit_at = text[..text.len() - value.len()].chars().count();
        let metric = text[..at].trim();
        if metric.is_empty() {
            return Err(mistake(text, 0, "the name of a metric is needed here"));
        }
        let wanted = "a limit such as 0.6, 60% or 300ms is needed here";
        let limit = Amount::parse(value.trim_end()).ok_or_else(|| mistake(text, limit_at, wanted));
        let (text, metric) = (text.trim().to_owned(), metric.to_owned());
        Ok(Some(LimitRule { text, metric, operator, limit: limit?, limit_at }))
    }

    fn check(&self, metrics: &[Metric], findings: &[Finding]) -> Result<GateRow, ReportError> {
        let row = |found: String, holds| GateRow { rule: self.text.clone(), found, holds };
        if let Some(key) = self.metric.strip_prefix("finding.") {
            if !FINDING_KEYS.contains(&key) {
                let known = FINDING_KEYS.join(", ");
                return Err(self.wrong(0, &format!("no finding named {key}; there are {known}")));
            }
            let count = findings.iter().filter(|row| finding_key(&row.kind) == key).count();
            let Amount::Number(limit) = self.limit else {
                return Err(self.wrong(self.limit_at, &format!("{} is a count", self.metric)));
            };
            return Ok(row(count_text(count as i128), self.holds(count as f64, limit)));
        }
        let Some(metric) = metrics.iter().find(|metric| metric.name == self.metric) else {
            let names: Vec<&str> = metrics.iter().map(|metric| metric.name).collect();
            let (name, known) = (&self.metric, names.join(", "));
            let what = format!("no metric named {name}; there are {known}, and finding.KEY");
            return Err(self.wrong(0, &what));
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
        match self.operator {
            Operator::Less => order == Some(Ordering::Less),
            Operator::AtMost => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Operator::More => order == Some(Ordering::Greater),
            Operator::AtLeast => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
            Operator::Equal => order == Some(Ordering::Equal),
            Operator::Unequal => order != Some(Ordering::Equal),
        }
    }

    fn share(&self) -> Result<f64, ReportError> {
        match self.limit {
            Amount::Number(number) => Ok(number),
            Amount::Percent(percent) => Ok(percent / 100.0),
            Amount::Nanos(_) => {
                Err(self.wrong(self.limit_at, &format!("{} is a share, not a time", self.metric)))
            }
        }
    }

    fn nanos(&self) -> Result<f64, ReportError> {
        match self.limit {
            Amount::Nanos(ns) => Ok(ns as f64),
            Amount::Number(_) | Amount::Percent(_) => {
                let what = format!("{} is a time: give its unit, as in 300ms", self.metric);
                Err(self.wrong(self.limit_at, &what))
            }
        }
    }

    fn wrong(&self, at: usize, what: &str) -> ReportError {
        mistake(&self.text, at, what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(value: Option<MetricValue>) -> Metric {
        Metric { name: "m", value, about: "", error: None }
    }

    #[track_caller]
    fn check(line: &str, value: MetricValue, holds: bool) {
        let rule = LimitRule::parse(line).expect("a rule");
        let row = rule.check(&[metric(Some(value))], &[]).expect("comparable");
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
        let rule = LimitRule::parse("m <= 100%").expect("a rule");
        let row = rule.check(&[metric(None)], &[]).expect("known");
        assert_eq!((row.holds, &*row.found), (false, "not recorded"));
    }

    #[track_caller]
    fn check_error(line: &str, place: usize, what: &str) {
        let half = [metric(Some(MetricValue::Share(1, 2)))];
        let row = LimitRule::parse(line).and_then(|rule| rule.check(&half, &[]));
        let error = row.expect_err("no such rule").to_string();
        assert!(
            error.starts_with(&format!("{line:?}, character {}: {what}", place + 1)),
            "{error}"
        );
    }

    #[test]
    fn errors_point_at_their_place() {
        check_error("gpu_utilization 5", 0, "a rule begins with slower");
        check_error("m < many", 4, "a limit such as 0.6, 60% or 300ms is needed here");
        check_error("m <", 3, "a limit such as");
        check_error("< 3%", 0, "the name of a metric is needed here");
        check_error("m < 3ms", 4, "m is a share, not a time");
        check_error("n < 3ms", 0, "no metric named n; there are m, and finding.KEY");
        check_error("finding.none == 0", 0, "no finding named none");
        check_error("slower > 3%", 0, "a rule about two traces, for compare --fail-if");
    }

    #[test]
    fn files_have_a_rule_per_line() {
        let read = |text: &str| parse_limits(text, Path::new("g.txt"));
        let rules = read("# all\n\nm < 3% # less\n  m > 1%").expect("rules");
        let texts: Vec<&str> = rules.iter().map(|rule| rule.text.as_str()).collect();
        assert_eq!(texts, ["m < 3%", "m > 1%"]);
        let error = read("m < 3%\nm < x").expect_err("no limit").to_string();
        let wanted = "a limit such as 0.6, 60% or 300ms is needed here";
        assert_eq!(error, format!("g.txt:2: \"m < x\", character 5: {wanted}"));
        assert!(read("# nothing").is_err());
    }
}
