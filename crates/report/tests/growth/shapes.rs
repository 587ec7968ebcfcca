//! Traces that are hard, each with about so many events.

use std::fmt::Write as _;

/// Events of a trace as PyTorch writes them; times are in microseconds.
struct Json(String);

impl Json {
    fn new() -> Self {
        Json("{\"traceEvents\":[".to_owned())
    }

    fn span(&mut self, category: &str, name: &str, place: (usize, usize), time: (usize, usize)) {
        self.with_args(category, name, place, time, "");
    }

    fn with_args(
        &mut self,
        category: &str,
        name: &str,
        thread: (usize, usize),
        time: (usize, usize),
        args: &str,
    ) {
        let ((pid, tid), (ts, dur)) = (thread, time);
        let comma = if self.0.ends_with('[') { "" } else { "," };
        let _ = write!(
            self.0,
            "{comma}\n{{\"ph\":\"X\",\"cat\":\"{category}\",\"name\":\"{name}\",\"pid\":{pid},\
             \"tid\":{tid},\"ts\":{ts},\"dur\":{dur},\"args\":{{{args}}}}}"
        );
    }

    fn launch(&mut self, tid: usize, time: (usize, usize), correlation: usize) {
        let args = format!("\"correlation\":{correlation}");
        self.with_args("cuda_runtime", "cudaLaunchKernel", (99, tid), time, &args);
    }

    fn kernel(
        &mut self,
        name: &str,
        stream: (usize, usize),
        time: (usize, usize),
        correlation: usize,
    ) {
        let (device, stream_id) = stream;
        let args =
            format!("\"device\":{device},\"stream\":{stream_id},\"correlation\":{correlation}");
        self.with_args("kernel", name, stream, time, &args);
    }

    fn finish(mut self) -> String {
        self.0.push_str("\n]}\n");
        self.0
    }
}

/// Kernels that all overlap, and a step for each thread.
pub(crate) fn overlapping_kernels(events: usize) -> String {
    let mut json = Json::new();
    for at in 0..events / 4 {
        let long = 10 * events;
        json.span("user_annotation", &format!("ProfilerStep#{at}"), (99, at), (at, long));
        json.span("cpu_op", "aten::mm", (99, at), (100 * at + 1, 50));
        json.launch(at, (100 * at + 10, 5), at + 1);
        json.kernel(&format!("k{at}"), (0, 7), (100 * at + 30, long), at + 1);
    }
    json.finish()
}

pub(crate) fn stairs(events: usize) -> String {
    let mut json = Json::new();
    for at in 0..events {
        json.span("cpu_op", &format!("f{}", at % 100), (99, 1), (10 * at, 10 * events));
    }
    json.finish()
}

pub(crate) fn random_overlap(events: usize) -> String {
    let mut json = Json::new();
    let mut seed = 7_u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    for at in 0..events {
        let (ts, dur) = (random(10 * events), random(10 * events));
        json.span("cpu_op", &format!("f{}", at % 300), (99, at % 50), (ts, dur));
    }
    json.finish()
}

pub(crate) fn one_correlation(events: usize) -> String {
    let mut json = Json::new();
    for step in 0..4 {
        let time = (step * 25 * events, 25 * events);
        json.span("user_annotation", &format!("ProfilerStep#{step}"), (99, 1), time);
    }
    for at in 0..events / 2 {
        json.launch(1, (100 * at + 1, 5), 1);
        json.kernel("k", (0, 7), (100 * at + 20, 50), 1);
    }
    json.finish()
}

pub(crate) fn device_for_each_kernel(events: usize) -> String {
    let mut json = Json::new();
    for at in 0..events / 2 {
        json.launch(1, (100 * at + 1, 5), at + 1);
        json.kernel(&format!("k{}", at % 10), (at, 7), (100 * at + 20, 50), at + 1);
    }
    json.finish()
}

pub(crate) fn stream_for_each_kernel(events: usize) -> String {
    let mut json = Json::new();
    for at in 0..events / 2 {
        json.launch(1, (100 * at + 1, 5), at + 1);
        json.kernel(&format!("k{}", at % 10), (0, at), (100 * at + 20, 50), at + 1);
    }
    json.finish()
}

/// Modules inside of each other, with launches in the innermost.
pub(crate) fn deep_modules(events: usize) -> String {
    let mut json = Json::new();
    let deep = events / 2;
    for at in 0..deep {
        let time = (at, 60 * events - 2 * at);
        json.span("python_function", &format!("nn.Module: M{}_0", at % 50), (99, 1), time);
    }
    for at in 0..events / 4 {
        json.launch(1, (events + 100 * at, 5), at + 1);
        json.kernel("k", (0, 7), (events + 100 * at + 20, 50), at + 1);
    }
    json.finish()
}

/// A stream for each kernel, and calls that wait for all of them.
pub(crate) fn device_waits(events: usize) -> String {
    let mut json = Json::new();
    let half = events / 4;
    for at in 0..half {
        json.launch(1, (100 * at + 1, 5), at + 1);
        json.kernel("k", (0, at), (100 * at + 20, 50), at + 1);
    }
    for at in 0..half {
        let (start, id) = (100 * (half + at), half + at + 1);
        let args = format!("\"correlation\":{id}");
        let call = "cudaDeviceSynchronize";
        json.with_args("cuda_runtime", call, (99, 1), (start, 20), &args);
        let args = format!("\"device\":0,\"stream\":-1,\"correlation\":{id}");
        json.with_args("cuda_sync", "Context Sync", (0, 0), (start, 20), &args);
    }
    json.finish()
}

