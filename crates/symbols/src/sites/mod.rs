//! Places in files where probes and breakpoints can be set.

mod exits;
mod lines;
mod named;

pub use exits::{ExitPlace, FunctionProbes, ProbePlaces, probes_matching, probes_named};
pub use lines::{address_site, line_sites};
pub use named::{
    StartSites, function_ranges, function_sites, functions_matching, start_sites, symbol_addresses,
};
