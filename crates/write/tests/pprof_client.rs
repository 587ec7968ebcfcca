//! What pprof's own client shows of the profiles that we write.
//!
//! Runs `go tool pprof` and compares the numbers in its output with those of the
//! profile. Says "skipped: no go" where Go is not installed. `-svg` also wants
//! Graphviz; without it, says "skipped: no dot" and checks the graph's text alone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use spanwise_analyze::{DiffOptions, difference, profile_diff};
use spanwise_model::{LabelValue, Profile};
use spanwise_write::{PprofOptions, write_pprof};

#[path = "profiles/mod.rs"]
mod profiles;

use profiles::{TYPES, WALL, names_of, nasty};

/// Flat and cumulative values by name.
type Rows = BTreeMap<String, (i64, i64)>;

/// The client, with profiles of scale 1 and 3 to show.
struct Client {
    folder: PathBuf,
    one: PathBuf,
    three: PathBuf,
}

/// The client in a folder of its own; `None` where there is no Go.
fn client(test: &str) -> Option<Client> {
    if Command::new("go").arg("version").output().is_err() {
        #[expect(clippy::print_stderr, reason = "a test that did nothing must say so")]
        {
            eprintln!("skipped: no go");
        }
        return None;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pprof_client").join(test);
    std::fs::create_dir_all(&folder).expect("the folder for tests is writable");
    let write = |scale: i64, is_compressed: bool| {
        let path = folder.join(format!("{scale}.pb.gz"));
        let mut bytes = Vec::new();
        let options = PprofOptions { program: "train.py", is_compressed };
        write_pprof(&nasty(scale), &options, &mut bytes).expect("a vector takes everything");
        std::fs::write(&path, bytes).expect("the folder for tests is writable");
        path
    };
    let (one, three) = (write(1, true), write(3, false));
    Some(Client { folder, one, three })
}

impl Client {
    /// What the client prints for options and files.
    fn run(&self, options: &[&str], files: &[&Path]) -> String {
        let output = Command::new("go")
            .args(["tool", "pprof", "-nodefraction=0", "-edgefraction=0"])
            .args(options)
            .args(files)
            .env("PPROF_TMPDIR", &self.folder)
            .env("PPROF_BINARY_PATH", &self.folder)
            .env("XDG_CONFIG_HOME", &self.folder)
            .output()
            .expect("go runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{options:?}: {errors}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// What it shows of the profile of scale 1, in nanoseconds.
    fn show(&self, options: &[&str]) -> String {
        self.run(&[&["-unit=nanoseconds"], options].concat(), &[&self.one])
    }
}

/// `1500ns`, `4096B` or `0`.
fn number(text: &str) -> Option<i64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    digits.strip_suffix(".0").unwrap_or(digits).parse().ok()
}

/// The rows under the header of `-top`. A name may go on on the next line.
fn top_rows(output: &str) -> Rows {
    let (_, table) = output.split_once("cum%\n").expect("a table");
    let mut rows: Vec<(String, (i64, i64))> = Vec::new();
    for line in table.lines() {
        let cells: Vec<&str> = line.split_whitespace().take(5).collect();
        match cells.as_slice() {
            [flat, _, _, cum, cum_share] => {
                let at = line.rfind(cum_share).expect("it is in the line");
                let at = line[..at].len() + cum_share.len();
                let name = line[at..].trim_start().to_owned();
                let values = (number(flat).expect(flat), number(cum).expect(cum));
                rows.push((name, values));
            }
            _ => {
                let (name, _) = rows.last_mut().expect("a name goes on");
                name.push('\n');
                name.push_str(line);
            }
        }
    }
    rows.into_iter().collect()
}

/// The same from the profile, over the rows that `is_kept` takes.
fn expected_rows(profile: &Profile, value: usize, is_kept: impl Fn(usize) -> bool) -> Rows {
    let mut rows = Rows::new();
    for (row, sample) in profile.samples.iter().enumerate() {
        let weight = profile.values_of(row)[value];
        if weight == 0 || !is_kept(row) {
            continue;
        }
        let mut names = names_of(profile, sample.stack);
        if names.is_empty() {
            names.push("[no stack]");
        }
        rows.entry(names[0].to_owned()).or_default().0 += weight;
        names.sort_unstable();
        names.dedup();
        for name in names {
            rows.entry(name.to_owned()).or_default().1 += weight;
        }
    }
    rows
}

/// The text of a label, a number without its unit.
fn label(profile: &Profile, row: usize, key: &str) -> Option<String> {
    let labels = &profile.label_sets[profile.samples[row].labels as usize];
    let label = labels.iter().find(|label| profile.text(label.key) == key)?;
    Some(match label.value {
        LabelValue::Text(text) => profile.text(text).to_owned(),
        LabelValue::Number { value, .. } => value.to_string(),
    })
}

#[test]
fn top_has_our_names_and_numbers_for_every_type() {
    let Some(client) = client("top") else { return };
    let profile = nasty(1);
    let default = top_rows(&client.show(&["-top", "-cum"]));
    assert_eq!(default, expected_rows(&profile, WALL, |_| true));
    assert!(default.contains_key("<built-in method wait>"), "{default:?}");
    for (value, (name, unit)) in TYPES.iter().enumerate() {
        let options = ["-top", &format!("-sample_index={name}"), &format!("-unit={unit}")];
        let rows = top_rows(&client.run(&options, &[&client.one]));
        assert_eq!(rows, expected_rows(&profile, value, |_| true), "{name}");
    }
    let header = client.show(&["-top"]);
    for line in ["File: train.py\n", "Type: wall\n", "made for a test\n", "Duration: 2ms, Total"] {
        assert!(header.contains(line), "{line:?} in {header}");
    }
}

#[test]
fn traces_are_our_samples() {
    let Some(client) = client("traces") else { return };
    let output = client.show(&["-traces"]);
    let mut found: Vec<(i64, Vec<String>)> = Vec::new();
    for block in output.split("-----------+").skip(1) {
        let (mut value, mut names) = (None, Vec::<String>::new());
        for line in block.lines().skip(1) {
            match (line.get(10..13), line.get(..10), line.get(13..)) {
                (Some("   "), Some(cell), Some(name)) => {
                    value = value.or(number(cell.trim()));
                    names.push(name.to_owned());
                }
                (Some(":  "), ..) => {}
                _ => names.last_mut().expect("a name goes on").push_str(&format!("\n{line}")),
            }
        }
        found.extend(value.map(|value| (value, names)));
    }
    let profile = nasty(1);
    let expected = profile.samples.iter().enumerate().map(|(row, sample)| {
        let mut names = names_of(&profile, sample.stack);
        if names.is_empty() {
            names.push("[no stack]");
        }
        (profile.values_of(row)[WALL], names.into_iter().map(str::to_owned).collect())
    });
    let mut expected: Vec<(i64, Vec<String>)> = expected.collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn raw_has_all_values_labels_and_code() {
    let Some(client) = client("raw") else { return };
    let output = client.run(&["-raw"], &[&client.one]);
    let types = "samples/count wall/nanoseconds[dflt] gpu/nanoseconds copy/bytes\n";
    assert!(output.contains(types), "{output}");
    let (_, samples) = output.split_once(types).expect("samples");
    let (samples, code) = samples.split_once("\nLocations\n").expect("locations");
    let values_of = |line: &str| -> Option<Vec<i64>> {
        let (values, _) = line.split_once(": ")?;
        values.split_whitespace().map(|value| value.parse().ok()).collect()
    };
    let found: Vec<Vec<i64>> = samples.lines().filter_map(values_of).collect();
    let profile = nasty(1);
    let expected: Vec<&[i64]> =
        (0..profile.samples.len()).map(|row| profile.values_of(row)).collect();
    let sorted = |mut rows: Vec<Vec<i64>>| {
        rows.sort();
        rows
    };
    let expected = sorted(expected.iter().map(|row| row.to_vec()).collect());
    assert_eq!(sorted(found), expected);
    // Zeros stay, with a unit and without.
    for labels in ["step:[0 step]", "step:[1 step]", "part:[0 part]", "thread:[pin memory]"] {
        assert!(samples.contains(labels), "{labels} in {samples}");
    }
    for line in [
        "M=6 at::native::(anonymous namespace)::k<float> :0 s=0()",
        "train.py(12): step train.py:12 s=12()",
        "1: 0x0/0x0/0x0 train.py  [FN][FL][LN]",
        "0x0/0x0/0x0 [kernel]  [FN][FL][LN]",
    ] {
        assert!(code.contains(line), "{line} in {code}");
    }
}

#[test]
fn tags_add_up_as_ours() {
    let Some(client) = client("tags") else { return };
    let output = client.show(&["-tags"]);
    let profile = nasty(1);
    for key in ["state", "thread", "step", "part", "device"] {
        let mut expected: BTreeMap<String, i64> = BTreeMap::new();
        for row in 0..profile.samples.len() {
            if let Some(text) = label(&profile, row, key) {
                *expected.entry(text).or_default() += profile.values_of(row)[WALL];
            }
        }
        let section = output.split("\n\n").find(|part| part.trim().starts_with(key));
        let section = section.unwrap_or_else(|| panic!("{key} in {output}"));
        let row_of = |line: &str| -> Option<(String, i64)> {
            let (value, text) = line.trim().split_once(": ")?;
            // Numbers are shown in the unit that was asked for.
            let text = text.strip_suffix("nanoseconds").unwrap_or(text);
            Some((text.to_owned(), number(value.split_whitespace().next()?)?))
        };
        let found: BTreeMap<String, i64> = section.lines().skip(1).filter_map(row_of).collect();
        assert_eq!(found, expected, "{key}");
    }
}

#[test]
fn tags_choose_samples() {
    let Some(client) = client("choose") else { return };
    let profile = nasty(1);
    type Keep<'a> = &'a dyn Fn(usize) -> bool;
    let has =
        |row: usize, key: &str, text: &str| label(&profile, row, key).as_deref() == Some(text);
    let cases: [(&str, Keep<'_>); 6] = [
        ("-tagfocus=thread=^main$", &|row| has(row, "thread", "main")),
        ("-tagfocus=step=0", &|row| has(row, "step", "0")),
        ("-tagfocus=step=1:2", &|row| has(row, "step", "1")),
        ("-tagfocus=part=0", &|row| has(row, "part", "0")),
        ("-tagignore=state=waiting", &|row| !has(row, "state", "waiting")),
        ("-tagignore=step=0", &|row| !has(row, "step", "0")),
    ];
    for (option, is_kept) in cases {
        let rows = top_rows(&client.show(&["-top", option]));
        assert_eq!(rows, expected_rows(&profile, WALL, is_kept), "{option}");
    }
}

#[test]
fn tags_become_roots() {
    let Some(client) = client("roots") else { return };
    let profile = nasty(1);
    let rows = top_rows(&client.show(&["-top", "-cum", "-tagroot=thread"]));
    for thread in ["main", "pin memory"] {
        let is_kept = |row: usize| label(&profile, row, "thread").as_deref() == Some(thread);
        let expected: i64 = (0..profile.samples.len())
            .filter(|&row| is_kept(row))
            .map(|row| profile.values_of(row)[WALL])
            .sum();
        assert_eq!(rows[thread], (0, expected), "{thread}");
    }
}

#[test]
fn differences_are_ours() {
    let Some(client) = client("differences") else { return };
    let rows = |new: &Path, base: &Path| {
        let base = format!("-diff_base={}", base.display());
        top_rows(&client.run(&["-top", "-unit=nanoseconds", &base], &[new]))
    };
    let expected = |scale: i64| expected_rows(&nasty(scale), WALL, |_| true);
    assert_eq!(rows(&client.three, &client.one), expected(2));
    assert_eq!(rows(&client.one, &client.three), expected(-2));
}

#[test]
fn a_written_difference_shows_as_the_client_s_own() {
    let Some(client) = client("written_difference") else { return };
    let (one, three) = (nasty(1), nasty(3));
    let options = DiffOptions { values: [WALL, WALL], steps: [1, 1] };
    let path = client.folder.join("difference.pb.gz");
    let mut bytes = Vec::new();
    let difference = difference(&one, &three, &options);
    write_pprof(&difference, &PprofOptions::default(), &mut bytes).expect("a vector takes all");
    std::fs::write(&path, bytes).expect("the folder for tests is writable");
    let output = client.run(&["-top", "-unit=nanoseconds"], &[&path]);
    let rows = top_rows(&output);
    let base = format!("-diff_base={}", client.one.display());
    let own = client.run(&["-top", "-unit=nanoseconds", &base], &[&client.three]);
    assert_eq!(rows, top_rows(&own));
    let diff = profile_diff(&one, &three, &options);
    let expected = diff.functions.iter().map(|row| {
        let [base, other] = row.both();
        let change = |base: i128, other: i128| i64::try_from(other - base).expect("small");
        let own = change(base.self_sum, other.self_sum);
        (row.label.clone(), (own, change(base.total_sum, other.total_sum)))
    });
    assert_eq!(rows, expected.collect::<Rows>());
    // Shares are those of the base.
    let of_total = |text: &str| {
        let (_, after) = text.split_once("% of ").expect("a share of a total");
        after.split_whitespace().next().map(str::to_owned)
    };
    assert_eq!(of_total(&output), Some(format!("{}ns", one.totals()[WALL])));
    assert_eq!(of_total(&output), of_total(&own));
}

#[test]
fn peek_shows_callers() {
    let Some(client) = client("peek") else { return };
    let expected = expected_rows(&nasty(1), WALL, |_| true);
    let output = client.show(&["-peek=wait|copy_"]);
    for name in ["<built-in method wait>", "aten::copy_"] {
        let line = output.lines().find(|line| line.ends_with(&format!("| {name}")));
        let line = line.unwrap_or_else(|| panic!("{name} in {output}"));
        let cells: Vec<&str> = line.split_whitespace().collect();
        assert_eq!((number(cells[0]), number(cells[3])), {
            let (flat, cum) = expected[name];
            (Some(flat), Some(cum))
        });
    }
    let caller = output.lines().find(|line| line.ends_with("|   train.py(12): step"));
    let caller = caller.and_then(|line| number(line.split_whitespace().next()?));
    assert_eq!(caller, Some(expected["aten::copy_"].1));
}

#[test]
#[expect(clippy::print_stderr, reason = "a skipped part should be seen in the output")]
fn graphs_have_our_names_and_numbers() {
    let Some(client) = client("graphs") else { return };
    let expected = expected_rows(&nasty(1), WALL, |_| true);
    let graph = client.show(&["-dot"]);
    let graph = graph.replace("\\\"", "\"").replace("\\l", "\n").replace("\\\\", "\\");
    for (name, (_, cum)) in &expected {
        let tooltip = format!("tooltip=\"{name} ({cum}ns)\"");
        assert!(graph.contains(&tooltip), "{tooltip} in {graph}");
    }
    if Command::new("dot").arg("-V").output().is_err() {
        eprintln!("skipped: no dot");
        return;
    }
    let picture = client.show(&["-svg"]);
    let picture = picture.replace("&#45;", "-").replace("&lt;", "<").replace("&gt;", ">");
    assert!(picture.contains("<svg "), "{picture}");
    for name in ["<built-in method wait>", "train.py(12): step", "aten::copy_"] {
        let title = format!("xlink:title=\"{name} ({}ns)\"", expected[name].1);
        assert!(picture.contains(&title), "{title} in {picture}");
    }
}
