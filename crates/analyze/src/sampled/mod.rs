//! What samples of stacks say: CPU time by function, and every event by what it counts.

mod cpu_time;
mod functions;
mod pools;
mod profile;
mod spending;
mod switching;
#[cfg(test)]
mod tests;

pub use cpu_time::CpuTime;
pub use functions::{
    FunctionBy, PythonFunctions, SampledFunction, SampledFunctions, cpu_functions, event_functions,
    other_events, python_functions,
};
pub(crate) use functions::{frame_name, python_callers};
pub use profile::{NO_SAMPLE, SWITCHING};
pub(crate) use profile::{
    ObservedStacks, WeightColumns, add_cpu_time, cpu_profile, event_profile, text_labels,
};
pub(crate) use spending::{ObservedSpending, main_observed};
