//! `spanwise run` and `spanwise attach`: record, then answer from the recording.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};

use anyhow::bail;
use spanwise_capture::{
    COMPANION, CallsBy, CallsOptions, ChildProcess, Ended, FlightOptions, FunctionTrigger,
    PythonOptions, RecordOptions, Recorded, SignalTrigger, Snapshot, Stacks, StepOptions,
    TorchRecorded, Triggers, When,
};
use spanwise_model::Trace;
use spanwise_read::OpenOptions;
use spanwise_symbols::{FunctionPatterns, SiteName};

use super::{calls, pt};
use crate::args::{
    AttachArgs, FileFormat, FlightArgs, PythonArg, ResultArgs, RunArgs, SamplingArgs, StacksArg,
    all_pids,
};
use crate::commands::profiles::convert::write_trace_as;
use crate::commands::profiles::{Target, convert};
use crate::commands::recording::choose::{choose, choose_name};
use crate::commands::recording::near_names::unmatched_text;
use crate::commands::report;
use crate::commands::viewing::view;
use crate::failure::{self, note};
use crate::output::{stderr_style, stdout, stdout_style};
use crate::progress::Progress;

pub(in crate::commands) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let format = format_of(&args.result)?;
    let program = args.command.first().and_then(|word| spanwise_capture::program_path(word));
    let files: Vec<PathBuf> = program.into_iter().collect();
    let how =
        RecordingArgs { sampling: &args.sampling, flight: &args.flight, result: &args.result };
    let mut recorded = with_options(how, &files, |options| {
        let options = RecordOptions { torch: args.torch, ..*options };
        spanwise_capture::record_program(&args.command, &options)
    })?;
    report_recorded(&recorded, how);
    let answered = answer(&recorded, &args.result, format, ReportStream::StandardError);
    let program = recorded.program.as_mut();
    // The recording may have been over before the program was.
    let status = program.and_then(|program| match recorded.ended {
        Ended::Stopped => program.has_ended(),
        Ended::Exited | Ended::Duration | Ended::Triggered | Ended::Failed => program.wait(),
    });
    // The program has run, whatever was found in it: its status is the one that counts.
    if let Some(calls) = &recorded.calls
        && let Some(pattern) = calls.unmatched.first()
    {
        note(&unmatched_text(pattern, &calls.files));
    }
    answered?;
    Ok(match recorded.ended {
        Ended::Failed => ExitCode::from(failure::ERROR),
        _ => status.map_or(ExitCode::SUCCESS, exit_code),
    })
}

pub(in crate::commands) fn attach(args: &AttachArgs) -> anyhow::Result<ExitCode> {
    let format = format_of(&args.result)?;
    let mut pids = match (all_pids(&args.pid), args.pid.is_empty()) {
        (pids, false) => pids,
        (_, true) => match choose_process()? {
            Some(pid) => vec![pid],
            None => bail!("no process was chosen"),
        },
    };
    pids.sort_unstable();
    pids.dedup();
    let named = pids.clone();
    let children = spanwise_capture::child_processes(&pids);
    match args.children {
        true => pids.extend(children.iter().map(|child| child.pid)),
        false if !args.result.quiet && !children.is_empty() => report_children(&children),
        false => {}
    }
    if !args.result.quiet && args.sampling.duration.is_none() && io::stderr().is_terminal() {
        note("recording; Ctrl-C ends it");
    }
    warn_of_signal(&args.flight, &pids);
    let files: Vec<PathBuf> =
        pids.iter().flat_map(|&pid| spanwise_capture::mapped_files(pid)).collect();
    let how =
        RecordingArgs { sampling: &args.sampling, flight: &args.flight, result: &args.result };
    // What a running process has mapped is known before anything is recorded.
    let mut unmatched: Vec<&str> = args.sampling.calls.iter().map(String::as_str).collect();
    files.iter().for_each(|file| patterns(&args.sampling).remove_matched(file, &mut unmatched));
    if let Some(pattern) = unmatched.first() {
        bail!(unmatched_text(pattern, &files));
    }
    let recorded = with_options(how, &files, |options| {
        let options = RecordOptions { children: args.children, ..*options };
        spanwise_capture::record_processes(&named, &options)
    })?;
    report_recorded(&recorded, how);
    answer(&recorded, &args.result, format, ReportStream::StandardOutput)?;
    Ok(match recorded.ended {
        Ended::Failed => ExitCode::from(failure::ERROR),
        _ => ExitCode::SUCCESS,
    })
}

