//! `spanwise run` and `spanwise attach`: record, then answer from the recording.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::{ExitCode, ExitStatus};

use anyhow::bail;
use spanwise_capture::{Ended, RecordOptions, Recorded, Stacks};
use spanwise_model::Trace;
use spanwise_read::{IndexUse, OpenOptions};

use super::{convert, convert_trace, report};
use crate::args::{AttachArgs, ConvertFormatArg, ResultArgs, RunArgs, SamplingArgs, StacksArg};
use crate::failure::note;
use crate::output::{stderr_style, stdout, stdout_style};
use crate::progress::Progress;

pub(super) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let format = format_of(&args.result)?;
    let options = options(&args.sampling, &args.result)?;
    let mut recorded = spanwise_capture::record_program(&args.command, &options)?;
    tell(&recorded, &args.result);
    let answered = answer(&recorded, &args.result, format, Place::StandardError);
    let program = recorded.program.as_mut();
    // The time may have been over before the program was.
    let status = program.and_then(|program| match recorded.ended {
        Ended::Stopped => program.has_ended(),
        Ended::Exited | Ended::Duration => program.wait(),
    });
    answered?;
    Ok(status.map_or(ExitCode::SUCCESS, exit_code))
}

pub(super) fn attach(args: &AttachArgs) -> anyhow::Result<ExitCode> {
    let format = format_of(&args.result)?;
    let options = options(&args.sampling, &args.result)?;
    let mut pids = args.pid.clone();
    pids.sort_unstable();
    pids.dedup();
    if !args.result.quiet && args.sampling.duration.is_none() && io::stderr().is_terminal() {
        note("recording; Ctrl-C ends it");
    }
    let recorded = spanwise_capture::record_processes(&pids, &options)?;
    tell(&recorded, &args.result);
    answer(&recorded, &args.result, format, Place::StandardOutput)?;
    Ok(ExitCode::SUCCESS)
}

/// The program's own status, as a shell tells it.
fn exit_code(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}

/// Stacks of large programs with some room left.
const STACK_BYTES: u32 = 16384;

/// Where the report goes: what a program prints is not mixed with it.
#[derive(Clone, Copy)]
enum Place {
    StandardOutput,
    StandardError,
}

fn options<'a>(
    sampling: &SamplingArgs,
    result: &'a ResultArgs,
) -> anyhow::Result<RecordOptions<'a>> {
    let has_tables = cfg!(target_arch = "x86_64");
    let stacks = match sampling.stacks {
        StacksArg::Dwarf if !has_tables => bail!("--stacks dwarf: only on x86-64"),
        StacksArg::Auto | StacksArg::Dwarf if has_tables => {
            Stacks::Dwarf { bytes: sampling.stack_bytes.unwrap_or(STACK_BYTES) }
        }
        _ if sampling.stack_bytes.is_some() => {
            bail!("--stack-bytes is about copies of stacks, and frame pointers need none")
        }
        StacksArg::Auto | StacksArg::Dwarf | StacksArg::Fp => Stacks::FramePointers,
    };
    Ok(RecordOptions {
        rate_hz: sampling.rate,
        stacks,
        duration: sampling.duration,
        folder: result.recording.as_deref(),
        build_id_of: &spanwise_read::build_id,
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
fn tell(recorded: &Recorded, args: &ResultArgs) {
    let count = |number: u64| spanwise_write::count_text(number.into());
    if recorded.lost > 0 {
        note(&format!(
            "{} records are lost: there was no room for them; a lower --rate or --stacks fp \
             needs less",
            count(recorded.lost)
        ));
    }
    if args.quiet {
        return;
    }
    note(&format!("{} samples in {}", count(recorded.samples), recorded.folder.display()));
    if recorded.samples == 0 {
        note("the program ran too briefly to be sampled, or waited all the time");
    }
}

/// The report, or the file that was asked for.
fn answer(
    recorded: &Recorded,
    args: &ResultArgs,
    format: Option<ConvertFormatArg>,
    place: Place,
) -> anyhow::Result<()> {
    if args.no_decode {
        return Ok(());
    }
    let trace = open(&recorded.folder, args.quiet)?;
    if let (Some(target), Some(format)) = (&args.output, format) {
        let name = recorded.folder.file_stem().unwrap_or_default().to_string_lossy();
        convert_trace::write_as(&trace, &name, (target, format), true)?;
        if !args.quiet && target != Path::new("-") {
            note(&format!("written to {}", target.display()));
        }
        return Ok(());
    }
    let file = recorded.folder.display().to_string();
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
