//! What the commands that make, draw and compare profiles take.

mod convert;
mod format;

use clap::Args;
use spanwise_analyze::{Backward, StackMode, ThreadProfile};

pub(crate) use convert::ConvertArgs;
pub(crate) use format::{FileFormat, ending};

use super::shared::choice;
use super::size;

/// A heading of the help.
pub(crate) const PROFILES: &str = "Profiles and flame graphs";

const ABOUT_THREADS: [&str; 4] = [
    "Time that threads ran",
    "Time that threads did not run, by the stack that they left their CPU with",
    "Waits for locks, by the stack that asked for the lock",
    "How long each thread ran, was blocked and waited for a CPU",
];

const ABOUT_STACKS: [&str; 4] = [
    "Python frames, operators, annotations and runtime calls",
    "Python frames alone",
    "Everything but Python frames",
    "nn.Module markers alone",
];

/// How a trace becomes a profile.
#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    /// What of a trace the profile is about [default: wall time, GPU time and memory]
    #[arg(long, value_name = "WHAT", value_parser = choice(&ThreadProfile::NAMES, &ABOUT_THREADS))]
    #[arg(help_heading = PROFILES)]
    pub(crate) profile: Option<ThreadProfile>,
    /// Count samples of this event instead, such as page-faults; info lists a trace's events
    #[arg(long, value_name = "EVENT", conflicts_with = "profile")]
    #[arg(help_heading = PROFILES)]
    pub(crate) event: Option<String>,
    /// The column to show, where only one can be shown [default: the profile's own, wall]
    #[arg(long, value_name = "COLUMN")]
    #[arg(help_heading = PROFILES)]
    pub(crate) value: Option<String>,
    /// Which frames make up a stack
    #[arg(long, value_name = "FRAMES", value_parser = choice(&StackMode::NAMES, &ABOUT_STACKS))]
    #[arg(default_value = "mixed", help_heading = PROFILES)]
    pub(crate) stack: StackMode,
    /// Where the work of a backward pass stands: on its own thread's stack, or under
    /// the forward operator that it differentiates
    #[arg(long, value_name = "WHERE", value_parser = choice(&Backward::NAMES, &[]))]
    #[arg(default_value = "own", help_heading = PROFILES)]
    pub(crate) backward: Backward,
    /// Leave this out where a frame begins with it, so that moved code compares
    #[arg(long, value_name = "PREFIX", default_value = "")]
    #[arg(help_heading = PROFILES)]
    pub(crate) strip_prefix: String,
}

impl ProfileArgs {
    /// The first of these options that was given, so that none is ignored.
    pub(crate) fn first_given(&self) -> Option<&'static str> {
        let options = [
            (self.profile.is_some(), "--profile"),
            (self.event.is_some(), "--event"),
            (self.value.is_some(), "--value"),
            (self.stack != StackMode::Mixed, "--stack"),
            (self.backward != Backward::Own, "--backward"),
            (!self.strip_prefix.is_empty(), "--strip-prefix"),
        ];
        options.iter().find(|(is_given, _)| *is_given).map(|&(_, option)| option)
    }
}

/// What a page may hold.
#[derive(Debug, Args)]
pub(crate) struct PageArgs {
    /// Largest size in bytes, or with K, M or G behind it; details are dropped to keep it
    /// [default: 5M]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    #[arg(help_heading = "Pages (.html)")]
    pub(crate) max_size: Option<usize>,
    /// Include where the files are, and what the trace says about the machine and the program
    #[arg(long)]
    #[arg(help_heading = "Pages (.html)")]
    pub(crate) with_metadata: bool,
}

impl PageArgs {
    /// The first of these options that was given.
    pub(crate) fn first_given(&self) -> Option<&'static str> {
        match (self.max_size, self.with_metadata) {
            (Some(_), _) => Some("--max-size"),
            (None, true) => Some("--with-metadata"),
            (None, false) => None,
        }
    }
}