/// A server that lets others do its work does nothing itself.
fn report_children(children: &[ChildProcess]) {
    const NAMED: usize = 3;
    let named = children.iter().take(NAMED).map(|child| format!("{} {}", child.name, child.pid));
    let named = named.collect::<Vec<_>>().join(", ");
    let more = if children.len() > NAMED { ", …" } else { "" };
    let count = spanwise_write::count_text(children.len() as i128);
    let processes = if children.len() == 1 { "child process" } else { "child processes" };
    note(&format!(
        "{count} {processes} ({named}{more}) that run already are not recorded: --children records \
         them as well"
    ));
}

/// The signal to watch: the one that was asked for, or the one by which programs that know other
/// recorders ask for a snapshot.
fn signal_trigger(flight: &FlightArgs) -> Option<SignalTrigger> {
    let asked = flight.trigger_signal.map(|number| SignalTrigger { number, is_optional: false });
    let is_asked_by_program = flight.trigger.as_deref() == Some(".");
    asked.or(is_asked_by_program.then_some(SignalTrigger { number: SIGUSR1, is_optional: true }))
}

const SIGUSR1: i32 = 10;

/// A signal that would end a program is better known before it comes.
fn warn_of_signal(flight: &FlightArgs, pids: &[i32]) {
    let Some(signal) = signal_trigger(flight) else { return };
    let name = signal_name(signal);
    for pid in pids.iter().filter(|&&pid| signal.would_end(pid)) {
        note(&format!(
            "process {pid} neither handles nor ignores {name}: the signal will end it. Have it \
             ignore the signal first (in Python: signal.signal(signal.{name}, signal.SIG_IGN)), \
             or start it with `spanwise run`, which sees to that"
        ));
    }
}

fn signal_name(signal: SignalTrigger) -> &'static str {
    if signal.number == SIGUSR1 { "SIGUSR1" } else { "SIGUSR2" }
}

/// The same of one that changed what it does while it is recorded, or that another started.
fn warn_of_default_action(flight: &FlightArgs, pid: i32) {
    if let Some(signal) = signal_trigger(flight) {
        let name = signal_name(signal);
        note(&format!(
            "process {pid} has the default action of {name} from now on: the signal will end it"
        ));
    }
}

fn choose_process() -> anyhow::Result<Option<i32>> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        bail!("which process? Without a terminal to choose on, say --pid");
    }
    let processes = spanwise_capture::running_processes();
    let question = "number of the process, or a part of its command: ";
    Ok(choose(&processes, question, &mut io::stdin().lock(), &mut io::stderr())?)
}

/// The function that a trigger means: what it says, or one that is chosen on a terminal where
/// no file has it.
fn trigger_name(flight: &FlightArgs, files: &[PathBuf]) -> anyhow::Result<String> {
    let name = match flight.trigger.as_deref() {
        Some(".") | None => return Ok(COMPANION.to_owned()),
        Some(name) => name.to_owned(),
    };
    let site = SiteName::parse(&name);
    let is_there = |file: &PathBuf| !site.sites_in(file).is_empty();
    let may_ask = io::stdin().is_terminal() && io::stderr().is_terminal();
    if !may_ask || !matches!(site, SiteName::Function(_)) || files.iter().any(is_there) {
        return Ok(name);
    }
    let like_it = [format!("*{name}*")];
    let like_it = FunctionPatterns { wanted: &like_it, excluded: &[] };
    let names: BTreeSet<String> = files.iter().flat_map(|file| like_it.names_in(file)).collect();
    let names: Vec<String> = names.into_iter().collect();
    if names.is_empty() {
        return Ok(name);
    }
    match choose_name(&names, &mut io::stdin().lock(), &mut io::stderr())? {
        Some(chosen) => Ok(chosen.to_owned()),
        None => bail!("--trigger {name}: no function was chosen"),
    }
}

/// The program's own status, as a shell reports it.
fn exit_code(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}

/// Stacks of large programs with some room left.
pub(in crate::commands) const STACK_BYTES: u32 = 16384;

/// About a second of three busy processors.
const SNAPSHOT_BYTES: usize = 64 << 20;

/// Where the report goes: what a program prints is not mixed with it.
#[derive(Clone, Copy)]
enum ReportStream {
    StandardOutput,
    StandardError,
}

/// The options that `run` and `attach` share.
#[derive(Clone, Copy)]
struct RecordingArgs<'a> {
    sampling: &'a SamplingArgs,
    flight: &'a FlightArgs,
    result: &'a ResultArgs,
}

