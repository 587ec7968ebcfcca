//! Options about recordings of calls that are texts of their own.

use anyhow::{Context, bail};
use spanwise_analyze::{CallSelection, NamePattern};
use spanwise_callstack::Traps;
use spanwise_model::Nanos;
use spanwise_report::parse_duration;

use crate::args::CallsArgs;

impl CallsArgs {
    pub(super) fn selection(&self) -> anyhow::Result<CallSelection> {
        let patterns = |names: &[String]| names.iter().map(|name| NamePattern::new(name)).collect();
        Ok(CallSelection {
            include: patterns(&self.include),
            exclude: patterns(&self.exclude),
            between: self.filter.as_deref().map(between).transpose()?,
            threads: patterns(&self.thread),
            time: self.time.as_deref().map(time_range).transpose()?.unwrap_or_default(),
        })
    }
}

/// `START..STOP`
fn between(text: &str) -> anyhow::Result<(NamePattern, NamePattern)> {
    match text.split_once("..") {
        Some((start, stop)) if !start.is_empty() && !stop.is_empty() => {
            Ok((NamePattern::new(start), NamePattern::new(stop)))
        }
        _ => bail!("--filter {text}: write START..STOP, two names of functions"),
    }
}

/// `10us..2ms`, where either side may be missing.
fn time_range(text: &str) -> anyhow::Result<(Option<Nanos>, Option<Nanos>)> {
    let wrong = || format!("--time {text}: write FROM..TO, such as 10us..2ms");
    let (from, to) = text.split_once("..").with_context(wrong)?;
    let side = |text: &str| match text.trim() {
        "" => Ok(None),
        text => parse_duration(text).map(Some).with_context(wrong),
    };
    Ok((side(from)?, side(to)?))
}

/// `enter=A,push=B,pop=C`
pub(super) fn traps(text: &str) -> anyhow::Result<Traps> {
    let mut traps = Traps::default();
    for part in text.split(',') {
        let wrong = || format!("--ocaml-traps {part}: write enter=, push= or pop= and an address");
        let (key, address) = part.split_once('=').with_context(wrong)?;
        let digits = address.trim().trim_start_matches("0x");
        let address = u64::from_str_radix(digits, 16).with_context(wrong)?;
        match key.trim() {
            "enter" => traps.enter.push(address),
            "push" => traps.push.push(address),
            "pop" => traps.pop.push(address),
            _ => bail!(wrong()),
        }
    }
    Ok(traps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_ranges_are_read() {
        let check = |text, expected| assert_eq!(time_range(text).ok(), expected, "{text}");
        check("10us..2ms", Some((Some(10_000), Some(2_000_000))));
        check("1.5ms..", Some((Some(1_500_000), None)));
        check("..7ns", Some((None, Some(7))));
        check("0s..3s", Some((Some(0), Some(3_000_000_000))));
        check("1..2", None);
        check("5us", None);
        check("1.5ns..", None);
        check("x..2ms", None);
    }

    #[test]
    fn traps_are_read() {
        let traps = |text: &str| super::traps(text).ok();
        let expected = Traps { enter: vec![0x411030, 16], push: vec![0x41100b], pop: vec![1] };
        assert_eq!(traps("enter=0x411030,push=41100b,pop=0x1,enter=10"), Some(expected));
        assert_eq!(traps("leave=1"), None);
        assert_eq!(traps("enter=xyz"), None);
        assert_eq!(traps("enter"), None);
    }
}
