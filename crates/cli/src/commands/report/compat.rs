//! `spanwise report --compat`: the tables of other tools, in their words and numbers.

use clap::ValueEnum;
use spanwise_analyze::{
    CompatTable, Facts, HTA_TABLES, HtaWindow, TRACELENS_TABLES, hta_tables, tracelens_tables,
};
use spanwise_write::{Section, compat_section};

use crate::args::ReportArgs;

/// A tool whose numbers can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compat {
    /// HolisticTraceAnalysis: microseconds, without the last step
    Hta,
    /// TraceLens: milliseconds, from the first GPU work to the last
    Tracelens,
}

impl Compat {
    fn tables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Compat::Hta => HTA_TABLES,
            Compat::Tracelens => TRACELENS_TABLES,
        }
    }
}

/// Names that `--section` takes beside those of the report.
pub(crate) fn section_names() -> impl Iterator<Item = &'static str> {
    HTA_TABLES.iter().chain(TRACELENS_TABLES).map(|row| row.0)
}

/// The tables that were named, or all of the tool's.
pub(super) fn sections(
    compat: Compat,
    facts: &Facts,
    args: &ReportArgs,
) -> anyhow::Result<Vec<Section>> {
    let (named, top) = (&args.section, args.top.rows());
    let known = |name: &str| compat.tables().iter().any(|row| row.0 == name);
    if let Some(unknown) = named.iter().find(|name| !known(name) && *name != spanwise_report::ALL) {
        let names: Vec<&str> = compat.tables().iter().map(|row| row.0).collect();
        anyhow::bail!("--compat has no section {unknown}; there are {}", names.join(", "));
    }
    let is_wanted = |name: &&str| {
        named.is_empty() || named.iter().any(|named| named == name || named == spanwise_report::ALL)
    };
    let keys: Vec<&str> = compat.tables().iter().map(|row| row.0).filter(is_wanted).collect();
    let tables: Vec<CompatTable> = match compat {
        Compat::Hta => {
            let (annotation, instance) = (args.annotation.clone(), args.instance.unwrap_or(0));
            hta_tables(facts.trace(), &keys, &HtaWindow { annotation, instance })
        }
        Compat::Tracelens if args.annotation.is_some() || args.instance.is_some() => {
            anyhow::bail!("--annotation and --instance are for --compat hta");
        }
        Compat::Tracelens => tracelens_tables(facts, &keys),
    };
    Ok(tables.iter().map(|table| compat_section(table, top)).collect())
}
