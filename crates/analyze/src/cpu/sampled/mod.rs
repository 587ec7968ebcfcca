//! What samples of stacks say: CPU time by function, and every event by what it counts.

mod by_stack;
mod call;
mod cpu_time;
mod data_loading;
mod functions;
mod pools;
mod profile;
mod python;
mod spending;
mod switching;
#[cfg(test)]
mod tests;
mod waiting;

pub use by_stack::{CpuByStack, cpu_by_stack};
pub use call::{SampledCall, SampledEvent, SampledLine, cpu_functions_within, sampled_call};
pub use cpu_time::CpuTime;
pub(crate) use functions::python_callers;
pub use functions::{
    FunctionBy, HottestLine, PythonFunctions, SampledFunction, SampledFunctions, cpu_functions,
    event_functions, frame_name, native_lines, other_events, python_functions, share_error_percent,
};
pub use profile::{NO_SAMPLE, SWITCHING};
pub(crate) use profile::{
    ObservedStacks, WeightColumns, add_cpu_time, cpu_profile, event_profile, text_labels,
};
pub use python::start_up::{StartUp, start_up};
pub(crate) use spending::{ObservedSpending, SpentTime as ObservedSpent, main_observed};
pub(crate) use waiting::{PythonWait, in_event_loop, python_waits};
