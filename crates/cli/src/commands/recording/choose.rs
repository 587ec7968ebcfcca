//! Lets somebody at a terminal choose a process, or a function.
//!
//! Line by line, so that it works on every terminal: a text narrows the list, a number that
//! is on it chooses.

use std::io::{self, BufRead, Write};

/// How many are shown at once.
const SHOWN: usize = 15;

/// A name out of many; `None` where nothing was chosen.
pub(in crate::commands) fn choose_name<'a>(
    names: &'a [String],
    input: &mut dyn BufRead,
    out: &mut dyn Write,
) -> io::Result<Option<&'a str>> {
    let rows: Vec<(i32, String)> = (1..).zip(names.iter().cloned()).collect();
    let chosen = choose(&rows, "number of the function, or a part of its name: ", input, out)?;
    let chosen = chosen.and_then(|number| usize::try_from(number).ok()?.checked_sub(1));
    Ok(chosen.and_then(|at| names.get(at)).map(String::as_str))
}

/// The number of a row; `None` where nothing was chosen.
pub(in crate::commands) fn choose(
    processes: &[(i32, String)],
    question: &str,
    input: &mut dyn BufRead,
    out: &mut dyn Write,
) -> io::Result<Option<i32>> {
    let mut found: Vec<&(i32, String)> = processes.iter().collect();
    loop {
        for (pid, command) in found.iter().take(SHOWN) {
            writeln!(out, "{pid:>8}  {}", shortened(command))?;
        }
        if found.len() > SHOWN {
            writeln!(out, "          … {} more", found.len() - SHOWN)?;
        }
        write!(out, "{question}")?;
        out.flush()?;
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 || line.trim().is_empty() {
            return Ok(None);
        }
        let wanted = line.trim();
        let number = wanted.parse().ok();
        if let Some((pid, _)) = processes.iter().find(|(pid, _)| Some(*pid) == number) {
            return Ok(Some(*pid));
        }
        let fits = |(_, command): &&(i32, String)| {
            let command = command.to_lowercase();
            wanted.to_lowercase().split_whitespace().all(|word| command.contains(word))
        };
        found = processes.iter().filter(fits).collect();
        match found.as_slice() {
            [] => {
                writeln!(out, "nothing fits: {wanted}")?;
                found = processes.iter().collect();
            }
            [(pid, command)] => {
                writeln!(out, "{pid:>8}  {}", shortened(command))?;
                return Ok(Some(*pid));
            }
            _ => {}
        }
    }
}

fn shortened(command: &str) -> String {
    const LONGEST: usize = 100;
    let command = spanwise_write::printable(command);
    match command.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &command[..end]),
        None => command.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(typed: &str, expected: Option<i32>) {
        let processes = [
            (7, "python train.py --size 7b".to_owned()),
            (30, "python serve.py".to_owned()),
            (31, "nginx: worker".to_owned()),
        ];
        let mut out = Vec::new();
        let chosen = choose(&processes, "? ", &mut typed.as_bytes(), &mut out).expect("memory");
        assert_eq!(chosen, expected, "{typed}: {}", String::from_utf8_lossy(&out));
    }

    #[test]
    fn a_number_chooses_and_a_text_narrows() {
        check("30\n", Some(30));
        check("NGINX\n", Some(31));
        check("python\n7\n", Some(7));
        check("python serve\n", Some(30));
    }

    #[test]
    fn names_are_chosen_in_the_same_way() {
        let names = ["cache_get", "cache_put", "main"].map(str::to_owned);
        let check = |typed: &str, expected: Option<&str>| {
            let chosen = choose_name(&names, &mut typed.as_bytes(), &mut Vec::new());
            assert_eq!(chosen.expect("memory"), expected, "{typed}");
        };
        check("2\n", Some("cache_put"));
        check("cache\nget\n", Some("cache_get"));
        check("0\n\n", None);
    }

    #[test]
    fn nothing_is_chosen_by_accident() {
        check("", None);
        check("\n", None);
        check("python\n", None);
        check("99\nemacs\n\n", None);
    }
}
