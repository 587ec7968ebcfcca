//! How the processor's own trace is recorded.

use clap::{Args, ValueEnum};
use spanwise_capture::TraceScope;

use crate::args::shared::choice;

/// A heading of the help.
const PT: &str = "Intel PT: every call and return, on CPUs that have it";

#[derive(Debug, Args)]
pub(crate) struct PtArgs {
    /// Record the CPU's own trace of branches instead of samples
    #[arg(long, value_enum, value_name = "WHICH")]
    #[arg(conflicts_with_all = [
        "rate", "clock", "stacks", "stack_bytes", "switches", "wait_stacks", "wait_threshold",
        "calls", "calls_by", "calls_budget", "aggregate",
        "single_step", "step_calls", "step_instructions", "python", "python_rate",
    ])]
    #[arg(help_heading = PT)]
    pub(crate) backend: Option<BackendArg>,
    /// Hardware settings by the kernel's names, such as `cyc=0,psb_period=2`; a name alone means
    /// 1; the rest is set for the most precise times
    #[arg(long, value_name = "SETTINGS", value_delimiter = ',', value_parser = setting)]
    #[arg(requires = "backend")]
    #[arg(help_heading = PT)]
    pub(crate) pt_config: Vec<(String, u64)>,
    /// Code to trace: the program's, the kernel's on its behalf, or both
    #[arg(long, value_name = "WHICH", requires = "backend", help_heading = PT)]
    #[arg(value_parser = choice(&TraceScope::NAMES, &[]), default_value = "user")]
    pub(crate) pt_scope: TraceScope,
    /// Trace only this function's code, without what it calls; repeatable, up to the CPU's limit
    /// of two or four
    #[arg(long, value_name = "FUNCTION", requires = "backend")]
    #[arg(help_heading = PT)]
    pub(crate) pt_filter: Vec<String>,
    /// Stop tracing a thread when it reaches this function
    #[arg(long, value_name = "FUNCTION", requires = "backend")]
    #[arg(help_heading = PT)]
    pub(crate) pt_stop: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BackendArg {
    IntelPt,
}

fn setting(text: &str) -> Result<(String, u64), String> {
    let (name, value) = text.split_once('=').unwrap_or((text, "1"));
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match value.parse() {
        Ok(value) if !name.is_empty() && name.chars().all(is_name) => Ok((name.to_owned(), value)),
        _ => Err("write a name, or a name and a number: cyc=0".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_names_with_numbers() {
        let check = |text, expected: Option<(&str, u64)>| {
            let expected = expected.map(|(name, value)| (name.to_owned(), value));
            assert_eq!(setting(text).ok(), expected, "{text}");
        };
        check("noretcomp", Some(("noretcomp", 1)));
        check("mtc_period=3", Some(("mtc_period", 3)));
        check("cyc=", None);
        check("=3", None);
        check("a b=3", None);
        check("cyc=-1", None);
    }
}
