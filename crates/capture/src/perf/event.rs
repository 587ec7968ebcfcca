//! What the kernel is asked to record: `perf_event_attr`, as bytes for the kernel and for
//! the file.

use spanwise_recording::perf::sample_field as field;

/// How stacks are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stacks {
    /// By the kernel, along frame pointers: cheap, and short where code has none.
    FramePointers,
    /// Registers and the upper end of the stack are copied; unwinding tables lead through
    /// them later.
    Dwarf { bytes: u32 },
}

/// More than this hangs machines whose clock is emulated: at 10 kHz a third of the time goes
/// into the clock, at 20 kHz three quarters, and beyond that nothing else happens.
pub const RATE_MAX_HZ: u32 = 10_000;

/// The kernel copies whole words, and fewer than 64 KiB with the record around them.
pub const STACK_BYTES_MAX: u32 = 65_528;

/// Bits of the flags.
mod flag {
    pub(super) const DISABLED: u64 = 1;
    pub(super) const INHERIT: u64 = 1 << 1;
    pub(super) const EXCLUDE_USER: u64 = 1 << 4;
    pub(super) const EXCLUDE_KERNEL: u64 = 1 << 5;
    pub(super) const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
    pub(super) const MMAP: u64 = 1 << 8;
    pub(super) const COMM: u64 = 1 << 9;
    pub(super) const ENABLE_ON_EXEC: u64 = 1 << 12;
    pub(super) const TASK: u64 = 1 << 13;
    pub(super) const WATERMARK: u64 = 1 << 14;
    pub(super) const MMAP_DATA: u64 = 1 << 17;
    pub(super) const SAMPLE_ID_ALL: u64 = 1 << 18;
    pub(super) const EXCLUDE_CALLCHAIN_USER: u64 = 1 << 22;
    pub(super) const MMAP2: u64 = 1 << 23;
    pub(super) const COMM_EXEC: u64 = 1 << 24;
    pub(super) const USE_CLOCKID: u64 = 1 << 25;
    pub(super) const CONTEXT_SWITCH: u64 = 1 << 26;
    pub(super) const INHERIT_THREAD: u64 = 1 << 35;
    pub(super) const REMOVE_ON_EXEC: u64 = 1 << 36;
    pub(super) const SEND_SIGNAL: u64 = 1 << 37;
}

const TYPE_SOFTWARE: u32 = 1;
const TYPE_TRACEPOINT: u32 = 2;
const TYPE_BREAKPOINT: u32 = 5;
const EXECUTED: u32 = 4;
const CPU_CLOCK: u64 = 0;
const CONTEXT_SWITCHES: u64 = 3;
/// What programs in the kernel write.
const BPF_OUTPUT: u64 = 10;
/// Counts nothing.
const DUMMY: u64 = 9;

/// All registers of x86-64 but those of segments, as perf itself records them.
pub(crate) const REGISTERS_X86_64: u64 = 0x00ff_0fff;

/// The registers of the first two arguments: `rsi` and `rdi` on x86-64, elsewhere the first two.
const ARGUMENTS: u64 = if cfg!(target_arch = "x86_64") { 1 << 4 | 1 << 5 } else { 1 | 1 << 1 };

/// The layout of the kernel's structure, up to what we use.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Attr {
    pub(crate) kind: u32,
    pub(crate) size: u32,
    pub(crate) config: u64,
    pub(crate) sample_period: u64,
    pub(crate) sample_type: u64,
    pub(crate) read_format: u64,
    pub(crate) flags: u64,
    pub(crate) wakeup: u32,
    pub(crate) breakpoint_type: u32,
    pub(crate) config1: u64,
    pub(crate) config2: u64,
    pub(crate) branch_sample_type: u64,
    pub(crate) regs_user: u64,
    pub(crate) stack_user: u32,
    pub(crate) clock_id: i32,
    pub(crate) regs_intr: u64,
    pub(crate) aux_watermark: u32,
    pub(crate) max_stack: u16,
    pub(crate) reserved: u16,
    pub(crate) aux_sample_size: u32,
    /// What the event does to the trace of its group's leader.
    pub(crate) aux_action: u32,
}

pub(crate) const ATTR_BYTES: usize = 120;

/// The leader's trace pauses when the event happens: Linux 6.13.
const PAUSES_TRACE: u32 = 2;

/// Fields that every event of ours records, so that all their records read alike.
const FIELDS: u64 =
    field::IP | field::TID | field::TIME | field::CPU | field::PERIOD | field::IDENTIFIER;

