//! What `perf.data` and the records of the kernel in it are made of: numbers that recorders write
//! and readers interpret. The kernel and perf define them, except the names and ids of our own
//! events.

/// Numbers of records.
pub mod record_kind {
    pub const MMAP: u32 = 1;
    pub const LOST: u32 = 2;
    pub const COMM: u32 = 3;
    pub const EXIT: u32 = 4;
    pub const THROTTLE: u32 = 5;
    pub const UNTHROTTLE: u32 = 6;
    pub const FORK: u32 = 7;
    pub const SAMPLE: u32 = 9;
    pub const MMAP2: u32 = 10;
    pub const AUX: u32 = 11;
    pub const ITRACE_START: u32 = 12;
    pub const LOST_SAMPLES: u32 = 13;
    pub const SWITCH: u32 = 14;
    pub const SWITCH_CPU_WIDE: u32 = 15;
    pub const HEADER_ATTR: u32 = 64;
    pub const TRACING_DATA: u32 = 66;
    pub const BUILD_ID: u32 = 67;
    pub const FINISHED_ROUND: u32 = 68;
    pub const AUXTRACE_INFO: u32 = 70;
    pub const AUXTRACE: u32 = 71;
    pub const EVENT_UPDATE: u32 = 78;
    pub const HEADER_FEATURE: u32 = 80;
    pub const COMPRESSED: u32 = 81;
    pub const COMPRESSED2: u32 = 83;
}

/// Bits of a record's `misc`; some have a meaning for one kind of record only.
pub mod misc {
    pub const CPU_MODE: u16 = 7;
    pub const KERNEL: u16 = 1;
    pub const USER: u16 = 2;
    /// Of `COMM`: another program is executed.
    pub const EXEC: u16 = 1 << 13;
    pub const SWITCH_OUT: u16 = 1 << 13;
    pub const SWITCH_PREEMPTED: u16 = 1 << 14;
    /// A mapping that is not executed.
    pub const MAPPED_DATA: u16 = 1 << 13;
}

/// Bits of `perf_event_attr.sample_type`.
pub mod sample_field {
    pub const IP: u64 = 1;
    pub const TID: u64 = 1 << 1;
    pub const TIME: u64 = 1 << 2;
    pub const ADDR: u64 = 1 << 3;
    pub const READ: u64 = 1 << 4;
    pub const CALLCHAIN: u64 = 1 << 5;
    pub const ID: u64 = 1 << 6;
    pub const CPU: u64 = 1 << 7;
    pub const PERIOD: u64 = 1 << 8;
    pub const STREAM_ID: u64 = 1 << 9;
    pub const RAW: u64 = 1 << 10;
    pub const BRANCH_STACK: u64 = 1 << 11;
    pub const REGS_USER: u64 = 1 << 12;
    pub const STACK_USER: u64 = 1 << 13;
    pub const IDENTIFIER: u64 = 1 << 16;
}

/// Names of events that have a meaning of their own.
pub mod event_name {
    pub const CPU_CLOCK: &str = "cpu-clock";
    /// Raised right before the record of a switch.
    pub const CONTEXT_SWITCHES: &str = "context-switches";
    /// Stacks of waits, as perf calls them: the period is the wait up to the time of the sample.
    pub const WAIT: &str = "offcpu-time";
    /// Samples that stand for as much time in shorter waits as their period says.
    pub const WAIT_SHARE: &str = "offcpu-time-sampled";
    /// Stacks of threads that are about to end a wait of another.
    pub const WAKER: &str = "offcpu-waker";
}

/// Ids of events that are ours: the kernel gives none so large.
pub mod event_id {
    pub const SWITCHES: u64 = 1 << 62;
    pub const WAKINGS: u64 = 1 << 62 | 1;
    pub const WAIT_SHARES: u64 = 1 << 62 | 2;
    pub const WAKERS: u64 = 1 << 62 | 3;
}
