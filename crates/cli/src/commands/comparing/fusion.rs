//! `spanwise fusion`: which kernels of one trace do the work of which of another.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use spanwise_analyze::{ClassRules, Facts};
use spanwise_model::both;

use crate::args::FusionArgs;
use crate::output::stdout;
use crate::progress::Progress;

pub(in crate::commands) fn run(args: &FusionArgs) -> anyhow::Result<ExitCode> {
    let rules = rules(args.classes.as_deref())?;
    // Both at once; each is about as long as the other, so that one shows how far it is.
    let read = |path: &Path, quiet: bool| args.read.open(path, &Progress::new(quiet));
    let (base, other) = both(|| read(&args.base, true), || read(&args.other, args.quiet));
    let (base, other) = (base?, other?);
    let (base, other) = (Facts::new(&base), Facts::new(&other));
    let names = [&args.base, &args.other].map(|path| path.display().to_string());
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
    let mut out = stdout();
    document.write(args.output.format(), args.output.style(), &mut out)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn rules(own: Option<&Path>) -> anyhow::Result<ClassRules> {
    let Some(path) = own else { return Ok(ClassRules::standard()) };
    let text = crate::input::text_of(path).with_context(|| path.display().to_string())?;
    ClassRules::with_own(&text).with_context(|| path.display().to_string())
}
