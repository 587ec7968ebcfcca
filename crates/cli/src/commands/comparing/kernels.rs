//! `spanwise compare --kernels`: which kernels of one trace do the work of which of another.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use spanwise_analyze::{ClassRules, Facts};
use spanwise_model::both;

use super::compare::{Output, shown_name, target, title, write_tables};
use crate::args::{CompareArgs, PerArg};
use crate::commands::profiles::page;
use crate::progress::Progress;

pub(super) fn run(args: &CompareArgs, output: Output) -> anyhow::Result<ExitCode> {
    let [base_path, other_path] = args.traces.as_slice() else {
        bail!("--kernels compares two traces");
    };
    check(args, output)?;
    let rules = rules(args.classes.as_deref())?;
    // Both at once; each is about as long as the other, so that one shows how far it is.
    let read = |path: &Path, quiet: bool| args.read.open(path, &Progress::new(quiet));
    let (base, other) = both(|| read(base_path, true), || read(other_path, args.quiet));
    let [base, other] = [base?, other?].map(|trace| Facts::new(&trace.into()));
    let names = [base_path, other_path].map(|path| shown_name(args, output, path));
    let (files, top) = (names.each_ref().map(String::as_str), args.top.rows());
    let mut document = if args.layers {
        let view = spanwise_analyze::layer_view(&base, &other, &rules);
        spanwise_write::fusion_layers_document(files, &view, top)
    } else {
        let fusion = spanwise_analyze::fusion(&base, &other, &rules);
        spanwise_write::fusion_document(files, &fusion, top)
    };
    if args.quiet {
        document.hints.clear();
    }
    match output {
        Output::Tables(format) => write_tables(args, &document, format)?,
        _ => {
            let title = title(args, base_path, other_path);
            let traces = [Some(&base), Some(&other)];
            page::write_traces(&title, &document, traces, &args.page, target(args))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What is about functions alone.
fn check(args: &CompareArgs, output: Output) -> anyhow::Result<()> {
    if output.is_of_functions() {
        bail!("--kernels gives tables: the ending must be .html, .json, .csv or .txt");
    }
    let per = (args.per != PerArg::Auto).then_some("--per");
    match args.profile.first_given().or(per) {
        Some(option) => bail!("{option} is for functions, not for --kernels"),
        None => Ok(()),
    }
}

fn rules(own: Option<&Path>) -> anyhow::Result<ClassRules> {
    let Some(path) = own else { return Ok(ClassRules::standard()) };
    let text = crate::input::text_of(path).with_context(|| path.display().to_string())?;
    ClassRules::with_own(&text).with_context(|| path.display().to_string())
}
