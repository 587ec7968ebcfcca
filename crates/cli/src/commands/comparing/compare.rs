//! `spanwise compare`: what two sides are, decides how they are compared.
//!
//! Traces get verdicts, profiles are compared function by function; `--functions` and `--kernels`
//! ask for another comparison of traces. All write the same kinds of files.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use spanwise_model::both;
use spanwise_report::{ConvertFormat, TraceOrProfile};
use spanwise_write::{Document, Format, Section, Style};

use super::{functions, kernels, verdicts};
use crate::args::{CompareArgs, FileFormat, ending};
use crate::commands::profiles::{self, Target, write_file};
use crate::output::stdout;

pub(in crate::commands) fn run(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    let output = Output::of(args)?;
    if let Some(option) = args.page.first_given().filter(|_| output != Output::Page) {
        bail!("{option} is for pages: -o FILE.html");
    }
    if args.icicle && output != Output::FlameGraph {
        bail!("--icicle is for flame graphs: -o FILE.svg");
    }
    if args.kernels {
        return kernels::run(args, output);
    }
    let is_of_functions = args.functions || output.is_of_functions();
    let pair = match (args.traces.as_slice(), args.others.as_slice()) {
        ([base, other], []) if args.baseline.is_none() && args.save_baseline.is_none() => {
            Some([base, other])
        }
        _ => None,
    };
    let Some(paths) = pair else {
        if is_of_functions {
            bail!("functions are compared between two traces or profiles");
        }
        return verdicts::run(args, output, None);
    };
    if is_of_functions {
        functions::check(args)?;
    } else {
        verdicts::check(args)?;
    }
    match open_both(args, paths)? {
        [TraceOrProfile::Trace(base), TraceOrProfile::Trace(other)] if !is_of_functions => {
            verdicts::run(args, output, Some([*base, *other]))
        }
        opened => functions::run(args, output, opened),
    }
}

/// Both at once; each is about as long as the other, so that one shows how far it is.
fn open_both(args: &CompareArgs, paths: [&PathBuf; 2]) -> anyhow::Result<[TraceOrProfile; 2]> {
    let open = |path: &Path, is_quiet: bool| profiles::open(path, &args.read, is_quiet);
    let (base, other) = both(|| open(paths[0], true), || open(paths[1], args.quiet));
    Ok([base?, other?])
}

/// What a comparison is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    Tables(Format),
    Page,
    FlameGraph,
    /// The difference, for other tools.
    Profile(ConvertFormat),
}

impl Output {
    fn of(args: &CompareArgs) -> anyhow::Result<Self> {
        let Some(path) = &args.output else { return Ok(Output::Tables(args.show.format)) };
        Ok(match &*ending(path) {
            "json" => Output::Tables(Format::Json),
            "csv" => Output::Tables(Format::Csv),
            "txt" => Output::Tables(Format::Text),
            _ => match FileFormat::of_path(path) {
                Some(FileFormat::Page) => Output::Page,
                Some(FileFormat::FlameGraph) => Output::FlameGraph,
                Some(FileFormat::Of(format @ (ConvertFormat::Pprof | ConvertFormat::Folded))) => {
                    Output::Profile(format)
                }
                _ => bail!(
                    "{}: the ending must be .html, .json, .csv or .txt; of functions also .svg, \
                     .pb.gz, .pprof, .pb, .folded or .collapsed",
                    path.display()
                ),
            },
        })
    }

    /// True for what only functions can be written as.
    pub(super) fn is_of_functions(self) -> bool {
        matches!(self, Output::FlameGraph | Output::Profile(_))
    }
}

/// The file to write.
pub(super) fn target(args: &CompareArgs) -> Target<'_> {
    let path = args.output.as_deref().unwrap_or(Path::new("-"));
    Target { path, is_quiet: args.quiet }
}

/// What a table calls a side: a page that is sent to others has no paths in it.
pub(super) fn shown_name(args: &CompareArgs, output: Output, path: &Path) -> String {
    match output {
        Output::Page => args.page.shown_name(path),
        _ => path.display().to_string(),
    }
}

/// The title of a page about two files.
pub(super) fn title(args: &CompareArgs, base: &Path, other: &Path) -> String {
    let [base, other] = [base, other].map(|path| args.page.shown_name(path));
    format!("{other} compared with {base}")
}

/// Writes a document, to a file or to standard output.
pub(super) fn write_tables(
    args: &CompareArgs,
    document: &Document,
    format: Format,
) -> anyhow::Result<()> {
    let rows = document.sections.iter().map(Section::row_count).sum();
    write_rows(args, rows, |style, out| document.write(format, style, out))
}

/// Writes what has rows.
pub(super) fn write_rows(
    args: &CompareArgs,
    rows: usize,
    write: impl FnOnce(Style, &mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    let style = args.show.style();
    if args.output.is_none() {
        let mut out = stdout();
        write(style, &mut out)?;
        return Ok(out.flush()?);
    }
    let style = Style { color: false, ..style };
    write_file(target(args), rows, "rows", |out: &mut dyn Write| write(style, out))
}
