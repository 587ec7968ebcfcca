//! `spanwise doctor`: what can be recorded here.

use std::io::Write;
use std::process::ExitCode;

use spanwise_capture::{Ability, Finding};
use spanwise_write::{Body, Column, Document, Format, Section, Table, Unit};

use crate::args::DoctorArgs;
use crate::failure;
use crate::output::stdout;

pub(in crate::commands) fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let findings = spanwise_capture::examine();
    let mut table = Table::new([
        Column::new("works", "", Unit::Text),
        Column::new("what", "what", Unit::Text),
        Column::new("detail", "found", Unit::Text),
        Column::hidden("command", Unit::Text),
    ]);
    for finding in &findings {
        let Finding { what, detail, cure, .. } = finding;
        let works = if finding.is_there { "yes" } else { "no" };
        let cure = cure.clone().unwrap_or_default();
        table.push([works.into(), (*what).into(), detail.as_str().into(), cure.into()]);
    }
    let title = "What can be recorded here".to_owned();
    let body = Body::Rows(table);
    let section = Section { key: "abilities", title, body, when_empty: None, left_out: 0 };
    let mut out = stdout();
    let (format, style) = (args.output.format, args.output.style());
    match format {
        Format::Text => {
            let hint =
                |finding: &Finding| Some(format!("{}: {}", finding.what, finding.cure.as_ref()?));
            let mut hints: Vec<String> = findings.iter().filter_map(hint).collect();
            if !hints.is_empty() {
                hints.insert(0, "To have the rest:".to_owned());
            }
            Document { sections: vec![section], hints }.write(format, style, &mut out)?;
        }
        _ => section.write(format, style, &mut out)?,
    }
    out.flush()?;
    let can_sample =
        findings.iter().any(|finding| finding.ability == Ability::Sampling && finding.is_there);
    Ok(if can_sample { ExitCode::SUCCESS } else { ExitCode::from(failure::NO) })
}