/// Records as the options say.
fn with_options(
    RecordingArgs { sampling, flight, result }: RecordingArgs<'_>,
    files: &[PathBuf],
    record: impl FnOnce(&RecordOptions<'_>) -> Result<Recorded, spanwise_capture::CaptureError>,
) -> anyhow::Result<Recorded> {
    let name = &*trigger_name(flight, files)?;
    check_options(sampling, flight, name)?;
    let when = when(flight);
    let function = FunctionTrigger {
        name,
        when,
        is_companion: name == COMPANION,
        is_optional: flight.trigger.is_none(),
    };
    let triggers = Triggers {
        function: Some(function),
        signal: signal_trigger(flight),
        off_cpu: flight.trigger_off_cpu,
        after: flight.after,
        every: flight.every,
    };
    let warn_of_signal = |pid| warn_of_default_action(flight, pid);
    let ranges = pt::ranges(&sampling.pt, files)?;
    let options = RecordOptions {
        rate_hz: sampling.rate,
        clock: sampling.clock,
        stacks: stacks(sampling)?,
        switches: sampling.switches,
        wait_stacks: sampling.wait_stacks,
        wait_threshold: sampling.wait_threshold,
        duration: sampling.duration,
        calls: (!sampling.calls.is_empty()).then_some(CallsOptions {
            functions: patterns(sampling),
            budget_percent: sampling.calls_budget,
            aggregates: sampling.aggregate,
            by: sampling.calls_by,
        }),
        children: false,
        torch: false,
        pt: pt::options(&sampling.pt, &ranges),
        step: sampling.single_step.as_deref().map(|name| StepOptions {
            name,
            calls: sampling.step_calls,
            instructions: sampling.step_instructions,
            time: sampling.step_time,
        }),
        python: python(sampling),
        flight: flight.is_asked().then_some(FlightOptions {
            bytes: flight.snapshot_size.unwrap_or(SNAPSHOT_BYTES),
            triggers,
            warn_of_signal: &warn_of_signal,
            takes_many: flight.multi_snapshot || flight.every.is_some(),
        }),
        keeps_arguments: result.with_arguments,
        folder: result.folder(),
    };
    Ok(record(&options)?)
}

/// The functions whose calls are recorded.
fn patterns(sampling: &SamplingArgs) -> FunctionPatterns<'_> {
    FunctionPatterns { wanted: &sampling.calls, excluded: &sampling.exclude }
}

fn python(sampling: &SamplingArgs) -> Option<PythonOptions> {
    let is_wanted = sampling.python != PythonArg::Off && sampling.pt.backend.is_none();
    is_wanted.then_some(PythonOptions {
        rate_hz: sampling.python_rate,
        is_wanted: sampling.python == PythonArg::On,
    })
}

/// Options that do not go together, which the parser of arguments cannot know.
fn check_options(sampling: &SamplingArgs, flight: &FlightArgs, name: &str) -> anyhow::Result<()> {
    let is_function = matches!(SiteName::parse(name), SiteName::Function(_));
    if !is_function && flight.duration_thresh.is_some() {
        bail!("--duration-thresh is about calls, and {name} is a place inside of a function");
    }
    if sampling.aggregate && sampling.calls_by == CallsBy::Probes {
        bail!("--aggregate counts by BPF, and --calls-by uprobes does without");
    }
    Ok(())
}

/// When a call is a reason for a snapshot.
fn when(flight: &FlightArgs) -> When {
    match (flight.duration_thresh, flight.delay_thresh) {
        (Some(most), _) => When::Lasted(most),
        (None, Some(most)) => When::Delayed(most),
        (None, None) => When::Called,
    }
}

fn stacks(sampling: &SamplingArgs) -> anyhow::Result<Stacks> {
    let has_tables = cfg!(target_arch = "x86_64");
    Ok(match sampling.stacks {
        StacksArg::Dwarf if !has_tables => bail!("--stacks dwarf: only on x86-64"),
        StacksArg::Auto | StacksArg::Dwarf if has_tables => {
            Stacks::Dwarf { bytes: sampling.stack_bytes.unwrap_or(STACK_BYTES) }
        }
        _ if sampling.stack_bytes.is_some() => {
            bail!("--stack-bytes is about copies of stacks, and frame pointers need none")
        }
        StacksArg::Auto | StacksArg::Dwarf | StacksArg::Fp => Stacks::FramePointers,
    })
}

/// The format of the output, known to be one before anything is recorded.
fn format_of(args: &ResultArgs) -> anyhow::Result<Option<FileFormat>> {
    match (&args.output, args.output_recording()) {
        (Some(_), Some(_)) if args.recording.is_some() => {
            bail!("-o names a recording, and --recording another: give one of them")
        }
        (Some(target), None) => convert::format_of(target, args.to).map(Some),
        _ => Ok(None),
    }
}

