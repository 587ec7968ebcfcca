//! `spanwise info --index`: write the index beside each trace.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use spanwise_read::OpenOptions;
use spanwise_write::{Body, Column, Document, Section, Table, Unit};

use crate::args::InfoArgs;
use crate::failure::{self, note};
use crate::output::stdout;
use crate::progress::Progress;

pub(super) fn run(args: &InfoArgs, traces: &[PathBuf]) -> anyhow::Result<ExitCode> {
    let mut table = Table::new([
        Column::hidden("trace", Unit::Text),
        Column::new("size", "size", Unit::Bytes),
        Column::new("trace_size", "trace", Unit::Bytes),
        Column::new("taken", "time taken", Unit::Nanos),
        Column::new("index", "index", Unit::Text),
    ]);
    let mut code = ExitCode::SUCCESS;
    for trace in traces {
        match write_index(trace, args) {
            Ok(written) => table.push([
                trace.display().to_string().into(),
                written.bytes.into(),
                written.trace_bytes.into(),
                written.taken_ns.into(),
                written.path.into(),
            ]),
            // One bad file is no reason to leave out the others.
            Err(error) => {
                failure::report(&error);
                code = ExitCode::from(failure::ERROR);
            }
        }
    }
    if !args.quiet && !table.is_empty() {
        let body = Body::Rows(table);
        let title = "Index".to_owned();
        let section = Section { key: "indexes", title, body, when_empty: None, left_out: 0 };
        let mut out = stdout();
        let (format, style) = (args.output.format, args.output.style());
        match format {
            spanwise_write::Format::Text => {
                let document = Document { sections: vec![section], hints: Vec::new() };
                document.write(format, style, &mut out)?;
            }
            _ => section.write(format, style, &mut out)?,
        }
        out.flush()?;
    }
    Ok(code)
}

struct Written {
    path: String,
    bytes: u64,
    trace_bytes: u64,
    taken_ns: i128,
}

fn write_index(trace: &Path, args: &InfoArgs) -> anyhow::Result<Written> {
    let started = Instant::now();
    let progress = Progress::new(args.quiet);
    let update = |done, total| progress.update(done, total);
    let options = OpenOptions {
        threads: args.read.begin(),
        progress: Some(&update),
        notes: Some(&note),
        ..OpenOptions::default()
    };
    let path = spanwise_read::write_index(trace, &options)?;
    let size = |path: &Path| size(path).with_context(|| path.display().to_string());
    Ok(Written {
        bytes: size(&path)?,
        trace_bytes: size(trace)?,
        taken_ns: i128::try_from(started.elapsed().as_nanos()).unwrap_or(i128::MAX),
        path: path.display().to_string(),
    })
}

/// Bytes of a file, or of the files in a folder.
fn size(path: &Path) -> io::Result<u64> {
    if !path.is_dir() {
        return Ok(fs::metadata(path)?.len());
    }
    let mut bytes = 0;
    for entry in fs::read_dir(path)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}
