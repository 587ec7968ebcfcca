//! Numbers that documents and help state, compared with the code that decides them.
//!
//! A limit that changes in the code alone makes a document wrong without anybody noticing. Each
//! row of the table names the place in the code and every sentence that states its number. The
//! texts are compared as texts: no crate has to export a constant for its documentation.

use crate::{Failure, tree::SourceFile};

const RECORD_ARGS: &str = "crates/cli/src/args/record/mod.rs";
const RECORDING: &str = "docs/how-it-works/recording.md";
const LIMITS: &str = "docs/how-it-works/numbers.md";
const SECURITY: &str = "docs/reference/security.md";
const SQL: &str = "docs/reference/sql.md";
const PROTOCOL: &str = "docs/reference/formats/viewer-protocol.md";
const BRANCHES: &str = "docs/how-to/trace-branches.md";
const VIEWER_QUERY: &str = "crates/serve/src/questions/query.rs";
const ADAPT: &str = "python/spanwise/profiling/adaptive/adapt.py";
const HTTP: &str = "crates/serve/src/connection/http.rs";

const MIB: f64 = (1 << 20) as f64;

/// What the code decides. Times are in seconds.
#[derive(Debug, Clone, Copy)]
enum Source {
    /// A constant of a file.
    Constant(&'static str, &'static str),
    /// The default of an option of `SamplingArgs`, by its field.
    Default(&'static str),
    /// A number of bytes at a rate, in whole MB per second.
    Rate(&'static Source, &'static Source),
    /// One part of the number: milliseconds between readings, MiB of bytes.
    Scaled(fn(f64) -> f64, &'static Source),
}

/// A number of the code, and the sentences that state it, with `{}` in its place.
struct StatedNumber {
    source: Source,
    sentences: &'static [(&'static str, &'static str)],
}

const fn stated(
    source: Source,
    sentences: &'static [(&'static str, &'static str)],
) -> StatedNumber {
    StatedNumber { source, sentences }
}

use Source::{Constant, Default, Rate, Scaled};

const STACK_BYTES: Source = Constant("crates/cli/src/commands/recording/run.rs", "STACK_BYTES");

const STATED: [StatedNumber; 39] = [
    stated(
        Default("rate"),
        &[
            (RECORDING, "every running thread, {} per second (`--rate`)"),
            (RECORDING, "The default of {} costs less than one percent"),
            ("docs/start/python.md", "(cpu-clock at {} Hz)"),
        ],
    ),
    stated(
        Constant("crates/capture/src/perf/event.rs", "RATE_MAX_HZ"),
        &[
            (RECORDING, "Rates above {} are rejected"),
            (RECORD_ARGS, "Samples per second of each running thread, up to {}"),
        ],
    ),
    stated(STACK_BYTES, &[(RECORD_ARGS, "Bytes of each stack to copy for dwarf [default: {}]")]),
    stated(
        Scaled(|bytes| bytes / 1024.0, &STACK_BYTES),
        &[(RECORDING, "registers and {} KiB of the stack (`--stack-bytes`)")],
    ),
    stated(
        Rate(&STACK_BYTES, &Default("rate")),
        &[
            (RECORDING, "unwinding tables of the files when the recording is read | {} MB/s |"),
            (RECORD_ARGS, "complete stacks, some {} MB per second of each busy CPU"),
        ],
    ),
    stated(
        Scaled(|rate| 1000.0 / rate, &Default("python_rate")),
        &[(RECORDING, "Functions shorter than {} ms are then right in sum")],
    ),
    stated(
        Scaled(|seconds| 1000.0 * seconds, &Default("wait_threshold")),
        &[(RECORDING, "Each wait of at least {} ms (`--wait-threshold`)")],
    ),
    stated(
        Constant("crates/capture/src/waits/stacks.rs", "STACKS_MAX"),
        &[(RECORDING, "Above {} per second and CPU, the threshold rises")],
    ),
    stated(
        Constant("crates/capture/src/waits/switches.rs", "SWITCHES_MAX"),
        &[(RECORDING, "Above {} switches per second and CPU")],
    ),
    stated(
        Constant("crates/capture/src/waits/switches.rs", "WAIT_STACKS_MAX"),
        &[(RECORDING, "threads leave their CPU, up to {} per second")],
    ),
    stated(
        Default("calls_budget"),
        &[
            (SECURITY, "Above {} % of the program's CPU time (`--calls-budget`)"),
            ("docs/how-to/record-calls.md", "Recording may cost {} % of the program's CPU time"),
        ],
    ),
    stated(Default("step_calls"), &[(BRANCHES, "| `--step-calls` | {} |")]),
    stated(Default("step_instructions"), &[(BRANCHES, "| `--step-instructions` | {} |")]),
    stated(Default("step_time"), &[(BRANCHES, "| `--step-time` | {}s |")]),
    stated(
        Scaled(|bytes| bytes / MIB, &Constant("crates/read/src/input/mod.rs", "WAVE_BYTES")),
        &[(SECURITY, "spanwise checks its memory every {} MB")],
    ),
    stated(
        Constant("crates/serve/src/connection/inbound.rs", "HEAD_MAX"),
        &[
            (SECURITY, "Connections without the token have {} s to send a request"),
            (PROTOCOL, "A connection has {} s for the whole head of its first request"),
        ],
    ),
    stated(
        Constant("crates/serve/src/connection/limits.rs", "STRANGERS_MAX"),
        &[(SECURITY, "to send a request and {} places of their own")],
    ),
    stated(
        Scaled(|bytes| bytes / 1024.0, &Constant(HTTP, "HEAD_BYTES_MAX")),
        &[(PROTOCOL, "A head has at most {} KiB")],
    ),
    stated(Constant(HTTP, "FIELDS_MAX"), &[(PROTOCOL, "KiB and {} fields")]),
    stated(
        Scaled(|bytes| bytes / MIB, &Constant(HTTP, "BODY_BYTES_MAX")),
        &[(PROTOCOL, "fields, a body {} MiB")],
    ),
    stated(
        Constant(VIEWER_QUERY, "ROWS_MAX"),
        &[(SQL, "| rows of an answer | `--limit`, 1000 by default; 0 is all | {} |")],
    ),
    stated(
        Scaled(|bytes| bytes / MIB, &Constant(VIEWER_QUERY, "BYTES_MAX")),
        &[(SQL, "| bytes of an answer | an eighth of the available memory | {} MiB |")],
    ),
    stated(
        Scaled(|bytes| bytes / MIB, &Constant(VIEWER_QUERY, "MEMORY_LEAST")),
        &[(SQL, "an eighth of the available memory, from {} MiB to 1 GiB |")],
    ),
    stated(
        Scaled(|bytes| bytes / MIB / 1024.0, &Constant(VIEWER_QUERY, "MEMORY_MOST")),
        &[(SQL, "an eighth of the available memory, from 64 MiB to {} GiB |")],
    ),
    stated(
        Scaled(|bytes| bytes / MIB, &Constant(VIEWER_QUERY, "VALUE_BYTES_MAX")),
        &[(SQL, "| one text or blob | 64 MiB | {} MiB |")],
    ),
    stated(Constant(VIEWER_QUERY, "TIME_MAX"), &[(SQL, "| time | no limit | {} s |")]),
    stated(
        Constant("crates/serve/src/session.rs", "QUERIES_MAX"),
        &[(SQL, "| concurrent queries | | {}, over all open pages |")],
    ),
    stated(
        Scaled(|bytes| bytes / MIB, &Constant("crates/query/src/lib.rs", "SQL_BYTES_MAX")),
        &[(SQL, "SQL text is limited to {} MiB")],
    ),
    stated(
        Constant("crates/query/src/lib.rs", "PATTERN_BYTES_MAX"),
        &[(SQL, "a pattern of `LIKE` or `GLOB` to {} bytes")],
    ),
    stated(
        Scaled(|seconds| 1000.0 * seconds, &Constant("crates/py/src/core.rs", "FLUSH_EVERY")),
        &[(
            "docs/reference/python/profiling.md",
            "one that leaves by `os._exit` loses at most the last {} ms",
        )],
    ),
    stated(
        Scaled(|seconds| 1000.0 * seconds, &Constant(ADAPT, "WINDOW_S")),
        &[("docs/reference/python/profiling.md", "with the CPU time of the process every {} ms")],
    ),
    stated(
        Constant("crates/analyze/src/profile/sweep.rs", "DEPTH_MAX"),
        &[(LIMITS, "A span with {} others open has no stack of its own")],
    ),
    stated(
        Constant("crates/analyze/src/training/steps.rs", "VALUES_PER_SPAN_MAX"),
        &[(LIMITS, "if steps times tracks exceeds {} times the number of spans")],
    ),
    stated(
        Constant("crates/analyze/src/training/steps.rs", "VALUES_MIN"),
        &[(LIMITS, "times the number of spans and {}.")],
    ),
    stated(
        Constant("crates/analyze/src/training/modules.rs", "PATH_BYTES_MAX"),
        &[(LIMITS, "**Module paths** longer than {} characters")],
    ),
    stated(
        Constant("crates/analyze/src/findings/gpu.rs", "GAPS_EXAMINED_MAX"),
        &[(LIMITS, "is reported for the GPUs with the {} longest gaps")],
    ),
    stated(
        Constant("crates/analyze/src/profile/gpu.rs", "CONCURRENT_MAX"),
        &[(LIMITS, "of the work that runs at once on a GPU, {} pieces share the time")],
    ),
    stated(
        Constant("crates/analyze/src/training/layers.rs", "KERNELS_MAX"),
        &[(LIMITS, "are searched in the first {} kernels of a step")],
    ),
    stated(
        Constant("crates/analyze/src/compat/hta/load.rs", "CALLS_JOINED_MAX"),
        &[(LIMITS, "joins GPU work with the first {} calls of the same correlation id")],
    ),
];

pub(crate) fn check(files: &[SourceFile]) -> Vec<Failure> {
    STATED.iter().flat_map(|number| check_number(number, files)).collect()
}

fn check_number(number: &StatedNumber, files: &[SourceFile]) -> Vec<Failure> {
    let Some(value) = number.source.value(files) else {
        let what = format!("{:?} has no number", number.source);
        let cure = "if it was renamed, name it in xtask/src/numbers.rs too";
        return vec![Failure::new("xtask/src/numbers.rs", what, cure)];
    };
    let mut failures = Vec::new();
    for &(path, sentence) in number.sentences {
        let text = text_of(files, path).map(flowing).unwrap_or_default();
        let forms = forms(value).map(|form| sentence.replace("{}", &form));
        if !forms.iter().any(|form| text.contains(form)) {
            let what = format!("does not state \"{}\", the number of the code", forms[0]);
            let cure = "correct the number there, or the sentence in xtask/src/numbers.rs";
            failures.push(Failure::new(path, what, cure));
        }
    }
    failures
}

impl Source {
    fn value(self, files: &[SourceFile]) -> Option<f64> {
        match self {
            Constant(path, name) => {
                let text = text_of(files, path)?;
                constant(text, name).or_else(|| python_constant(text, name))
            }
            Default(field) => {
                let (_, arguments) =
                    text_of(files, RECORD_ARGS)?.split_once("struct SamplingArgs {")?;
                argument_default(arguments, field)
            }
            Rate(bytes, hz) => Some((bytes.value(files)? * hz.value(files)? / 1e6).round()),
            Scaled(scale, source) => source.value(files).map(scale),
        }
    }
}

fn text_of<'a>(files: &'a [SourceFile], path: &str) -> Option<&'a str> {
    files.iter().find(|file| file.path == path).map(|file| &*file.text)
}

