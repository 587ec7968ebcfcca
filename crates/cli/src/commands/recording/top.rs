//! `spanwise top`: what processes do now, again and again.
//!
//! Each update is a short recording like any other, in a folder that is taken away as soon as it
//! is read: nothing is kept, and what is shown is what `report` would say of it.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use anyhow::Context;
use spanwise_capture::{
    ClockOf, Ended, HeldSignals, PythonOptions, RecordOptions, RecordPolicy, Recorded, Snapshot,
    Stacks,
};
use spanwise_files::TemporaryFolder;
use spanwise_model::Trace;
use spanwise_read::{IndexUse, OpenOptions};
use spanwise_serve::{Server, Session, TraceView};
use spanwise_write::{Document, Format};

use crate::args::{LiveArgs, PythonArg, all_pids};
use crate::commands::report;
use crate::failure::note;
use crate::output::stdout;

/// What is shown, of all that a report could say.
const SECTIONS: [&str; 2] = ["offcpu", "cpu"];

/// How folders are called that hold the recordings.
const FOLDER_BEGINNING: &str = "spanwise-top-";

pub(in crate::commands) fn run(args: &LiveArgs) -> anyhow::Result<ExitCode> {
    if let Some(path) = &args.session {
        return crate::commands::recording::top_session::run(path, args);
    }
    let _held = HeldSignals::hold().context("Ctrl-C cannot be waited for")?;
    // Of those that were killed.
    TemporaryFolder::remove_abandoned(FOLDER_BEGINNING);
    let mut pids = all_pids(&args.pid);
    pids.sort_unstable();
    pids.dedup();
    if args.view {
        return view(&pids, args);
    }
    let is_terminal = io::stdout().is_terminal();
    let mut updates_left = args.updates_max(is_terminal);
    loop {
        let (recorded, trace) = record(&pids, args)?;
        let document = report::named(trace, "", args.top.rows(), &SECTIONS.map(str::to_owned));
        draw(&pids, &recorded, args, document, is_terminal && updates_left != Some(1))?;
        recorded.troubles.iter().for_each(|trouble| note(trouble));
        updates_left = updates_left.map(|updates| updates.saturating_sub(1));
        match recorded.ended {
            Ended::Duration if updates_left != Some(0) => {}
            Ended::Exited => {
                note("the process has ended");
                return Ok(ExitCode::SUCCESS);
            }
            _ => return Ok(ExitCode::SUCCESS),
        }
    }
}

/// Shows each update in the browser, in the place of the one before; the last one stays.
fn view(pids: &[i32], args: &LiveArgs) -> anyhow::Result<ExitCode> {
    let (mut recorded, trace) = record(pids, args)?;
    let name = format!("process {}", names(pids));
    let session = Arc::new(Session::new(vec![TraceView::new(name, trace)]));
    session.set_live(0, recorded.ended == Ended::Duration);
    let server = Server::bind(0).context("cannot listen on the loopback address")?;
    let about = format!(
        "the page shows the last {:?}, again and again, as long as this program runs; Ctrl-C ends \
         it",
        args.interval
    );
    let file = Some(server.redirect_file());
    let _file = crate::commands::viewing::view::announce(&server.url(), Some(&about), file)?;
    let served = Arc::clone(&session);
    thread::Builder::new()
        .spawn(move || server.run(&served))
        .context("the page cannot be served")?;
    recorded.troubles.iter().for_each(|trouble| note(trouble));
    while recorded.ended == Ended::Duration {
        let trace;
        (recorded, trace) = match record(pids, args) {
            Ok(update) => update,
            // It may have ended between two updates: what was seen of it stays.
            Err(error) => {
                note(&format!("{error:#}"));
                session.set_live(0, false);
                return stay();
            }
        };
        recorded.troubles.iter().for_each(|trouble| note(trouble));
        session.renew(0, trace, recorded.ended == Ended::Duration);
    }
    match recorded.ended {
        Ended::Exited => stay(),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Goes on serving, on the other thread, until somebody asks to end.
fn stay() -> anyhow::Result<ExitCode> {
    note("the process is no longer watched; the last look at it is shown until Ctrl-C");
    spanwise_capture::work_until_stopped(|| {}).context("Ctrl-C cannot be waited for")?;
    Ok(ExitCode::SUCCESS)
}

fn names(pids: &[i32]) -> String {
    pids.iter().map(i32::to_string).collect::<Vec<_>>().join(", ")
}

/// One recording, as it is read.
fn record(pids: &[i32], args: &LiveArgs) -> anyhow::Result<(Recorded, Trace)> {
    let folder = TemporaryFolder::create(FOLDER_BEGINNING).context("no folder for a recording")?;
    let recording = folder.path().join("look");
    let python = PythonOptions {
        rate_hz: args.rate.min(spanwise_capture::PYTHON_RATE_MAX_HZ),
        is_wanted: args.python == PythonArg::On,
    };
    let options = RecordOptions {
        rate_hz: args.rate,
        clock: ClockOf::Auto,
        stacks: match cfg!(target_arch = "x86_64") {
            true => Stacks::Dwarf { bytes: crate::commands::recording::run::STACK_BYTES },
            false => Stacks::FramePointers,
        },
        switches: RecordPolicy::Auto,
        wait_stacks: RecordPolicy::Auto,
        wait_threshold: spanwise_capture::WAIT_THRESHOLD,
        duration: Some(args.interval),
        calls: None,
        step: None,
        children: false,
        torch: false,
        pt: None,
        python: (args.python != PythonArg::Off).then_some(python),
        flight: None,
        keeps_arguments: false,
        folder: Some(&recording),
    };
    let recorded = spanwise_capture::record_processes(pids, &options)?;
    let options =
        OpenOptions { index: IndexUse::Ignore, has_python_lines: true, ..OpenOptions::default() };
    let trace = spanwise_read::open(&recording, &options)?;
    Ok((recorded, trace))
}

fn draw(
    pids: &[i32],
    recorded: &Recorded,
    args: &LiveArgs,
    document: Document,
    is_redrawn: bool,
) -> anyhow::Result<()> {
    let mut out = stdout();
    if args.output.format == Format::Text {
        if is_redrawn {
            clear(&mut out)?;
        }
        let samples: u64 = recorded.snapshots.iter().map(|Snapshot { samples, .. }| samples).sum();
        let samples = spanwise_write::count_text(samples.into());
        let pids = names(pids);
        writeln!(out, "process {pids}: {samples} samples in {:?}\n", args.interval)?;
    }
    document.write(args.output.format, args.output.style(), &mut out)?;
    Ok(out.flush()?)
}

/// To the upper left, and everything from there on is gone.
pub(in crate::commands) fn clear(out: &mut dyn Write) -> io::Result<()> {
    write!(out, "\x1b[H\x1b[J")
}
