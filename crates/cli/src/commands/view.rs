//! `spanwise view`: look at traces in the browser.

use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};
use spanwise_answer::{LiveTrace, Opened, files_of};
use spanwise_model::Trace;
use spanwise_serve::{Server, Session, Viewed};

use super::profiles;
use super::view_in;
use crate::args::ViewArgs;
use crate::failure;
use crate::output::stdout;

pub(super) fn run(args: &ViewArgs) -> anyhow::Result<ExitCode> {
    if let Some(viewer) = args.r#in {
        return view_in::run(args, viewer);
    }
    let session = session_of(args)?;
    let server = Server::bind(args.port)
        .with_context(|| format!("cannot listen on port {}; try another --port", args.port))?;
    let about = "the page is there as long as this program runs; Ctrl-C ends it";
    announce(&server.url(), (!args.quiet).then_some(about), !args.no_browser)?;
    server.run(&session);
    Ok(ExitCode::SUCCESS)
}

/// All that was named; what is still being written is followed.
fn session_of(args: &ViewArgs) -> anyhow::Result<Session> {
    let mut traces = Vec::new();
    let mut growing = Vec::new();
    for (at, path) in files_of(&args.traces)?.iter().enumerate() {
        if let Some(mut live) = LiveTrace::open(path)
            && let Some(trace) = live.look()?.trace
        {
            traces.push(Viewed::new(name_of(path), trace));
            growing.push((at, live));
            continue;
        }
        let trace = match profiles::open(path, &args.read, args.quiet)? {
            Opened::Trace(trace) => trace,
            Opened::Profile(_) => bail!(
                "{}: a profile, which has no timeline; try: spanwise flame {0} -o flame.html",
                path.display()
            ),
        };
        traces.push(Viewed::new(name_of(path), *trace));
    }
    Ok(growing
        .into_iter()
        .fold(Session::new(traces), |session, (at, live)| session.follow(at, live)))
}

/// Shows one trace, known by that name, until somebody asks to end; then whoever recorded it has
/// the last word.
pub(super) fn show(name: String, trace: Trace, quiet: bool) -> anyhow::Result<()> {
    let server = Server::bind(0).context("cannot listen on the loopback address")?;
    let about = "the recording can be looked at as long as this program runs; Ctrl-C ends it";
    announce(&server.url(), (!quiet).then_some(about), true)?;
    let session = Session::new(vec![Viewed::new(name, trace)]);
    spanwise_capture::work_until_stopped(move || server.run(&session))
        .context("Ctrl-C cannot be waited for")?;
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

pub(super) fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
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
