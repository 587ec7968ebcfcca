//! What samples of stacks say: CPU time by function, and every event by what it counts.

mod cpu_time;
mod data_loading;
mod functions;
mod interpreting;
mod pools;
mod profile;
mod spending;
#[cfg(test)]
mod tests;
mod waiting;

pub use cpu_time::CpuTime;
pub use functions::{
    FunctionBy, PythonFunctions, SampledFunction, SampledFunctions, cpu_functions, event_functions,
    other_events, python_functions, share_error_percent,
};
pub(crate) use functions::{frame_name, python_callers};
pub(crate) use profile::{
    ObservedStacks, WeightColumns, add_cpu_time, cpu_profile, event_profile, text_labels,
};
pub(crate) use spending::{ObservedSpending, Spent as ObservedSpent, main_observed};
pub(crate) use waiting::{PythonWait, in_event_loop, python_waits};
