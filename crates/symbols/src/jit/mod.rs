//! Names of code that runtimes made while they ran, from the maps that they write for perf.

mod dump;
mod map;
mod process_maps;

pub use dump::{JIT_DUMP_BYTES_MAX, is_jit_dump, jit_dump_name};
pub use map::JitMap;
pub use process_maps::JitMaps;
pub(crate) use process_maps::is_trusted;