/// Spans that end, each with an arrow to the next.
pub(crate) fn chained_flows(events: usize) -> String {
    let mut json = Json::new();
    for at in 0..events {
        json.span("cpu_op", &format!("f{}", at % 50), (99, at % 7), (20 * at, 10));
        for (phase, time) in [("s", 20 * at + 5), ("f", 20 * at + 25)] {
            let tid = if phase == "s" { at } else { at + 1 } % 7;
            let _ = write!(
                json.0,
                ",\n{{\"ph\":\"{phase}\",\"cat\":\"chain\",\"name\":\"next\",\
                 \"id\":{at},\"pid\":99,\"tid\":{tid},\"ts\":{time},\"bp\":\"e\"}}"
            );
        }
    }
    json.finish()
}

/// Threads that wait for locks with ever deeper stacks, as `perf script` prints switches.
pub(crate) fn deep_lock_waits(events: usize) -> String {
    let mut text = String::new();
    let deep = events / 4;
    for at in 0..deep {
        let time = |late: usize| format!("{}.{:06}", at / 1000, at % 1000 * 1000 + late);
        let _ = writeln!(
            text,
            "app 7/7 [000] {}: sched:sched_switch: prev_comm=app prev_pid=7 prev_prio=120 \
             prev_state=S ==> next_comm=swapper next_pid=0 next_prio=120",
            time(0)
        );
        let _ = writeln!(text, "\t    1000 __schedule ([kernel.kallsyms])");
        let _ = writeln!(text, "\t    2000 futex_wait ([kernel.kallsyms])");
        let _ = writeln!(text, "\t    3000 pthread_mutex_lock (/lib/libc.so.6)");
        if at == 0 {
            (0..deep).for_each(|depth| {
                let _ = writeln!(text, "\t    {:x} f{depth} (/bin/app)", 0x4000 + 16 * depth);
            });
        }
        let _ = writeln!(
            text,
            "\nswapper 0/0 [000] {}: sched:sched_switch: prev_comm=swapper prev_pid=0 \
             prev_prio=120 prev_state=R ==> next_comm=app next_pid=7 next_prio=120\n",
            time(500)
        );
    }
    text
}

/// Asynchronous spans as begins and ends, each with an arrow to the next: half of them all open at
/// once, and half inside of each other under one id.
pub(crate) fn asynchronous_flows(events: usize) -> String {
    let mut json = Json::new();
    json.span("cpu_op", "main", (99, 1), (0, 50 * events));
    let count = events / 4;
    let mut event = |phase: &str, id: usize, tid: usize, time: usize| {
        let _ = write!(
            json.0,
            ",\n{{\"ph\":\"{phase}\",\"cat\":\"task\",\"name\":\"f{}\",\"id\":{id},\
             \"pid\":99,\"tid\":{tid},\"ts\":{time},\"bp\":\"e\"}}",
            id % 50
        );
    };
    for at in 0..count {
        let id = if at % 2 == 0 { at + 1 } else { 0 };
        event("b", id, at % 7, 10 * at);
        event("s", at, at % 7, 10 * at + 5);
        event("f", at, (at + 1) % 7, 10 * at + 15);
    }
    for at in 0..count {
        let id = if at % 2 == 0 { at + 1 } else { 0 };
        event("e", id, at % 7, 20 * events + 10 * at);
    }
    json.finish()
}

/// Threads that sample, wait and wake each other, as `perf script` prints them: a thread for each
/// four events.
pub(crate) fn threads_with_wakers(events: usize) -> String {
    let mut text = String::new();
    let count = events / 4;
    let frames = |text: &mut String, depth: usize| {
        (0..depth).for_each(|at| {
            let _ = writeln!(text, "\t    {:x} f{at} (/bin/app)", 0x4000 + 16 * at);
        });
        text.push('\n');
    };
    for at in 0..count {
        let (tid, waker) = (10 + at, 10 + (at * 7 + 3) % count);
        let time = |late: usize| format!("{}.{:06}", at / 1000, at % 1000 * 1000 + late);
        let _ = writeln!(text, "w{tid} 7/{tid} [000] {}: 1000000 cpu-clock:", time(0));
        frames(&mut text, 2 + at % 20);
        let _ = writeln!(
            text,
            "w{tid} 7/{tid} [000] {}: sched:sched_switch: prev_comm=w{tid} prev_pid={tid} \
             prev_prio=120 prev_state=S ==> next_comm=w{waker} next_pid={waker} next_prio=120",
            time(300)
        );
        frames(&mut text, 3);
        let _ = writeln!(
            text,
            "w{waker} 7/{waker} [000] {}: sched:sched_waking: comm=w{tid} pid={tid} prio=120 \
             target_cpu=000",
            time(500)
        );
        frames(&mut text, 3);
        let _ = writeln!(
            text,
            "w{waker} 7/{waker} [000] {}: sched:sched_switch: prev_comm=w{waker} \
             prev_pid={waker} prev_prio=120 prev_state=S ==> next_comm=w{tid} next_pid={tid} \
             next_prio=120",
            time(700)
        );
        frames(&mut text, 3);
    }
    text
}
