//! `spanwise convert`: traces become a profile for another tool.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use spanwise_analyze::{Backward, ProfileOptions, StackMode};
use spanwise_model::{Profile, ProfileBuilder};
use spanwise_read::{ReadError, ReadErrorKind};
use spanwise_write::{PprofOptions, ProfileView};

use crate::args::{BackwardArg, ConvertArgs, ProfileFormatArg, StackArg};
use crate::output::stdout;
use crate::progress::Progress;

pub(super) fn run(args: &ConvertArgs) -> anyhow::Result<ExitCode> {
    let format = match args.to.or_else(|| format_of(&args.output)) {
        Some(format) => format,
        None => bail!(
            "{}: the ending names no format; say --to pprof, folded, speedscope, firefox or csv",
            args.output.display()
        ),
    };
    let profile = read_all(args)?;
    let value = value_index(&profile, args.value.as_deref())?;
    let name = program_name(&args.traces);
    let view = ProfileView { name: &name, value };
    let write = |out: &mut dyn Write| match format {
        ProfileFormatArg::Pprof => {
            let is_compressed = args.output.extension().is_none_or(|ending| ending != "pb");
            let options = PprofOptions { program: &name, is_compressed };
            spanwise_write::write_pprof(&profile, &options, out)
        }
        ProfileFormatArg::Folded => spanwise_write::write_folded(&profile, value, out),
        ProfileFormatArg::Speedscope => spanwise_write::write_speedscope(&profile, &view, out),
        ProfileFormatArg::Firefox => spanwise_write::write_firefox(&profile, &view, out),
        ProfileFormatArg::Csv => spanwise_write::write_profile_csv(&profile, out),
    };
    if args.output == Path::new("-") {
        let mut out = stdout();
        write(&mut out)?;
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    let bytes = write_file(&args.output, write)
        .with_context(|| format!("{}: cannot be written", args.output.display()))?;
    if !args.quiet {
        let count = |number: usize| spanwise_write::count_text(number as i128);
        let (samples, bytes) = (count(profile.samples.len()), count(bytes));
        let path = args.output.display();
        writeln!(stdout(), "{path}: {samples} samples, {bytes} bytes")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What the ending of a file's name says about its format.
fn format_of(output: &Path) -> Option<ProfileFormatArg> {
    let name = output.file_name()?.to_string_lossy().to_lowercase();
    let endings = [
        (".pb.gz", ProfileFormatArg::Pprof),
        (".pb", ProfileFormatArg::Pprof),
        (".pprof", ProfileFormatArg::Pprof),
        (".folded", ProfileFormatArg::Folded),
        (".collapsed", ProfileFormatArg::Folded),
        (".speedscope.json", ProfileFormatArg::Speedscope),
        (".firefox.json", ProfileFormatArg::Firefox),
        (".csv", ProfileFormatArg::Csv),
    ];
    endings.iter().find(|(ending, _)| name.ends_with(ending)).map(|&(_, format)| format)
}

/// Reads all inputs, one in memory at a time, into one profile.
fn read_all(args: &ConvertArgs) -> anyhow::Result<Profile> {
    let mut profiles = args.traces.iter().map(|path| read_one(args, path));
    let first = profiles.next().context("no input")??;
    if args.traces.len() == 1 {
        return Ok(first);
    }
    let value_types: Vec<(&str, &str)> =
        first.value_types.iter().map(|value| (&*value.name, &*value.unit)).collect();
    let mut builder = ProfileBuilder::new(&value_types, first.default_value);
    builder.time_ns = first.time_ns;
    builder.duration_ns = first.duration_ns;
    builder.comments.clone_from(&first.comments);
    builder.add_profile(&first);
    for (profile, path) in profiles.zip(&args.traces[1..]) {
        let profile = profile?;
        if profile.value_types != first.value_types {
            bail!(
                "{}: its columns differ from those of {}",
                path.display(),
                args.traces[0].display()
            );
        }
        builder.time_ns = builder.time_ns.min(profile.time_ns);
        builder.duration_ns = builder.duration_ns.max(profile.duration_ns);
        for comment in &profile.comments {
            if !builder.comments.contains(comment) {
                builder.comments.push(comment.clone());
            }
        }
        builder.add_profile(&profile);
    }
    Ok(builder.finish())
}

fn read_one(args: &ConvertArgs, path: &Path) -> anyhow::Result<Profile> {
    let trace = match args.read.open(path, &Progress::new(args.quiet)) {
        Ok(trace) => trace,
        // What is no trace may be a profile; if it is neither, that it is no trace
        // says more.
        Err(error @ ReadError { kind: ReadErrorKind::NotATrace { .. }, .. }) => {
            return spanwise_read::open_profile(path).map_err(|_| error.into());
        }
        Err(error) => return Err(error.into()),
    };
    let options = ProfileOptions {
        stack: match args.stack {
            StackArg::Mixed => StackMode::Mixed,
            StackArg::Python => StackMode::Python,
            StackArg::Ops => StackMode::Operators,
            StackArg::Modules => StackMode::Modules,
        },
        backward: match args.backward {
            BackwardArg::Own => Backward::Own,
            BackwardArg::ForwardStack => Backward::ForwardStack,
        },
        rank: rank_of(path),
        strip_prefix: args.strip_prefix.clone(),
    };
    Ok(spanwise_analyze::profile(&trace, &options))
}

/// The number behind "rank" in a file's name.
fn rank_of(path: &Path) -> Option<i64> {
    let name = path.file_name()?.to_string_lossy().to_lowercase();
    let (_, after) = name.rsplit_once("rank")?;
    let after = after.trim_start_matches(['_', '-', '.']);
    let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    after[..digits].parse().ok()
}

fn value_index(profile: &Profile, name: Option<&str>) -> anyhow::Result<usize> {
    let Some(name) = name else { return Ok(profile.default_value) };
    let names: Vec<&str> = profile.value_types.iter().map(|value| &*value.name).collect();
    match names.iter().position(|&known| known == name) {
        Some(index) => Ok(index),
        None => bail!("no column named {name}; there are {}", names.join(", ")),
    }
}

fn program_name(traces: &[PathBuf]) -> String {
    let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match traces {
        [] => String::new(),
        [one] => name(one),
        [first, rest @ ..] => format!("{} and {} more", name(first), rest.len()),
    }
}

/// Writes beside the target and renames, so that nobody sees half a file.
fn write_file(
    target: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<usize> {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(format!(".making-{}", std::process::id()));
    let making = target.with_file_name(name);
    let fill = || -> io::Result<usize> {
        let mut file = io::BufWriter::new(fs::File::create_new(&making)?);
        write(&mut file)?;
        let file = file.into_inner()?;
        fs::rename(&making, target)?;
        Ok(file.metadata()?.len() as usize)
    };
    let written = fill();
    if written.is_err() {
        let _ = fs::remove_file(&making);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_stand_in_file_names() {
        let check = |name: &str, expected| assert_eq!(rank_of(Path::new(name)), expected, "{name}");
        check("ddp_rank3.json.gz", Some(3));
        check("a/rank-12/rank_07.pt.trace.json", Some(7));
        check("ranking.json", None);
        check("trace.json", None);
    }
}
