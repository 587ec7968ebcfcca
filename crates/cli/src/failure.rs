//! Errors as people see them, and the exit status they lead to.

use std::io;
use std::process::ExitCode;

use spanwise_capture::CaptureError;
use spanwise_read::{ReadError, ReadErrorKind};
use spanwise_report::ReportError;

/// The answer is "no".
pub(crate) const NO: u8 = 1;
pub(crate) const ERROR: u8 = 2;

/// Shows help, or what is wrong with the command line.
#[expect(clippy::print_stderr, reason = "one of two places that report errors")]
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    match (error.use_stderr(), text.starts_with("error: ")) {
        (true, true) => eprint!("spanwise: {text}"),
        // Standard output may be closed, and that is nobody's fault.
        _ => drop(error.print()),
    }
    ExitCode::from(if error.use_stderr() { ERROR } else { 0 })
}

/// Reports the error, unless nobody listens any more: a closed pipe is fine.
pub(crate) fn exit_code(error: &anyhow::Error) -> ExitCode {
    let closed = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe)
    };
    if error.chain().any(closed) {
        return ExitCode::SUCCESS;
    }
    report(error);
    ExitCode::from(ERROR)
}

/// Writes "spanwise: error: …" with what to do next.
#[expect(clippy::print_stderr, reason = "one of two places that report errors")]
pub(crate) fn report(error: &anyhow::Error) {
    let text = format!("{error:#}");
    eprintln!("spanwise: error: {}", spanwise_write::printable(&text));
    let read = match error.downcast_ref::<ReportError>() {
        Some(ReportError::Read(read)) => Some(read),
        _ => error.downcast_ref::<ReadError>(),
    };
    if let Some(hint) = read.and_then(hint) {
        eprintln!("  hint: {hint}");
    }
    if let Some(line) = error.downcast_ref::<CaptureError>().and_then(doctor) {
        eprintln!("  doctor: {}", spanwise_write::printable(&line));
    }
}

/// Writes "spanwise: note: …": something that is no error, but good to know.
#[expect(clippy::print_stderr, reason = "standard output may be the file that was asked for")]
pub(crate) fn note(text: &str) {
    eprintln!("spanwise: note: {}", spanwise_write::printable(text));
}

/// What the doctor says about what is missing.
fn doctor(error: &CaptureError) -> Option<String> {
    let finding = spanwise_capture::examine_one(error.ability?);
    let cure = finding.cure.map(|cure| format!("; try: {cure}")).unwrap_or_default();
    Some(format!("{}: {}{cure}", finding.what, finding.detail))
}

fn hint(error: &ReadError) -> Option<&'static str> {
    match &error.kind {
        ReadErrorKind::Io(io) => match io.kind() {
            io::ErrorKind::NotFound => Some("check the path"),
            io::ErrorKind::PermissionDenied => Some("check who may read the file"),
            io::ErrorKind::IsADirectory => Some("name a file inside the folder"),
            _ => None,
        },
        ReadErrorKind::NotATrace { .. } => Some(
            "spanwise reads traces of PyTorch, Chrome, Perfetto and Fuchsia, recordings of perf \
             and their text, plain or compressed with gzip, zstd or xz",
        ),
        ReadErrorKind::TooLarge { .. } => {
            Some("if you trust the file, raise the limit, for example with --max-memory 32G")
        }
        ReadErrorKind::Index(_) => {
            Some("commands that read a trace work without an index, if slower: use --no-index")
        }
        _ => None,
    }
}
