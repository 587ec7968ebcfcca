//! `spanwise run` and `spanwise attach`: record, then answer from the recording.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::{ExitCode, ExitStatus};

use anyhow::bail;
use spanwise_capture::{
    Ended, FlightOptions, FunctionTrigger, PythonOptions, RecordOptions, Recorded, Snapshot,
    Stacks, SymbolPlaces, Triggers, WaitStacks, When,
};
use spanwise_model::Trace;
use spanwise_read::{IndexUse, OpenOptions};

use super::choose::choose;
use super::{convert, convert_trace, report};
use crate::args::{
    AttachArgs, ConvertFormatArg, FlightArgs, PythonArg, ResultArgs, RunArgs, SamplingArgs,
    StacksArg, WaitStacksArg,
};
use crate::failure::note;
use crate::output::{stderr_style, stdout, stdout_style};
use crate::progress::Progress;

pub(super) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let format = format_of(&args.result)?;
    let mut recorded = with_options(&args.sampling, &args.flight, &args.result, |options| {
        spanwise_capture::record_program(&args.command, options)
    })?;
    tell(&recorded, &args.flight, &args.result);
    let answered = answer(&recorded, &args.result, format, Place::StandardError);
    let program = recorded.program.as_mut();
    // The recording may have been over before the program was.
    let status = program.and_then(|program| match recorded.ended {
        Ended::Stopped => program.has_ended(),
        Ended::Exited | Ended::Duration | Ended::Triggered => program.wait(),
    });
    answered?;
    Ok(status.map_or(ExitCode::SUCCESS, exit_code))
}

pub(super) fn attach(args: &AttachArgs) -> anyhow::Result<ExitCode> {
    let format = format_of(&args.result)?;
    let mut pids = match args.pid.as_slice() {
        [] => match choose_process()? {
            Some(pid) => vec![pid],
            None => bail!("no process was chosen"),
        },
        pids => pids.to_vec(),
    };
    pids.sort_unstable();
    pids.dedup();
    if !args.result.quiet && args.sampling.duration.is_none() && io::stderr().is_terminal() {
        note("recording; Ctrl-C ends it");
    }
    let recorded = with_options(&args.sampling, &args.flight, &args.result, |options| {
        spanwise_capture::record_processes(&pids, options)
    })?;
    tell(&recorded, &args.flight, &args.result);
    answer(&recorded, &args.result, format, Place::StandardOutput)?;
    Ok(ExitCode::SUCCESS)
}

fn choose_process() -> anyhow::Result<Option<i32>> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        bail!("which process? Without a terminal to choose on, say --pid");
    }
    let processes = spanwise_capture::running_processes();
    Ok(choose(&processes, &mut io::stdin().lock(), &mut io::stderr())?)
}

/// The program's own status, as a shell tells it.
fn exit_code(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}

/// Stacks of large programs with some room left.
const STACK_BYTES: u32 = 16384;

/// About a second of three busy processors.
const SNAPSHOT_BYTES: usize = 64 << 20;

/// Where the report goes: what a program prints is not mixed with it.
#[derive(Clone, Copy)]
enum Place {
    StandardOutput,
    StandardError,
}

/// Records as the options say.
fn with_options(
    sampling: &SamplingArgs,
    flight: &FlightArgs,
    result: &ResultArgs,
    record: impl FnOnce(&RecordOptions<'_>) -> Result<Recorded, spanwise_capture::CaptureError>,
) -> anyhow::Result<Recorded> {
    let name = flight.trigger.as_deref().unwrap_or_default();
    let sites_in = |path: &Path| spanwise_read::function_sites(path, name);
    let when = match (flight.duration_thresh, flight.delay_thresh) {
        (Some(most), _) => When::Lasted(most),
        (None, Some(most)) => When::Delayed(most),
        (None, None) => When::Called,
    };
    let function = FunctionTrigger { name, when, sites_in: &sites_in };
    let triggers = Triggers {
        function: flight.trigger.is_some().then_some(function),
        signal: flight.trigger_signal,
    };
    let options = RecordOptions {
        rate_hz: sampling.rate,
        stacks: stacks(sampling)?,
        wait_stacks: match sampling.wait_stacks {
            WaitStacksArg::Auto => WaitStacks::Auto,
            WaitStacksArg::Always => WaitStacks::Always,
            WaitStacksArg::Never => WaitStacks::Never,
        },
        duration: sampling.duration,
        python: (sampling.python != PythonArg::Off).then_some(PythonOptions {
            rate_hz: sampling.python_rate,
            is_wanted: sampling.python == PythonArg::On,
            symbols_in: &symbols_in,
        }),
        flight: flight.is_asked().then_some(FlightOptions {
            bytes: flight.snapshot_size.unwrap_or(SNAPSHOT_BYTES),
            triggers,
            takes_many: flight.multi_snapshot,
        }),
        folder: result.recording.as_deref(),
        build_id_of: &spanwise_read::build_id,
    };
    Ok(record(&options)?)
}

fn symbols_in(path: &Path, names: &[&str]) -> Option<SymbolPlaces> {
    let (addresses, code_shift) = spanwise_read::symbol_addresses(path, names)?;
    Some(SymbolPlaces { addresses, code_shift })
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
fn format_of(args: &ResultArgs) -> anyhow::Result<Option<ConvertFormatArg>> {
    let Some(target) = &args.output else { return Ok(None) };
    match args.to.or_else(|| convert::format_of(target)) {
        Some(format) => Ok(Some(format)),
        None => bail!("{}: the ending names no format; say --to, as for convert", target.display()),
    }
}

/// What was recorded, and where it is.
fn tell(recorded: &Recorded, flight: &FlightArgs, args: &ResultArgs) {
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
    if !recorded.has_found_python {
        note("--python on: no file that was mapped holds a Python interpreter");
    }
    if args.quiet {
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

/// The report, or the file that was asked for. Of several snapshots, whoever recorded them
/// chooses which to look at.
fn answer(
    recorded: &Recorded,
    args: &ResultArgs,
    format: Option<ConvertFormatArg>,
    place: Place,
) -> anyhow::Result<()> {
    let [Snapshot { folder, .. }] = recorded.snapshots.as_slice() else { return Ok(()) };
    if args.no_decode {
        return Ok(());
    }
    let trace = open(folder, args.quiet)?;
    if let (Some(target), Some(format)) = (&args.output, format) {
        let name = folder.file_stem().unwrap_or_default().to_string_lossy();
        convert_trace::write_as(&trace, &name, (target, format), true)?;
        if !args.quiet && target != Path::new("-") {
            note(&format!("written to {}", target.display()));
        }
        return Ok(());
    }
    let file = folder.display().to_string();
    let document = report::standard(&trace, &file, args.top.rows());
    let (style, mut out): (_, Box<dyn Write>) = match place {
        Place::StandardOutput => (stdout_style(), Box::new(stdout())),
        Place::StandardError => (stderr_style(), Box::new(io::BufWriter::new(io::stderr()))),
    };
    document.write(spanwise_write::Format::Text, style, &mut out)?;
    Ok(out.flush()?)
}

fn open(folder: &Path, quiet: bool) -> anyhow::Result<Trace> {
    let progress = Progress::new(quiet);
    let update = |done, total| progress.update(done, total);
    let options = OpenOptions { index: IndexUse::ReadOrWrite, threads: 0, progress: Some(&update) };
    Ok(spanwise_read::open(folder, &options)?)
}
