//! What machine code is called, where it stands in the source, and where it can be probed.
//!
//! Files are opened as a recording names them, and only if they are the ones that were recorded.
//! Everything in them is input: any bytes give an answer or none, never a panic. Names for
//! addresses ([`Symbols`], [`Inlines`], [`JitMaps`]) are for readers of recordings; places for
//! probes ([`function_sites`], [`probes_matching`]) for recorders.

mod build_id;
mod demangle;
mod dwarf;
mod elf;
mod functions;
mod jit;
mod kernel;
mod mapped_files;
mod mappings;
mod sites;
mod unwind;

pub use build_id::build_id;
pub use dwarf::{AddressLines, InlinedCall, Inlines, Shelf, SourceLine};
pub use functions::{Symbol, Symbols};
pub use jit::{JIT_DUMP_BYTES_MAX, JitMap, JitMaps, is_jit_dump, jit_dump_name};
pub use kernel::code::KernelCode;
pub use mapped_files::Files;
pub use mappings::{Mapping, Maps};
pub use sites::{
    CodeSite, ExitPlace, FunctionPatterns, FunctionProbes, LoaderSite, ProbePlaces, SiteName,
    StartSites, SymbolAddresses, address_site, function_ranges, function_sites, line_sites,
    probes_matching, probes_named, start_sites, symbol_addresses,
};
pub use spanwise_pt::{JumpBase, JumpMemory, LeaveKind};
pub use unwind::{Registers, Unwinders};