/// The text with single spaces, whatever its lines are, and without the marks of comments.
fn flowing(text: &str) -> String {
    text.split_whitespace().filter(|word| *word != "///").collect::<Vec<_>>().join(" ")
}

/// A number as texts write it, with and without commas.
fn forms(value: f64) -> [String; 2] {
    let plain = format!("{value}");
    let whole = plain.split('.').next().unwrap_or_default().len();
    let mut grouped = String::new();
    for (at, digit) in plain.chars().enumerate() {
        if at > 0 && at < whole && (whole - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    [grouped, plain]
}

/// The value of `const NAME: … = …;`.
fn constant(text: &str, name: &str) -> Option<f64> {
    let at = text.find(&format!("const {name}: "))?;
    let (_, rest) = text[at..].split_once(" = ")?;
    evaluate(rest.split_once(';')?.0)
}

/// The value of `NAME = …`, on a line of its own.
fn python_constant(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| evaluate(line.strip_prefix(name)?.strip_prefix(" = ")?))
}

/// The `default_value` in the attributes of a field.
fn argument_default(text: &str, field: &str) -> Option<f64> {
    let head = &text[..text.find(&format!("pub(crate) {field}: "))?];
    // The last that stands before the field: those of fields before it end with a comma.
    let attributes = &head[head.rfind(",\n    ///").unwrap_or(0)..];
    let (_, rest) = attributes.split_once("default_value")?;
    let (_, rest) = rest.split_once(" = ")?;
    evaluate(rest[..rest.find([')', ','])?].trim_matches('"'))
}

/// A number, a product or a shift of numbers, a duration in seconds.
fn evaluate(expression: &str) -> Option<f64> {
    let expression = expression.trim();
    if let Some((one, other)) = expression.split_once(" << ") {
        return Some(evaluate(one)? * evaluate(other)?.exp2());
    }
    if let Some((one, other)) = expression.split_once(" * ") {
        return Some(evaluate(one)? * evaluate(other)?);
    }
    let units = [
        ("Duration::from_secs(", ")", 1.0),
        ("Duration::from_millis(", ")", 1e-3),
        ("", "ms", 1e-3),
        ("", "s", 1.0),
    ];
    for (before, after, seconds) in units {
        let inner = expression.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
        if let Some(inner) = inner {
            return evaluate(inner).map(|number| number * seconds);
        }
    }
    expression.replace('_', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_constant(declaration: &str, expected: Option<f64>) {
        assert_eq!(constant(declaration, "MAX"), expected);
    }

    #[test]
    fn constants_are_evaluated() {
        check_constant("const MAX: usize = 5_000;", Some(5000.0));
        check_constant(
            "pub const LEAST: u8 = 1;\npub const MAX: u64 = 16 << 20;",
            Some(16.0 * MIB),
        );
        check_constant("const MAX: u64 = 16 * 1024;", Some(16_384.0));
        check_constant("const MAX: Duration = Duration::from_millis(2500);", Some(2.5));
        check_constant("const MAX: usize = LEAST + 1;", None);
        check_constant("const MAX_BYTES: usize = 3;", None);
        assert_eq!(python_constant("MAX_S = 1\nMAX = 0.5\n", "MAX"), Some(0.5));
    }

    #[test]
    fn defaults_are_those_of_their_field() {
        let text = "    #[arg(long, default_value_t = 7)]\n    pub(crate) before: u32,\n    \
                    /// Help\n    #[arg(long, default_value = \"10ms\")]\n    \
                    pub(crate) field: u32,\n    /// None\n    pub(crate) bare: bool,\n";
        assert_eq!(argument_default(text, "before"), Some(7.0));
        assert_eq!(argument_default(text, "field"), Some(0.01));
        assert_eq!(argument_default(text, "bare"), None);
    }

    #[test]
    fn numbers_that_differ_are_reported() {
        let number = stated(Constant("a.rs", "MAX"), &[("b.md", "at most {} rows")]);
        let check_text = |document: &str| {
            let file = |path: &str, text: &str| SourceFile { path: path.into(), text: text.into() };
            let files = [file("a.rs", "const MAX: u32 = 5_000;"), file("b.md", document)];
            check_number(&number, &files).len()
        };
        assert_eq!(check_text("It shows at most\n5,000 rows."), 0);
        assert_eq!(check_text("It shows at most 5000 rows."), 0);
        assert_eq!(check_text("It shows at most 500 rows."), 1);
        assert_eq!(check_text("It shows at most 15,000 rows."), 1);
    }
}
