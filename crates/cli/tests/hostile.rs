//! Names from strangers in CSV, and the viewer's secret, which no process may show to others.

#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

fn spanwise(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spanwise"));
    command.args(arguments);
    command
}

/// A trace with spans of these names, written as JSON writes texts.
fn trace(folder: &Path, names: &[&str]) -> String {
    let events = names.iter().enumerate().map(|(at, name)| {
        format!(
            r#"{{"ph":"X","name":"{name}","cat":"cpu_op","pid":1,"tid":1,"ts":{},"dur":5}}"#,
            10 * at
        )
    });
    let text = format!(r#"{{"traceEvents":[{}]}}"#, events.collect::<Vec<_>>().join(","));
    let path = folder.join("trace.json");
    std::fs::write(&path, text).expect("room");
    path.to_str().expect("a path of ours").to_owned()
}

/// What a command writes, and what a file has that it wrote.
fn written(arguments: &[&str], file: Option<&Path>) -> String {
    let output = spanwise(arguments).output().expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    match file {
        Some(path) => std::fs::read_to_string(path).expect("a file"),
        None => String::from_utf8(output.stdout).expect("text"),
    }
}

/// No field begins like a formula unless it is a number, whatever it is split at, and nothing is
/// there that a terminal obeys.
#[track_caller]
fn check_harmless(csv: &str, said: &str) {
    assert!(csv.contains("1b") && csv.contains("=HYPERLINK"), "{said}: {csv}");
    let is_control = |c: char| c.is_control() && c != '\n' && c != '\t';
    assert!(!csv.contains(is_control), "{said}: {csv:?}");
    let mut is_quoted = false;
    let mut fields = vec![String::new()];
    for c in csv.chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            ',' | ';' | '\t' | '\n' if !is_quoted => fields.push(String::new()),
            c => fields.last_mut().expect("one").push(c),
        }
    }
    for field in fields.iter().filter(|field| field.starts_with(['=', '+', '-', '@'])) {
        assert!(field.parse::<f64>().is_ok(), "{said}: {field}");
    }
}

#[test]
fn csv_starts_no_formula_and_carries_no_escapes() {
    let folder = tempfile::tempdir().expect("a folder");
    let names = [
        "=HYPERLINK(\\\"http://x\\\")",
        "+cmd|x",
        "@SUM(1)",
        "-2+3",
        "\\u001b[31m\\u0007",
        "\\t=1",
    ];
    let trace = trace(folder.path(), &names);
    let read = ["--no-index", "--quiet", trace.as_str()];
    let sql = "select name, 0 - dur as negative, name as '=column' from spans";
    let query = written(&[&["query", "--format", "csv"], &read[..], &[sql]].concat(), None);
    check_harmless(&query, "query");
    assert!(query.contains(",-5000,") && query.starts_with("name,negative,'=column\n"), "{query}");
    let report = ["report", "--format", "csv", "--section", "functions", "--top", "0"];
    check_harmless(&written(&[&report, &read[..]].concat(), None), "report");
    let target = folder.path().join("profile.csv");
    let convert = ["convert", "-o", target.to_str().expect("a path of ours")];
    check_harmless(&written(&[&convert, &read[..]].concat(), Some(&target)), "convert");
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[track_caller]
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}: not within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A desktop whose browser writes down what it was given, and stays.
struct Desktop {
    folder: tempfile::TempDir,
}

impl Desktop {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let desktop = Desktop { folder };
        std::fs::create_dir(desktop.path("bin")).expect("room");
        std::fs::create_dir(desktop.path("runtime")).expect("room");
        let private = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(desktop.path("runtime"), private).expect("our folder");
        let script = format!(
            "#!/bin/sh\nset -e\ncd '{}'\nprintf '%s\\n' \"$@\" > given\ncat \"$1\" > page\n\
             stat -c %a \"$1\" \"$(dirname \"$1\")\" > modes.part\nmv modes.part modes\n",
            desktop.folder.path().display()
        );
        let opener = desktop.path("bin/xdg-open");
        std::fs::write(&opener, script).expect("room");
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&opener, executable).expect("our file");
        desktop
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn start(&self, arguments: &[&str]) -> (Running, String) {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = spanwise(arguments);
        command.env("PATH", format!("{}:{path}", self.path("bin").display()));
        command.env("DISPLAY", ":9").env("XDG_RUNTIME_DIR", self.path("runtime"));
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let address = lines.next().expect("an address").expect("text");
        (Running(child), address)
    }

    fn is_cleared(&self) -> bool {
        std::fs::read_dir(self.path("runtime")).expect("a folder").count() == 0
    }
}

fn interrupt(running: &mut Running) -> Option<i32> {
    let pid = running.0.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status().expect("kill starts");
    assert!(sent.success());
    running.0.wait().expect("our child").code()
}

/// Shows a trace; no process is given the address, the file leads there and goes in time.
fn check_opened(options: &[&str], token_of: fn(&str) -> String) -> (Desktop, Running, String) {
    let desktop = Desktop::new();
    let trace = trace(desktop.folder.path(), &["a"]);
    let (running, address) =
        desktop.start(&[&["view", "--no-index", "--quiet"], options, &[&*trace]].concat());
    let token = token_of(&address);
    assert_eq!(token.len(), 32, "{address}");
    wait_until("the browser starts", || desktop.path("modes").exists());
    let given = desktop.text("given");
    let given = Path::new(given.trim_end());
    assert!(given.starts_with(desktop.path("runtime")), "{}", given.display());
    assert!(!given.to_string_lossy().contains(&token));
    assert_eq!(desktop.text("modes"), "600\n700\n");
    let page = desktop.text("page");
    assert!(page.contains(&format!("url={}\"", address.replace('&', "&amp;"))), "{page}");
    assert!(!page.contains("<script") && !page.contains("unsafe-inline"), "{page}");
    let command = std::fs::read(format!("/proc/{}/cmdline", running.0.id())).expect("it runs");
    assert!(!String::from_utf8_lossy(&command).contains(&token));
    (desktop, running, address)
}

fn own_token(address: &str) -> String {
    address.split('/').nth(3).unwrap_or_default().to_owned()
}

#[test]
fn the_browser_is_given_a_private_file_which_goes_with_the_first_request() {
    let (desktop, mut running, address) = check_opened(&[], own_token);
    assert!(!desktop.is_cleared());
    let host = address.split('/').nth(2).expect("a host");
    let mut stream = TcpStream::connect(host).expect("it listens");
    let path = format!("/{}/", own_token(&address));
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer:.60}");
    assert!(desktop.is_cleared());
    assert_eq!(interrupt(&mut running), Some(0));
}

#[test]
fn the_file_goes_with_the_program() {
    let (desktop, mut running, _) = check_opened(&[], own_token);
    assert_eq!(interrupt(&mut running), Some(0));
    assert!(desktop.is_cleared());
}

#[test]
fn other_viewers_are_opened_by_a_private_file_too() {
    let token_of = |address: &str| address.split("%2F").nth(3).unwrap_or_default().to_owned();
    let (desktop, mut running, _) = check_opened(&["--in", "speedscope"], token_of);
    assert_eq!(interrupt(&mut running), Some(0));
    assert!(desktop.is_cleared());
}
