//! A program that runs one instruction at a time: the truth that decoding is held against.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::os::unix::fs::FileExt;

use libc::{c_int, pid_t};

/// What a thread did next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    pub ip: u64,
    /// Where the stack ends, which decoding never learns.
    pub sp: u64,
    /// A signal came before the instruction ran, so the next step is not what follows it.
    pub is_diverted: bool,
}

/// Executable memory as it was at the end.
#[derive(Debug, Clone)]
pub struct Code {
    pub start: u64,
    pub bytes: Vec<u8>,
    /// The file, and where in it the bytes begin; empty for memory of the program's own.
    pub file: String,
    pub file_offset: u64,
}

#[derive(Debug, Default)]
pub struct SteppedProgram {
    pub pid: i32,
    pub threads: BTreeMap<i32, Vec<Step>>,
    pub code: Vec<Code>,
}

/// Runs a program up to the last of some places, each an address in a file; then at most
/// `limit` instructions one at a time.
pub fn step(args: &[&str], places: &[(&str, u64)], limit: usize) -> SteppedProgram {
    let child = start(args);
    let mut tracer =
        Tracer { child, stepped: SteppedProgram { pid: child, ..SteppedProgram::default() } };
    assert_eq!(wait(child).0, child, "the program has started");
    let options = libc::PTRACE_O_EXITKILL | libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_TRACEEXIT;
    request(libc::PTRACE_SETOPTIONS, child, options as usize);
    for &(path, address) in places {
        run_to(child, load_address(child, path) + address);
    }
    tracer.run(limit);
    tracer.stepped
}

/// A child that waits to be traced, with addresses that do not change from run to run.
fn start(args: &[&str]) -> pid_t {
    let args: Vec<CString> =
        args.iter().map(|arg| CString::new(*arg).expect("no zero in it")).collect();
    let mut pointers: Vec<*const libc::c_char> = args.iter().map(|arg| arg.as_ptr()).collect();
    pointers.push(std::ptr::null());
    let silent = CString::new("/dev/null").expect("no zero in it");
    // SAFETY: between fork and exec the child calls only what may be called there, on memory
    // that was made before.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0, "no child could be made");
        if child == 0 {
            libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
            libc::personality(libc::ADDR_NO_RANDOMIZE as _);
            let null = libc::open(silent.as_ptr(), libc::O_RDWR);
            libc::dup2(null, 1);
            libc::execv(pointers[0], pointers.as_ptr());
            libc::_exit(127);
        }
        child
    }
}

fn wait(pid: pid_t) -> (pid_t, c_int) {
    let mut status = 0;
    // Other tests have children, too: only those of this thread are waited for.
    let flags = libc::__WALL | libc::__WNOTHREAD;
    // SAFETY: the status is ours to write.
    let found = unsafe { libc::waitpid(pid, &mut status, flags) };
    (found, status)
}

fn request(what: libc::c_uint, pid: pid_t, argument: usize) -> libc::c_long {
    // SAFETY: none of the requests made here writes to memory of this process.
    unsafe { libc::ptrace(what, pid, 0, argument) }
}

fn registers(pid: pid_t) -> libc::user_regs_struct {
    // SAFETY: a struct of numbers; the kernel fills it.
    unsafe {
        let mut registers: libc::user_regs_struct = std::mem::zeroed();
        libc::ptrace(libc::PTRACE_GETREGS, pid, 0, &mut registers);
        registers
    }
}

/// What has to be added to the addresses of a file to find them in a process that has just
/// been started.
pub fn load_address(pid: pid_t, path: &str) -> u64 {
    let head = fs::read(path).expect("the program can be read");
    // Position-independent programs are "shared objects"; others are where they say.
    if head[16] != 3 {
        return 0;
    }
    let path = fs::canonicalize(path).expect("the program is there");
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("the program runs");
    let line = maps.lines().find(|line| line.ends_with(&*path.to_string_lossy()));
    let start = line.and_then(|line| line.split('-').next()).expect("its file is mapped");
    u64::from_str_radix(start, 16).expect("a number")
}

