//! `spanwise view`: shows traces in the browser.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use anyhow::{Context, bail};
use spanwise_capture::HeldSignals;
use spanwise_model::Trace;
use spanwise_report::{LiveTrace, TraceOrProfile, files_of};
use spanwise_serve::{RedirectFile, Server, Session, TraceView};

use super::other_viewers;
use crate::args::ViewArgs;
use crate::commands::profiles;
use crate::failure;
use crate::output::stdout;

pub(in crate::commands) fn run(args: &ViewArgs) -> anyhow::Result<ExitCode> {
    if let Some(viewer) = args.r#in {
        return other_viewers::run(args, viewer);
    }
    let session = session_of(args)?;
    let server = Server::bind(args.port)
        .with_context(|| format!("cannot listen on port {}; try another --port", args.port))?;
    let about = "the page is there as long as this program runs; Ctrl-C ends it";
    let address = server.url();
    let file = (!args.no_browser).then(|| server.redirect_file());
    let _signals = hold_signals()?;
    let _file = announce(&address, (!args.quiet).then_some(about), file)?;
    serve_until_stopped(move || server.run(&session))?;
    Ok(ExitCode::SUCCESS)
}

/// Whoever sees the address may end the program at once: hold this before it is printed, until
/// the page has been served.
pub(in crate::commands) fn hold_signals() -> anyhow::Result<HeldSignals> {
    HeldSignals::hold().context("Ctrl-C cannot be waited for")
}

/// Serves until Ctrl-C, and then lets the caller clear away what it has made for it.
pub(in crate::commands) fn serve_until_stopped(
    serve: impl FnOnce() + Send + 'static,
) -> anyhow::Result<()> {
    spanwise_capture::work_until_stopped(serve).context("Ctrl-C cannot be waited for")
}

/// All that was named; what is still being written is followed.
fn session_of(args: &ViewArgs) -> anyhow::Result<Session> {
    let mut traces = Vec::new();
    let mut growing = Vec::new();
    for (at, path) in files_of(&args.traces)?.iter().enumerate() {
        if let Some(mut live) = LiveTrace::open(path)
            && let Some(trace) = live.update()?.trace
        {
            traces.push(TraceView::new(name_of(path), trace));
            growing.push((at, live));
            continue;
        }
        let trace = match profiles::open(path, &args.read, args.quiet)? {
            TraceOrProfile::Trace(trace) => trace,
            TraceOrProfile::Profile(_) => bail!(
                "{}: a profile, which has no timeline; try: spanwise convert {0} -o flame.svg",
                path.display()
            ),
        };
        traces.push(TraceView::new(name_of(path), *trace));
    }
    Ok(growing
        .into_iter()
        .fold(Session::new(traces), |session, (at, live)| session.follow(at, live)))
}

/// Shows one trace, known by that name, until somebody asks to end; then whoever recorded it has
/// the last word.
pub(in crate::commands) fn show(name: String, trace: Trace, quiet: bool) -> anyhow::Result<()> {
    let server = Server::bind(0).context("cannot listen on the loopback address")?;
    let about = "the recording can be looked at as long as this program runs; Ctrl-C ends it";
    let address = server.url();
    let _signals = hold_signals()?;
    let _file = announce(&address, (!quiet).then_some(about), Some(server.redirect_file()))?;
    let session = Session::new(vec![TraceView::new(name, trace)]);
    serve_until_stopped(move || server.run(&session))
}

/// Prints an address, says what to know about it, and opens it by a file that leads there. Keep the
/// file for as long as the address holds.
pub(in crate::commands) fn announce(
    url: &str,
    about: Option<&str>,
    file: Option<io::Result<Arc<RedirectFile>>>,
) -> anyhow::Result<Option<Arc<RedirectFile>>> {
    let mut out = stdout();
    writeln!(out, "{url}")?;
    out.flush()?;
    drop(out);
    if let Some(about) = about {
        failure::note(about);
    }
    let Some(file) = file.filter(|_| has_desktop()) else { return Ok(None) };
    match file {
        Ok(file) => {
            open_browser(file.path());
            Ok(Some(file))
        }
        Err(error) => {
            failure::note(&format!("no browser is opened, as no file can be made for it: {error}"));
            Ok(None)
        }
    }
}

pub(in crate::commands) fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

fn has_desktop() -> bool {
    let is_set = |key: &&str| std::env::var_os(key).is_some();
    cfg!(target_os = "macos") || ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(is_set)
}

/// Asks the desktop. It is given a file and not the address: everybody can read the arguments of a
/// process. The address is printed in any case.
fn open_browser(file: &Path) {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let started = Command::new(opener)
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if started.is_err() {
        failure::note("no browser could be started; open the address above in one");
    }
}
