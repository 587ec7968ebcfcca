//! `spanwise view --in`: open a trace in somebody else's viewer, without giving it away.
//!
//! The viewer is a page that the browser loads from its maker. The converted trace is a file
//! without a name that only this program has open, and that only pages of that maker may ask for.

use std::fs::File;
use std::io::{self, BufWriter};
use std::process::ExitCode;

use anyhow::{Context, bail};
use spanwise_analyze::ProfileOptions;
use spanwise_files::TemporaryFolder;
use spanwise_model::Profile;
use spanwise_report::TraceOrProfile;
use spanwise_serve::{FileShare, OtherPage};
use spanwise_write::{ProfileView, TraceFormat, write_firefox, write_speedscope, write_trace};

use crate::args::ViewArgs;
use crate::commands::profiles;
use crate::commands::viewing::view::{announce, hold_signals, name_of, serve_until_stopped};

pub(in crate::commands) fn run(args: &ViewArgs, page: OtherPage) -> anyhow::Result<ExitCode> {
    let [path] = args.traces.as_slice() else {
        bail!("--in shows one trace; spanwise convert makes one of several");
    };
    let opened = profiles::open(path, &args.read, args.quiet)?;
    let file = nameless_file().context("no room for the converted trace")?;
    let name = name_of(path);
    let mut out = BufWriter::new(&file);
    match (page, opened) {
        (OtherPage::Perfetto, TraceOrProfile::Profile(_)) => bail!(
            "{}: a profile, which has no timeline; try --in speedscope or --in firefox",
            path.display()
        ),
        (OtherPage::Perfetto, TraceOrProfile::Trace(trace)) => {
            write_trace(&trace, TraceFormat::Perfetto, false, &mut out)?;
        }
        (_, TraceOrProfile::Trace(trace)) => {
            let profile = spanwise_analyze::profile(&trace, &ProfileOptions::default());
            write_profile(&profile, &name, page, &mut out)?;
        }
        (_, TraceOrProfile::Profile(profile)) => write_profile(&profile, &name, page, &mut out)?,
    }
    out.into_inner().map_err(io::IntoInnerError::into_error)?;
    let share = FileShare::bind(page, file).with_context(|| match page.port() {
        0 => "cannot listen on the loopback address".to_owned(),
        port => format!("cannot listen on port {port}, the only one that this viewer may ask"),
    })?;
    let about = format!(
        "the viewer is loaded from {}; the trace stays here, and only that page in your browser \
         may read it, as long as this program runs; if the browser asks whether that page may \
         reach this machine, allow it; Ctrl-C ends it",
        page.origin()
    );
    let file = (!args.no_browser).then(|| share.redirect_file());
    let _signals = hold_signals()?;
    let _file = announce(&share.url(), (!args.quiet).then_some(&about), file)?;
    serve_until_stopped(move || share.run())?;
    Ok(ExitCode::SUCCESS)
}

fn write_profile(
    profile: &Profile,
    name: &str,
    page: OtherPage,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let view = ProfileView { name, value: profile.default_value };
    match page {
        OtherPage::Firefox => write_firefox(profile, &view, out),
        OtherPage::Speedscope | OtherPage::Perfetto => write_speedscope(profile, &view, out),
    }
}

/// A file that goes when this program does, and that nobody else can open.
fn nameless_file() -> io::Result<File> {
    // The folder goes at the end of this function, and the name with it.
    TemporaryFolder::create("spanwise-view-")?.folder().create_file("page")
}
