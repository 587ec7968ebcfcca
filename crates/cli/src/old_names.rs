//! Commands by their former names, for one release: the words of an old command line become those
//! of the new one before anything is parsed, so that a command has one set of options and one path
//! through the code. Parsing the old options as well would have required a second set.

use std::ffi::OsString;

/// A command line with the names of today.
pub(crate) struct CommandLine {
    pub(crate) words: Vec<OsString>,
    /// What those should know who used an old name.
    pub(crate) note: Option<String>,
}

/// Replaces an old name, if the command line begins with one.
pub(crate) fn with_current_names(words: Vec<OsString>) -> CommandLine {
    let is_help = words.get(1).is_some_and(|word| word == "help");
    let place = if is_help { 2 } else { 1 };
    let name = words.get(place).and_then(|word| word.to_str()).unwrap_or_default().to_owned();
    let mut rest = Rest(words.iter().skip(place + 1).cloned().collect());
    let Some(current) = current(&name, &mut rest) else { return CommandLine { words, note: None } };
    if is_help {
        let words = words.iter().take(place).cloned().chain(current.words.first().map(Into::into));
        return CommandLine { words: words.collect(), note: None };
    }
    let is_quiet = rest.place("-q").or_else(|| rest.place("--quiet")).is_some();
    let note = format!(
        "`spanwise {name}` is now `spanwise {}`; the old name goes with the next release",
        current.shown
    );
    let before = words.into_iter().take(place).chain(current.words.iter().map(Into::into));
    CommandLine { words: before.chain(rest.0).collect(), note: (!is_quiet).then_some(note) }
}

/// What takes the place of an old name.
struct Current {
    words: &'static [&'static str],
    /// How people write it.
    shown: &'static str,
}

fn current(name: &str, rest: &mut Rest) -> Option<Current> {
    let (words, shown): (&[&str], _) = match name {
        "verify" => (&["info", "--verify"], "info --verify"),
        "merge" => (&["convert"], "convert"),
        "decode" => match ["-o", "--output", "--function", "--print"].map(|it| rest.place(it)) {
            [None, None, None, None] => {
                (&["report", "--snapshots", "--section", "trace,calls"], "report --section calls")
            }
            [None, None, _, Some(_)] => (&["report", "--snapshots"], "report --print magic-trace"),
            [None, None, _, None] => (&["report", "--snapshots"], "report --function NAME"),
            _ => (&["convert", "--snapshots"], "convert -o FILE"),
        },
        "diff" => (&["compare", "--functions"], "compare --functions"),
        "fusion" => (&["compare", "--kernels"], "compare --kernels"),
        "flame" => match rest.take_value("--diff") {
            Some(base) => {
                rest.0.insert(0, base);
                (&["compare", "--functions"], "compare BASE OTHER -o FILE.svg")
            }
            None => (&["convert", "--to", "flame"], "convert -o FILE.svg"),
        },
        "html" => match rest.take("--compare") {
            Some(_) => (&["compare"], "compare -o FILE.html"),
            None => (&["convert", "--to", "html"], "convert -o FILE.html"),
        },
        "index" => (&["info", "--index"], "info --index"),
        _ => return None,
    };
    Some(Current { words, shown })
}

/// The words behind the name of the command.
struct Rest(Vec<OsString>);

impl Rest {
    /// Where an option is, with its value in the same word or not.
    fn place(&self, option: &str) -> Option<usize> {
        let is_long = option.starts_with("--");
        let is_it = |word: &OsString| {
            let word = word.to_string_lossy();
            match word.strip_prefix(option) {
                Some(value) if is_long => value.is_empty() || value.starts_with('='),
                Some(_) => true,
                None => false,
            }
        };
        self.0.iter().take_while(|word| *word != "--").position(is_it)
    }

    fn take(&mut self, option: &str) -> Option<OsString> {
        self.place(option).map(|place| self.0.remove(place))
    }

    /// Takes an option out, and gives its value.
    fn take_value(&mut self, option: &str) -> Option<OsString> {
        let place = self.place(option)?;
        let word = self.0.remove(place);
        match word.to_str().and_then(|word| word.split_once('=')) {
            Some((_, value)) => Some(value.into()),
            None => (place < self.0.len()).then(|| self.0.remove(place)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(old: &str, expected: &str, is_noted: bool) {
        let words = ["spanwise"].into_iter().chain(old.split(' ')).map(OsString::from);
        let line = with_current_names(words.collect());
        let words: Vec<&str> = line.words[1..].iter().filter_map(|word| word.to_str()).collect();
        assert_eq!((words.join(" ").as_str(), line.note.is_some()), (expected, is_noted), "{old}");
    }

    #[test]
    fn old_names_become_current_ones() {
        check("verify a.json b.json", "info --verify a.json b.json", true);
        check("merge a.json b.json -o c.json", "convert a.json b.json -o c.json", true);
        let calls = "report --snapshots --section trace,calls";
        check("decode a.txt b.txt", &format!("{calls} a.txt b.txt"), true);
        check("decode --function=f a.txt", "report --snapshots --function=f a.txt", true);
        check("decode --print magic-trace a", "report --snapshots --print magic-trace a", true);
        check("decode a.txt -oa.fxt", "convert --snapshots a.txt -oa.fxt", true);
        check("decode --output a.fxt a", "convert --snapshots --output a.fxt a", true);
        check("diff a.json b.json", "compare --functions a.json b.json", true);
        check("fusion --layers a b", "compare --kernels --layers a b", true);
        check("flame a.json -o a.svg", "convert --to flame a.json -o a.svg", true);
        check("flame --diff a b -o c.svg", "compare --functions a b -o c.svg", true);
        check("flame b --diff=a -o c.svg", "compare --functions a b -o c.svg", true);
        check("html a.json -o a.html", "convert --to html a.json -o a.html", true);
        check("html --compare a b -o c.html", "compare a b -o c.html", true);
        check("index --threads 2 a.json", "info --index --threads 2 a.json", true);
    }

    #[test]
    fn the_note_is_for_those_who_want_notes() {
        check("verify -q a.json", "info --verify -q a.json", false);
        check("verify a.json --quiet", "info --verify a.json --quiet", false);
        check("verify -- --quiet", "info --verify -- --quiet", true);
    }

    #[test]
    fn help_is_that_of_the_current_command() {
        check("help verify", "help info", false);
        check("help run", "help run", false);
    }

    #[test]
    fn only_the_name_of_a_command_is_replaced() {
        check("report verify", "report verify", false);
        check("run index", "run index", false);
    }
}
