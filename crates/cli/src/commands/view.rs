//! `spanwise view`: look at traces in the browser.

use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};
use spanwise_answer::{Opened, files_of};
use spanwise_model::Trace;
use spanwise_serve::{Server, Session, Shell, Viewed};
use spanwise_write::{Document, Top};

use super::profiles;
use super::{report, view_in};
use crate::args::ViewArgs;
use crate::failure;
use crate::output::stdout;

/// Rows of each table of the report.
const REPORT_ROWS: usize = 50;

pub(super) fn run(args: &ViewArgs) -> anyhow::Result<ExitCode> {
    if let Some(viewer) = args.r#in {
        return view_in::run(args, viewer);
    }
    let mut traces = Vec::new();
    for path in files_of(&args.traces)? {
        let trace = match profiles::open(&path, &args.read, args.quiet)? {
            Opened::Trace(trace) => trace,
            Opened::Profile(_) => bail!(
                "{}: a profile, which has no timeline; try: spanwise flame {0} -o flame.html",
                path.display()
            ),
        };
        traces.push(Viewed::new(name_of(&path), *trace));
    }
    let server = Server::bind(args.port)
        .with_context(|| format!("cannot listen on port {}; try another --port", args.port))?;
    let about = "the page is there as long as this program runs; Ctrl-C ends it";
    announce(&server.url(), (!args.quiet).then_some(about), !args.no_browser)?;
    serve(&server, traces);
    Ok(ExitCode::SUCCESS)
}

/// Shows one trace, known by that name, until the program is ended.
pub(super) fn show(name: String, trace: Trace, quiet: bool) -> anyhow::Result<()> {
    let server = Server::bind(0).context("cannot listen on the loopback address")?;
    let about = "the recording can be looked at as long as this program runs; Ctrl-C ends it";
    announce(&server.url(), (!quiet).then_some(about), true)?;
    serve(&server, vec![Viewed::new(name, trace)]);
    Ok(())
}

/// Prints an address, says what to know about it, and opens it.
pub(super) fn announce(url: &str, about: Option<&str>, opens: bool) -> anyhow::Result<()> {
    let mut out = stdout();
    writeln!(out, "{url}")?;
    out.flush()?;
    drop(out);
    if let Some(about) = about {
        failure::note(about);
    }
    if opens {
        open_browser(url);
    }
    Ok(())
}

fn serve(server: &Server, traces: Vec<Viewed>) {
    let shell = Shell { report: report_on, compare: super::compare::for_view };
    server.run(&Session::new(traces, shell));
}

pub(super) fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

fn report_on(trace: &Trace, file: &str) -> Document {
    report::named(trace, file, Top::First(REPORT_ROWS), &[])
}

/// Asks the desktop, where there is one. The address is printed in any case.
fn open_browser(url: &str) {
    let has_desktop =
        ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|key| std::env::var_os(key).is_some());
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    if !has_desktop && !cfg!(target_os = "macos") {
        return;
    }
    let started = Command::new(opener)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if started.is_err() {
        failure::note("no browser could be started; open the address above in one");
    }
}