fn run_to(pid: pid_t, address: u64) {
    let memory = fs::File::options().read(true).write(true).open(format!("/proc/{pid}/mem"));
    let memory = memory.expect("memory of a traced program can be written");
    let mut kept = [0];
    memory.read_exact_at(&mut kept, address).expect("code is there");
    memory.write_all_at(&[0xcc], address).expect("code can be written");
    request(libc::PTRACE_CONT, pid, 0);
    let (_, status) = wait(pid);
    assert!(libc::WIFSTOPPED(status), "the function was not called: {status:#x}");
    memory.write_all_at(&kept, address).expect("code can be written");
    let mut registers = registers(pid);
    assert_eq!(registers.rip, address + 1);
    registers.rip = address;
    // SAFETY: the registers are read by the kernel.
    unsafe { libc::ptrace(libc::PTRACE_SETREGS, pid, 0, &registers) };
}

struct Tracer {
    child: pid_t,
    stepped: SteppedProgram,
}

impl Tracer {
    fn run(&mut self, limit: usize) {
        self.record(self.child);
        request(libc::PTRACE_SINGLESTEP, self.child, 0);
        let (mut count, mut running) = (0, 1);
        while running > 0 {
            let (pid, status) = wait(-1);
            if pid < 0 {
                break;
            }
            if !libc::WIFSTOPPED(status) {
                running -= 1;
                continue;
            }
            if status >> 16 == libc::PTRACE_EVENT_EXIT && self.stepped.code.is_empty() {
                self.copy_code();
            }
            count += 1;
            if count >= limit {
                self.copy_code();
                break;
            }
            running += usize::from(status >> 16 == libc::PTRACE_EVENT_CLONE);
            self.go_on(pid, status);
        }
        self.end();
    }

    fn go_on(&mut self, pid: pid_t, status: c_int) {
        let signal = libc::WSTOPSIG(status);
        let is_event = status >> 16 != 0;
        let is_step = signal == libc::SIGTRAP && !is_event;
        // A thread that was just made stops by itself.
        let is_new = !self.stepped.threads.contains_key(&pid);
        if is_step || is_new {
            self.record(pid);
        }
        let passed = match is_step || is_event || is_new {
            true => 0,
            false => {
                self.divert(pid);
                signal as usize
            }
        };
        request(libc::PTRACE_SINGLESTEP, pid, passed);
    }

    fn record(&mut self, pid: pid_t) {
        let registers = registers(pid);
        let (ip, sp) = (registers.rip, registers.rsp);
        let steps = self.stepped.threads.entry(pid).or_default();
        steps.push(Step { ip, sp, is_diverted: false });
    }

    fn divert(&mut self, pid: pid_t) {
        let ip = registers(pid).rip;
        let steps = self.stepped.threads.entry(pid).or_default();
        if let Some(last) = steps.last_mut().filter(|last| last.ip == ip) {
            last.is_diverted = true;
        }
    }

    fn copy_code(&mut self) {
        let (pid, mut code) = (self.child, Vec::new());
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        let memory = fs::File::open(format!("/proc/{pid}/mem")).expect("a traced program");
        for line in maps.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [range, rights, offset, _, _, path @ ..] = &words[..] else { continue };
            if !rights.contains('x') || path.first() == Some(&"[vsyscall]") {
                continue;
            }
            let number = |text: &str| u64::from_str_radix(text, 16).expect("a number");
            let (start, end) = range.split_once('-').expect("a range");
            let (start, end) = (number(start), number(end));
            let mut bytes = vec![0; (end - start) as usize];
            if memory.read_exact_at(&mut bytes, start).is_ok() {
                let file = path.first().map_or("", |path| path).to_owned();
                code.push(Code { start, bytes, file, file_offset: number(offset) });
            }
        }
        self.stepped.code = code;
    }

    fn end(&self) {
        // SAFETY: the child is ours, and has not been waited for to its end.
        unsafe { libc::kill(self.child, libc::SIGKILL) };
        // Each thread stops once more on its way out.
        loop {
            match wait(-1) {
                (..=0, _) => return,
                (pid, status) if libc::WIFSTOPPED(status) => {
                    request(libc::PTRACE_CONT, pid, 0);
                }
                _ => {}
            }
        }
    }
}