impl Attr {
    /// Samples of a clock, and all that is needed to make sense of them: names, mappings,
    /// new threads.
    pub(crate) fn clock(rate_hz: u32, stacks: Stacks) -> Attr {
        let period = 1_000_000_000 / u64::from(rate_hz.clamp(1, RATE_MAX_HZ));
        let attr = Attr {
            kind: TYPE_SOFTWARE,
            size: ATTR_BYTES as u32,
            config: CPU_CLOCK,
            sample_period: period,
            sample_type: FIELDS,
            flags: flag::DISABLED
                | flag::INHERIT
                | flag::EXCLUDE_HYPERVISOR
                | flag::MMAP
                | flag::MMAP2
                | flag::COMM
                | flag::COMM_EXEC
                | flag::TASK
                | flag::SAMPLE_ID_ALL
                | flag::USE_CLOCKID,
            clock_id: libc::CLOCK_MONOTONIC,
            ..Attr::default()
        };
        attr.with_stacks(stacks)
    }

    /// The trace that a processor writes by itself, by the number of its source.
    pub(crate) fn hardware_trace(kind: u32, config: u64) -> Attr {
        Attr {
            kind,
            size: ATTR_BYTES as u32,
            config,
            sample_period: 1,
            sample_type: FIELDS,
            flags: flag::DISABLED | flag::INHERIT | flag::EXCLUDE_HYPERVISOR | flag::SAMPLE_ID_ALL,
            ..Attr::default()
        }
    }

    /// What is needed to make sense of such a trace: names, mappings, new threads.
    pub(crate) fn side_records() -> Attr {
        let side = flag::MMAP | flag::MMAP2 | flag::COMM | flag::COMM_EXEC | flag::TASK;
        let attr = Attr::nothing();
        Attr { flags: attr.flags | side, ..attr }.without_kernel()
    }

    /// For a ring that others write into.
    pub(crate) fn nothing() -> Attr {
        Attr { kind: TYPE_SOFTWARE, ..Attr::tracepoint(DUMMY) }
    }

    /// When threads leave their processor and come back, and nothing else: an event of its own,
    /// so that it can be switched off alone.
    pub(crate) fn switch_records() -> Attr {
        let attr = Attr::nothing();
        Attr { flags: attr.flags | flag::CONTEXT_SWITCH, ..attr }
    }

    /// The stack with which a thread leaves its processor, each time.
    pub(crate) fn switches(stacks: Stacks) -> Attr {
        let attr = Attr { kind: TYPE_SOFTWARE, ..Attr::tracepoint(CONTEXT_SWITCHES) };
        attr.with_stacks(stacks)
    }

    /// The stack of a wait, when it is over and a program in the kernel asks for it.
    pub(crate) fn wait_stacks(stacks: Stacks) -> Attr {
        let attr = Attr { kind: TYPE_SOFTWARE, ..Attr::tracepoint(BPF_OUTPUT) };
        attr.with_stacks(stacks)
    }

    fn with_stacks(mut self, stacks: Stacks) -> Attr {
        self.sample_type |= field::CALLCHAIN;
        if let Stacks::Dwarf { bytes } = stacks {
            self.sample_type |= field::REGS_USER | field::STACK_USER;
            self.flags |= flag::EXCLUDE_CALLCHAIN_USER;
            if self.flags & flag::MMAP2 != 0 {
                // Unwinding tables lie in parts of files that are not executed; perf finds them
                // through these mappings alone.
                self.flags |= flag::MMAP_DATA;
            }
            self.regs_user = REGISTERS_X86_64;
            self.stack_user = bytes.min(STACK_BYTES_MAX) & !7;
        }
        self
    }

    /// A tracepoint of the kernel, by its number: notes each time that it is passed, without
    /// a stack.
    pub(crate) fn tracepoint(number: u64) -> Attr {
        Attr {
            kind: TYPE_TRACEPOINT,
            size: ATTR_BYTES as u32,
            config: number,
            sample_period: 1,
            sample_type: FIELDS,
            flags: flag::INHERIT | flag::SAMPLE_ID_ALL | flag::USE_CLOCKID,
            clock_id: libc::CLOCK_MONOTONIC,
            ..Attr::default()
        }
        // Rings are polled often enough; waking somebody would cost each call 20 µs.
        .waking_at(u32::MAX)
    }

    /// Sends a signal to a thread, and those of its process that it makes, before it executes the
    /// instruction at an address.
    pub(crate) fn breakpoint(address: u64) -> Attr {
        Attr {
            kind: TYPE_BREAKPOINT,
            size: ATTR_BYTES as u32,
            breakpoint_type: EXECUTED,
            config1: address,
            // The only length that there is for instructions.
            config2: size_of::<libc::c_long>() as u64,
            sample_period: 1,
            flags: flag::INHERIT
                | flag::INHERIT_THREAD
                | flag::REMOVE_ON_EXEC
                | flag::SEND_SIGNAL
                | flag::EXCLUDE_KERNEL
                | flag::EXCLUDE_HYPERVISOR,
            ..Attr::default()
        }
    }

