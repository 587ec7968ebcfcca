//! How the processor's own trace is recorded.

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct PtArgs {
    /// Record something else than samples
    #[arg(long, value_enum, value_name = "WHICH")]
    #[arg(conflicts_with_all = [
        "rate", "clock", "stacks", "stack_bytes", "switches", "wait_stacks", "wait_threshold",
        "calls", "calls_by", "calls_budget", "aggregate",
        "step", "step_calls", "step_instructions", "python", "python_rate",
    ])]
    pub(crate) backend: Option<BackendArg>,
    /// Settings of the hardware, by the kernel's names for them, such as `cyc=0,psb_period=2`;
    /// a name alone means 1. Others are such that times are as fine as the processor tells them
    #[arg(long, value_name = "SETTINGS", value_delimiter = ',', value_parser = setting)]
    #[arg(requires = "backend")]
    pub(crate) pt_config: Vec<(String, u64)>,
    /// Which code is traced
    #[arg(long, value_enum, value_name = "WHICH", requires = "backend")]
    #[arg(default_value_t = PtScopeArg::User)]
    pub(crate) pt_scope: PtScopeArg,
    /// Trace the code of this function alone, without what it calls. May be given as often as the
    /// processor can tell stretches of code, two or four times
    #[arg(long, value_name = "FUNCTION", requires = "backend")]
    pub(crate) pt_filter: Vec<String>,
    /// End tracing of a thread where it reaches this function
    #[arg(long, value_name = "FUNCTION", requires = "backend")]
    pub(crate) pt_stop: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BackendArg {
    /// Every call and return, by the branches that processors of Intel write down themselves
    IntelPt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PtScopeArg {
    /// The program
    User,
    /// What the kernel does for it
    Kernel,
    All,
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
