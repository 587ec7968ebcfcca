//! Places in files where probes and breakpoints can be set.

mod exits;
mod lines;
mod named;
mod patterns;
mod written;

pub(crate) use exits::moved_parts;
pub use exits::{ExitPlace, FunctionProbes, ProbePlaces, probes_matching, probes_named};
pub use lines::{address_site, line_sites};
pub use named::{
    CodeSite, LoaderSite, StartSites, SymbolAddresses, function_ranges, function_sites,
    start_sites, symbol_addresses,
};
pub use patterns::FunctionPatterns;
pub use written::SiteName;