/// What was recorded, and where it is.
fn report_recorded(recorded: &Recorded, how: RecordingArgs<'_>) {
    let RecordingArgs { sampling, flight, result: args } = how;
    let count = |number: u64| spanwise_write::count_text(number.into());
    if recorded.lost > 0 {
        note(&format!(
            "{} records are lost: there was no room for them; a lower --rate or --stacks fp \
             needs less",
            count(recorded.lost)
        ));
    }
    recorded.troubles.iter().for_each(|trouble| note(trouble));
    if let Some(name) = flight.trigger.as_deref().filter(|_| !recorded.has_found_function) {
        note(&format!("--trigger {name}: no function of this name in any file that was mapped"));
    }
    calls::report(recorded.calls.as_ref(), args);
    report_steps(recorded, sampling, args);
    report_torch(recorded, args);
    pt::report(recorded, args);
    if !recorded.has_found_python {
        note("--python on: no file that was mapped holds a Python interpreter");
    }
    if args.quiet || recorded.trace.is_some() {
        return;
    }
    for Snapshot { folder, why, samples } in &recorded.snapshots {
        let (samples, folder) = (count(*samples), folder.display());
        match flight.is_asked() {
            true => note(&format!("{why}: {samples} samples in {folder}")),
            false => note(&format!("{samples} samples in {folder}")),
        }
    }
    if recorded.snapshots.iter().all(|snapshot| snapshot.samples == 0) {
        note("the program ran too briefly to be sampled, or waited all the time");
    }
}

fn report_steps(recorded: &Recorded, sampling: &SamplingArgs, args: &ResultArgs) {
    let (Some(name), Some(steps)) = (&sampling.single_step, recorded.steps) else { return };
    let count = |number: u64| spanwise_write::count_text(number.into());
    let calls = |calls: u64| {
        format!("{} {} of {name}", count(calls), if calls == 1 { "call" } else { "calls" })
    };
    let [by_instructions, by_time] = steps.cut;
    if !recorded.has_found_step {
        note(&format!(
            "--single-step {name}: no function of this name in any file that was mapped"
        ));
    } else if steps.calls == 0 {
        note(&format!("--single-step {name}: it was not called"));
    } else if !args.quiet {
        let instructions = count(steps.instructions);
        note(&format!("{instructions} instructions of {}, step by step", calls(steps.calls)));
    }
    if by_instructions > 0 {
        let (calls, most) = (calls(by_instructions), count(sampling.step_instructions));
        note(&format!("{calls} went on behind {most} instructions (--step-instructions)"));
    }
    if by_time > 0 {
        let most = i128::try_from(sampling.step_time.as_nanos()).unwrap_or(i128::MAX);
        let (calls, most) = (calls(by_time), spanwise_write::nanos_text(most));
        note(&format!("{calls} went on after {most} (--step-time)"));
    }
}

fn report_torch(recorded: &Recorded, args: &ResultArgs) {
    let Some(TorchRecorded { traces, bytes }) = recorded.torch else { return };
    if traces == 0 {
        note("--torch: no trace of PyTorch; no program has imported torch and ended by itself");
    } else if !args.quiet {
        let (count, bytes) = (spanwise_write::count_text(traces.into()), i128::from(bytes));
        let traces = if traces == 1 { "trace" } else { "traces" };
        note(&format!("{count} {traces} of PyTorch, {}", spanwise_write::bytes_text(bytes)));
    }
}

/// The report, or the file that was asked for. Of several snapshots, whoever recorded them
/// chooses which to open.
fn answer(
    recorded: &Recorded,
    args: &ResultArgs,
    format: Option<FileFormat>,
    place: ReportStream,
) -> anyhow::Result<()> {
    let [Snapshot { folder, .. }] = recorded.snapshots.as_slice() else { return Ok(()) };
    if args.is_only_recorded() {
        return Ok(());
    }
    let trace = open(folder, args.quiet)?;
    if let (Some(target), Some(format)) = (&args.output, format) {
        let name = folder.file_stem().unwrap_or_default().to_string_lossy();
        write_trace_as(trace, &name, format, Target { path: target, is_quiet: true })?;
        if !args.quiet && target != Path::new("-") {
            note(&format!("written to {}", target.display()));
        }
        return Ok(());
    }
    if args.view {
        return view::show(view::name_of(folder), trace, args.quiet);
    }
    let file = folder.display().to_string();
    let document = report::named(trace, &file, args.top.rows(), &[]);
    let (style, mut out): (_, Box<dyn Write>) = match place {
        ReportStream::StandardOutput => (stdout_style(), Box::new(stdout())),
        ReportStream::StandardError => (stderr_style(), Box::new(io::BufWriter::new(io::stderr()))),
    };
    document.write(spanwise_write::Format::Text, style, &mut out)?;
    Ok(out.flush()?)
}

fn open(folder: &Path, quiet: bool) -> anyhow::Result<Trace> {
    let progress = Progress::new(quiet);
    let update = |done, total| progress.update(done, total);
    let options =
        OpenOptions { progress: Some(&update), notes: Some(&note), ..OpenOptions::default() };
    Ok(spanwise_read::open(folder, &options)?)
}