    /// With the first two arguments of the function that begins there.
    pub(crate) fn with_arguments(self) -> Attr {
        let sample_type = self.sample_type | field::REGS_USER;
        Attr { sample_type, regs_user: ARGUMENTS, ..self }
    }

    /// With what its probe fetches.
    pub(crate) fn with_fetched(self) -> Attr {
        Attr { sample_type: self.sample_type | field::RAW, ..self }
    }

    pub(crate) fn has_arguments(&self) -> bool {
        self.sample_type & field::REGS_USER != 0
    }

    /// Of a processor, whoever runs there: there is nobody to inherit it.
    pub(crate) fn of_processor(self) -> Attr {
        Attr { flags: self.flags & !flag::INHERIT, ..self }
    }

    /// The program's own code alone, as one may without privileges.
    pub(crate) fn without_kernel(self) -> Attr {
        Attr { flags: self.flags | flag::EXCLUDE_KERNEL, ..self }
    }

    /// Parts of files that are not executed are reported, too.
    pub(crate) fn has_data_mappings(&self) -> bool {
        self.flags & flag::MMAP_DATA != 0
    }

    pub(crate) fn has_kernel(&self) -> bool {
        self.flags & flag::EXCLUDE_KERNEL == 0
    }

    /// The kernel's part alone.
    pub(crate) fn without_program(self) -> Attr {
        Attr { flags: self.flags | flag::EXCLUDE_USER, ..self }
    }

    /// Events that share a ring, or a group, have one clock.
    pub(crate) fn on_clock_of(self, other: &Attr) -> Attr {
        let flags = self.flags & !flag::USE_CLOCKID | other.flags & flag::USE_CLOCKID;
        Attr { flags, clock_id: other.clock_id, ..self }
    }

    /// True where times are those of `CLOCK_MONOTONIC`.
    pub(crate) fn has_monotonic(&self) -> bool {
        self.flags & flag::USE_CLOCKID != 0
    }

    /// Pauses the trace of the event that leads its group.
    pub(crate) fn pausing_trace(self) -> Attr {
        Attr { aux_action: PAUSES_TRACE, ..self }
    }

    /// Begins when it is enabled.
    pub(crate) fn beginning_later(self) -> Attr {
        Attr { flags: self.flags | flag::DISABLED, ..self }
    }

    /// Begins when the process runs its program.
    pub(crate) fn beginning_at_exec(self) -> Attr {
        Attr { flags: self.flags | flag::DISABLED | flag::ENABLE_ON_EXEC, ..self }
    }

    /// Wakes the reader when so many bytes wait in the ring.
    pub(crate) fn waking_at(self, bytes: u32) -> Attr {
        Attr { flags: self.flags | flag::WATERMARK, wakeup: bytes, ..self }
    }

    /// Wakes the reader each time.
    pub(crate) fn waking_at_once(self) -> Attr {
        Attr { flags: self.flags & !flag::WATERMARK, wakeup: 1, ..self }
    }

    /// As the file holds it.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(ATTR_BYTES);
        let mut word = |word: u64| bytes.extend(word.to_ne_bytes());
        let pair = |low: u32, high: u32| match cfg!(target_endian = "little") {
            true => u64::from(high) << 32 | u64::from(low),
            false => u64::from(low) << 32 | u64::from(high),
        };
        word(pair(self.kind, self.size));
        word(self.config);
        word(self.sample_period);
        word(self.sample_type);
        word(self.read_format);
        word(self.flags);
        word(pair(self.wakeup, self.breakpoint_type));
        word(self.config1);
        word(self.config2);
        word(self.branch_sample_type);
        word(self.regs_user);
        word(pair(self.stack_user, self.clock_id as u32));
        word(self.regs_intr);
        word(pair(self.aux_watermark, u32::from(self.max_stack)));
        word(pair(self.aux_sample_size, self.aux_action));
        bytes
    }
}

/// An event with its name and the ids that its records carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) attr: Attr,
    pub(crate) ids: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_has_the_kernels_size() {
        assert_eq!(size_of::<Attr>(), ATTR_BYTES);
        let attr = Attr::clock(997, Stacks::FramePointers);
        assert_eq!(attr.to_bytes().len(), ATTR_BYTES);
        assert_eq!(attr.sample_period, 1_003_009);
    }

    #[test]
    fn no_rate_is_above_the_limit() {
        let check = |rate, period| {
            assert_eq!(Attr::clock(rate, Stacks::FramePointers).sample_period, period);
        };
        check(0, 1_000_000_000);
        check(10_000, 100_000);
        check(u32::MAX, 100_000);
    }

    #[test]
    fn stacks_are_whole_words_that_fit_a_record() {
        let check = |bytes, expected| {
            let attr = Attr::clock(1, Stacks::Dwarf { bytes });
            assert_eq!(attr.stack_user, expected);
        };
        check(8192, 8192);
        check(8199, 8192);
        check(u32::MAX, STACK_BYTES_MAX);
    }
}
