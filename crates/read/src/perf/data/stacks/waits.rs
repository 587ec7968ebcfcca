//! Stacks of waits, which our recorder takes when a thread is back from one.
//!
//! One event has the name that perf has for them: the period of a sample is the wait that it is
//! of, up to the time of the sample. Another has samples that stand for as much time in shorter
//! waits as their period says.

use spanwise_callstack::{Location, Names, SchedEvent, ThreadKey};
use spanwise_model::Nanos;
use spanwise_recording::perf::{event_id, event_name};

use crate::perf::data::file::header::Event;
use crate::perf::data::file::sample::{Common, Sample};
use crate::perf::data::side_files::python::When;
use crate::perf::data::{RecordContent, SchedRecord, State};

/// Innermost frames among which those of the recorder's own program are.
const PROGRAM_FRAMES_MAX: usize = 12;

/// True for the event that our recorder alone has.
pub(crate) fn is_share(event: &Event) -> bool {
    event.name == event_name::WAIT_SHARE
}

impl State<'_> {
    /// What a sample of any event says. A thread is of no interest where an interrupt did it.
    pub(crate) fn any_sample(
        &mut self,
        of: Common,
        thread: &mut ThreadKey,
        sample: &Sample<'_>,
        event: &Event,
    ) -> Option<RecordContent> {
        if self.has_waits && (event.name == event_name::WAIT || is_share(event)) {
            return Some(self.waited(of, sample, event));
        }
        if self.has_waits && event.name == event_name::WAKER {
            let mut frames = self.frames(of, sample, When::Running);
            leave_waking_out(self.names(), &mut frames);
            self.waking.insert(of.tid, frames);
            return None;
        }
        if self.has_switches && event.name == event_name::CONTEXT_SWITCHES {
            let frames = self.frames(of, sample, When::Leaving);
            self.leaving.insert(of.tid, frames);
            return None;
        }
        // What we write beside the kernel's samples to know who wakes whom is no event that
        // somebody asked for.
        let is_own = event.ids == [event_id::WAKINGS];
        let mut what = self.sample(of, sample, &event.name, is_own);
        if let Some(RecordContent::Sched(scheduled)) = what.as_mut().filter(|_| is_own) {
            // Wake-ups of ours have no stack themselves.
            scheduled.frames = self.waking.remove(&of.tid).unwrap_or_default();
        }
        let is_waking = matches!(&what, Some(RecordContent::Sched(scheduled))
            if matches!(scheduled.event, SchedEvent::Wake { .. }));
        let content = self.formats.content(sample.raw).filter(|_| is_waking);
        if content.is_some_and(|content| content.is_of_interrupt()) {
            *thread = ThreadKey { pid: 0, tid: 0 };
        }
        if !is_own {
            self.timeline.count_sample();
        }
        what
    }

    fn waited(&mut self, of: Common, sample: &Sample<'_>, event: &Event) -> RecordContent {
        let is_exact = !is_share(event);
        let wait = Nanos::try_from(sample.period).ok().filter(|_| is_exact);
        let since = wait.and_then(|wait| {
            let end = Nanos::try_from(of.time?).ok()?;
            // The sample is of just before.
            Some(end.checked_add(1)?.saturating_sub(wait).max(0))
        });
        let (at, when) = match since {
            Some(since) => {
                let until = of.time.and_then(|time| Nanos::try_from(time).ok()).unwrap_or(since);
                let at = Common { time: u64::try_from(since).ok(), ..of };
                (at, When::Waited { until })
            }
            None => (of, When::Back),
        };
        let mut frames = self.frames(at, sample, when);
        leave_program_out(self.names(), &mut frames);
        RecordContent::Sched(Box::new(SchedRecord { event: SchedEvent::Waited { since }, frames }))
    }
}

/// Takes the recorder's own program off a stack: what stands inside of the switch to another
/// thread, or, where it runs at the return of that, on the top.
fn leave_program_out(names: &Names, frames: &mut Vec<Location>) {
    let top = frames.len().saturating_sub(PROGRAM_FRAMES_MAX);
    let is_switch = |place: &Location| {
        place.is_kernel() && matches!(names.name_text(place.function), "__schedule" | "schedule")
    };
    match frames[top..].iter().rposition(is_switch) {
        Some(at) => frames.truncate(top + at + 1),
        None => {
            let is_program = |place: &Location| {
                place.is_kernel() && names.name_text(place.function).starts_with("bpf_")
            };
            while frames.last().is_some_and(is_program) {
                frames.pop();
            }
        }
    }
}

/// Takes the kernel's part of waking another thread off a stack, and with it the recorder's own
/// program: what is left is who asked for it.
fn leave_waking_out(names: &Names, frames: &mut Vec<Location>) {
    let is_waking = |place: &Location| {
        let name = names.name_text(place.function);
        place.is_kernel() && (name.starts_with("try_to_wake_up") || name == "wake_up_q")
    };
    if let Some(at) = frames.iter().position(is_waking) {
        frames.truncate(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(stack: &[&str], expected: usize) {
        const KERNEL: u64 = 1 << 63;
        let mut names = Names::default();
        let place = |name: &&str| Location {
            function: names.function(name, "[kernel.kallsyms]"),
            ip: KERNEL,
            ..Location::NOWHERE
        };
        let mut frames: Vec<Location> = stack.iter().map(place).collect();
        leave_program_out(&names, &mut frames);
        assert_eq!(frames.len(), expected, "{stack:?}");
    }

    #[test]
    fn a_stack_of_a_waker_ends_where_it_wakes() {
        const KERNEL: u64 = 1 << 63;
        let mut names = Names::default();
        let place = |name: &&str| Location {
            function: names.function(name, "[kernel.kallsyms]"),
            ip: KERNEL,
            ..Location::NOWHERE
        };
        let stack = ["main", "futex_wake", "wake_up_q", "try_to_wake_up", "bpf_trace_run1"];
        let mut frames: Vec<Location> = stack.iter().map(place).collect();
        leave_waking_out(&names, &mut frames);
        assert_eq!(frames.len(), 2);
    }

    #[test]
    fn a_stack_ends_where_the_thread_called_for_another() {
        check(&["do_nanosleep", "schedule", "__schedule", "bpf_trace_run1", "[unknown]"], 3);
        check(&["do_nanosleep", "bpf_trampoline_1", "bpf_prog_2"], 1);
        check(&["do_nanosleep", "schedule"], 2);
        check(&["do_nanosleep"], 1);
        check(&[], 0);
    }
}
