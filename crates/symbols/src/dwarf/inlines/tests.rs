//! A program that is compiled here and now, and binutils to compare with.
#![allow(clippy::print_stderr, reason = "a test that skips something says so")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::*;

/// The program, compiled with these options; `None` where it cannot be.
fn compiled(folder: &Path, options: &str) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/perf/inlines.c");
    let program = folder.join("program");
    let mut compiler = Command::new("cc");
    compiler.args(options.split_whitespace()).arg("-o").arg(&program).arg(&source);
    match compiler.stderr(Stdio::piped()).output() {
        Ok(done) if done.status.success() => Some(program),
        other => {
            eprintln!("skipped: cc {options}: {other:?}");
            None
        }
    }
}

/// The names and lines (`function file:line`) at each address, the innermost first, as binutils
/// finds them.
fn by_binutils(program: &Path, addresses: &[u64]) -> Option<Vec<Vec<String>>> {
    let mut tool = Command::new("addr2line");
    tool.args(["-a", "-f", "-i", "-e"]).arg(program);
    let mut tool = match tool.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() {
        Ok(tool) => tool,
        Err(error) => {
            eprintln!("skipped: addr2line: {error}");
            return None;
        }
    };
    let mut input = tool.stdin.take().expect("a pipe");
    let lines: String = addresses.iter().map(|address| format!("{address:#x}\n")).collect();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = tool.wait_with_output().expect("its output").stdout;
    writer.join().expect("a thread").expect("it reads");
    let mut found: Vec<Vec<String>> = Vec::new();
    let mut is_name = true;
    for line in String::from_utf8_lossy(&output).lines() {
        if line.starts_with("0x") {
            found.push(Vec::new());
            is_name = true;
            continue;
        }
        let frames = found.last_mut().expect("an address first");
        match is_name {
            true => frames.push(line.to_owned()),
            false => {
                let place = line.split(" (discriminator").next().unwrap_or(line);
                let last = place.rsplit('/').next().unwrap_or(place);
                let last = if last.starts_with('?') || last.ends_with('?') { "?" } else { last };
                let frame = frames.last_mut().expect("a name first");
                *frame = format!("{frame} {last}");
            }
        }
        is_name = !is_name;
    }
    Some(found)
}

/// The mapping of a whole file at its own addresses, and where its functions are.
fn text_of(program: &Path) -> (Mapping, std::ops::Range<u64>) {
    let bytes = std::fs::read(program).expect("the program");
    let file = object::File::parse(&bytes[..]).expect("an ELF file");
    let text = file.section_by_name(".text").expect("code");
    let (file_offset, size) = text.file_range().expect("in the file");
    let (start, end) = (text.address(), text.address() + size);
    let path = program.to_string_lossy().into();
    (Mapping { start, end, file_offset, path }, start..end)
}

/// A line of the source as binutils prints it, without folders.
fn line_text(stands: &SourceLine) -> String {
    match (stands.file.rsplit('/').next(), stands.line) {
        (_, 0) | (None, _) => "?".to_owned(),
        (Some(file), line) => format!("{file}:{line}"),
    }
}

/// Every address of the program's code against binutils; how many had something inlined.
fn check(options: &str) -> Option<usize> {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled(folder.path(), options)?;
    let (mapping, text) = text_of(&program);
    let addresses: Vec<u64> = text.collect();
    let expected = by_binutils(&program, &addresses)?;
    assert_eq!(expected.len(), addresses.len());
    let (shelf, mut files) = (Shelf::default(), Files::default());
    let mut inlines = Inlines::new(&shelf);
    let mut with_inlines = 0;
    for (&address, expected) in addresses.iter().zip(&expected) {
        let found = inlines.find(&mut files, &mapping, address);
        let mut expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        // The last is the function itself; its name is that of the symbol.
        let own = expected.pop().and_then(|text| text.rsplit(' ').next());
        expected.reverse();
        let inlined =
            found.inlined.iter().map(|call| format!("{} {}", call.name, line_text(&call.stands)));
        assert_eq!(inlined.collect::<Vec<_>>(), expected, "{options}: {address:#x}");
        assert_eq!(Some(&*line_text(&found.own)), own, "{options}: {address:#x}");
        with_inlines += usize::from(!found.inlined.is_empty());
    }
    Some(with_inlines)
}

#[test]
fn inlined_functions_are_those_that_binutils_finds() {
    for options in ["-O2 -g", "-O3 -gdwarf-4", "-O2 -g -gz=zlib", "-O1 -g -no-pie", "-O2 -g1"] {
        let found = check(options);
        assert!(found.is_none_or(|found| found > 50), "{options}: {found:?}");
    }
}

#[test]
fn without_debug_information_nothing_is_inlined() {
    let found = check("-O2 -g0");
    assert!(found.is_none_or(|found| found == 0), "{found:?}");
}

/// Debug information in which single bytes are wrong gives names or none, and ends.
#[test]
fn damaged_debug_information_does_no_harm() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(program) = compiled(folder.path(), "-O2 -g") else { return };
    let (mapping, text) = text_of(&program);
    let whole = std::fs::read(&program).expect("the program");
    let file = object::File::parse(&whole[..]).expect("an ELF file");
    let debug = file
        .sections()
        .filter(|section| section.name().is_ok_and(|name| name.starts_with(".debug_")));
    let places: Vec<usize> = debug
        .filter_map(|section| section.file_range())
        .flat_map(|(from, len)| from as usize..(from + len) as usize)
        .collect();
    let mut seed = 1_u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % below.max(1)
    };
    for _ in 0..400 {
        let mut bytes = whole.clone();
        for _ in 0..=random(8) {
            bytes[places[random(places.len())]] = random(256) as u8;
        }
        let shelf = Shelf::default();
        let mut work = Work(100_000);
        let kept = shelf.keep(bytes.into());
        let Some(mut debug) = DebugFile::read(&shelf, kept, &mut work) else { continue };
        for address in text.clone().step_by(7) {
            let file_offset = address - mapping.start + mapping.file_offset;
            debug.find(file_offset, &mut work);
        }
    }
}
