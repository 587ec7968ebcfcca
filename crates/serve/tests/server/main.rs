//! The server over a real connection, about real traces.

mod compare;
mod harm;
mod hostile;
mod live;
mod memory;
mod running;

use std::io::Read;
use std::net::TcpStream;
use std::thread;

use serde_json::Value;
use spanwise_serve::{Server, Session};

use crate::running::{from_text, open, run, start};

/// A column of the binary answer, as integers.
fn columns(body: &[u8]) -> (Value, Vec<f64>, Vec<u32>, Vec<u32>) {
    let head_bytes = u32::from_le_bytes(body[..4].try_into().expect("four")) as usize;
    assert_eq!((4 + head_bytes) % 8, 0);
    let head: Value = serde_json::from_slice(&body[4..4 + head_bytes]).expect("JSON");
    let count = head["count"].as_u64().expect("a number") as usize;
    let rest = &body[4 + head_bytes..];
    assert_eq!(rest.len(), count * (2 * 8 + 4 * 4 + 4 + 1));
    let floats = rest[..8 * count].chunks_exact(8);
    let starts = floats.map(|eight| f64::from_le_bytes(eight.try_into().expect("eight"))).collect();
    let ints = |column: usize| {
        let begin = 16 * count + 4 * count * column;
        let words = rest[begin..begin + 4 * count].chunks_exact(4);
        words.map(|four| u32::from_le_bytes(four.try_into().expect("four"))).collect()
    };
    (head, starts, ints(0), ints(2))
}

#[test]
fn a_page_sees_every_span_and_finds_the_line_behind_a_kernel() {
    let running = start(vec![open("kineto/llama_small.json.gz")]);
    let traces = running.json("api/traces");
    let trace = &traces["traces"][0];
    let tracks = trace["tracks"].as_array().expect("tracks");
    let mut spans_seen = 0;
    for track in tracks {
        let id = &track["id"];
        let body = running.get(&format!("api/slices?trace=0&pixels=500&tracks={id}")).body;
        let (head, starts, _, counts) = columns(&body);
        assert!(starts.len() <= 1001 * track["rows"].as_u64().expect("a number") as usize);
        let sum: u64 = counts.iter().map(|&count| u64::from(count)).sum();
        assert_eq!(sum, track["spans"].as_u64().expect("a number"), "{track}");
        assert!(head["names"].is_object());
        spans_seen += sum;
    }
    assert_eq!(spans_seen, trace["spans"].as_u64().expect("a number"));

    let found = running.json("api/search?trace=0&text=GEMM");
    let kernel = &found["spans"].as_array().expect("spans")[0];
    let about = running.json(&format!("api/span?trace=0&span={}", kernel["span"]));
    let launch = &about["launched_by"];
    assert!(launch["name"].as_str().expect("a launch").contains("Launch"), "{launch}");
    let python = about["python"].as_array().expect("frames");
    assert!(python.iter().any(|frame| frame["name"].as_str().is_some_and(|n| n.contains(".py("))));
    let launch = running.json(&format!("api/span?trace=0&span={}", launch["span"]));
    assert_eq!(launch["launched"]["first"][0]["span"], kernel["span"]);

    let flame = running.json("api/flame?trace=0&value=gpu");
    assert!(flame["weight"][0].as_u64().expect("nanoseconds") > 0);
    let part = running.json("api/flame?trace=0&value=wall&from=0&to=1000000");
    let whole = running.json("api/flame?trace=0&value=wall");
    assert!(part["weight"][0].as_u64() < whole["weight"][0].as_u64());
    for path in ["api/report?trace=0", "api/range?trace=0&from=0&to=9000000"] {
        assert!(running.json(path)["sections"][0]["rows"].is_array(), "{path}");
    }
}

#[test]
fn strangers_are_refused() {
    let running = start(vec![open("kineto/llama_small.json.gz")]);
    let (host, token) = (&running.host, &running.token);
    let port = host.rsplit(':').next().unwrap_or_default();
    let check = |path: &str, fields: &str, status: u16| {
        let request = format!("GET {path} HTTP/1.1\r\n{fields}Connection: close\r\n\r\n");
        let answer = running.send(&request);
        assert_eq!(answer.status, status, "{request}");
        if status != 200 {
            let text = String::from_utf8_lossy(&answer.body);
            assert!(!text.contains(token.as_str()), "{text}");
        }
    };
    let own = format!("Host: {host}\r\n");
    let api = format!("/{token}/api/traces");
    check(&api, &own, 200);
    check(&api, &format!("Host: localhost:{port}\r\nOrigin: http://localhost:{port}\r\n"), 200);
    check(&api, &format!("Host: rebound.example:{port}\r\n"), 403);
    check(&api, "", 403);
    check(&api, &format!("{own}Origin: http://evil.example\r\n"), 403);
    check(&api, &format!("{own}Origin: null\r\n"), 403);
    check("/", &own, 403);
    check("/api/traces", &own, 403);
    check("/0123456789abcdef0123456789abcdef/api/traces", &own, 403);
    for path in ["../../../../etc/passwd", "..%2f..%2fetc%2fpasswd", "app.js/../../x", "assets/"] {
        check(&format!("/{token}/{path}"), &own, 404);
    }
    check(&format!("/{token}/api/span?trace=9&span=1"), &own, 404);
    check(&format!("/{token}/api/span?trace=0&span=99999999"), &own, 404);
    check(&format!("/{token}/api/span?trace=0&span=-1"), &own, 404);
    check(&format!("/{token}/api/span?trace=0&span=x"), &own, 400);
    check(&format!("/{token}/api/slices?trace=0&tracks=0,9999"), &own, 404);
    check(&format!("/{token}/api/slices?trace=0&tracks=a"), &own, 400);
    check(&format!("/{token}/api/slices?trace=0&from=9&to=3"), &own, 400);
    check(&format!("/{token}/api/flame?trace=0&value=%3Cscript%3E"), &own, 400);
}

#[test]
fn every_answer_is_typed_and_may_load_nothing_from_elsewhere() {
    let running = start(vec![open("kineto/llama_small.json.gz")]);
    for path in ["", "app.js", "app.css", "api/traces", "api/slices?trace=0", "nowhere"] {
        let head = running.get(path).head;
        for field in [
            "Content-Security-Policy: default-src 'none'; script-src 'self'",
            "X-Content-Type-Options: nosniff",
            "Referrer-Policy: no-referrer",
            "Cache-Control: no-store",
        ] {
            assert!(head.contains(field), "{path}: {head}");
        }
    }
}

/// Who may show the page inside of their own, by what a server says of it.
fn check_frames(server: Server, expected: &str) {
    let running = run(server, Session::new(vec![]));
    let head = running.get("").head;
    assert!(head.contains(expected), "{head}");
}

#[test]
fn only_a_server_for_notebooks_may_be_shown_in_one() {
    let server = || Server::bind(0).expect("a free port");
    check_frames(server(), "; frame-ancestors 'none'\r\n");
    check_frames(server().for_notebooks(), "; frame-ancestors http://localhost:* ");
}

#[test]
fn a_server_that_is_stopped_answers_nobody() {
    let server = Server::bind(0).expect("a free port");
    let stop = server.stop_from_elsewhere().expect("an address");
    let address = server.url().split('/').nth(2).expect("a host").to_owned();
    let session = Session::new(vec![]);
    let thread = thread::spawn(move || server.run(&session));
    // One that says nothing is ended too.
    let mut silent = TcpStream::connect(&address).expect("it listens");
    stop.stop();
    stop.stop();
    thread.join().expect("it returns");
    let mut rest = Vec::new();
    assert_eq!(silent.read_to_end(&mut rest).unwrap_or(0), 0);
}

#[test]
fn names_from_strangers_stay_data() {
    let bad = "</script><script>alert(1)</script>";
    let text = format!(
        r#"{{"traceEvents": [
        {{"ph": "X", "name": "{bad}", "cat": "{bad}", "pid": "{bad}", "tid": "{bad}", "ts": 1,
          "dur": 5, "args": {{"{bad}": "{bad}"}}}},
        {{"ph": "M", "name": "process_name", "pid": "{bad}", "args": {{"name": "{bad}"}}}},
        {{"ph": "i", "name": "{bad}", "pid": "{bad}", "tid": "{bad}", "ts": 2, "s": "t"}},
        {{"ph": "C", "name": "{bad}", "pid": "{bad}", "ts": 2, "args": {{"{bad}": 3}}}}]}}"#
    );
    let running = start(vec![from_text(&text)]);
    let traces = running.json("api/traces");
    let tracks = traces["traces"][0]["tracks"].as_array().expect("tracks");
    let ids: Vec<String> = tracks.iter().map(|track| track["id"].to_string()).collect();
    let ids = ids.join(",");
    assert_eq!(tracks[0]["process_name"], bad);
    for path in [
        format!("api/marks?trace=0&tracks={ids}"),
        format!("api/counters?trace=0&tracks={ids}"),
        "api/span?trace=0&span=0".to_owned(),
        "api/search?trace=0&text=script".to_owned(),
        "api/range?trace=0".to_owned(),
        "api/report?trace=0".to_owned(),
        "api/flame?trace=0".to_owned(),
    ] {
        let answer = running.get(&path);
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.head.contains("Content-Type: application/json\r\n"), "{}", answer.head);
        let parsed: Result<Value, _> = serde_json::from_slice(&answer.body);
        assert!(parsed.is_ok(), "{path}: {}", String::from_utf8_lossy(&answer.body));
    }
    let (head, ..) = columns(&running.get(&format!("api/slices?trace=0&tracks={ids}")).body);
    let names = head["names"].as_object().expect("names");
    assert_eq!(names.values().next().and_then(Value::as_str), Some(bad));
}

#[test]
fn several_requests_share_a_connection() {
    let running = start(vec![open("kineto/llama_small.json.gz")]);
    let (host, token) = (&running.host, &running.token);
    let request =
        |last: &str| format!("GET /{token}/app.css HTTP/1.1\r\nHost: {host}\r\n{last}\r\n");
    let both = format!("{}{}", request(""), request("Connection: close\r\n"));
    let answer = running.send(&both);
    let whole = [answer.head.as_bytes(), &answer.body].concat();
    let text = String::from_utf8_lossy(&whole).into_owned();
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 2);
}

/// The first span of a name, as `api/span` has it.
fn span_named(running: &running::Running, name: &str) -> Value {
    let found = running.json(&format!("api/search?trace=0&text={name}"));
    let span = &found["spans"].as_array().expect("spans")[0]["span"];
    running.json(&format!("api/span?trace=0&span={span}"))
}

#[test]
fn drawn_calls_and_waits_say_what_was_recorded() {
    let running = start(vec![open("perf/recorded.perf")]);
    let run = span_named(&running, "run");
    let events = run["sampled"]["events"].as_array().expect("events");
    // From 1 to 4 ms: two samples of the clock, two page faults under it and one beside.
    let counts: Vec<_> = events.iter().map(|row| (&row["name"], &row["samples"])).collect();
    assert_eq!(format!("{counts:?}").matches("Number(2)").count(), 2, "{counts:?}");
    assert_eq!(run["sampled"]["cpu"], 2_857_143.0);
    assert_eq!(run["sampled"]["mapping"], "/usr/bin/app");
    assert_eq!((&run["sampled"]["lines"], &run["state"]), (&Value::Array(vec![]), &Value::Null));
    let wait = span_named(&running, "mutex%5D");
    let state = &wait["state"];
    assert_eq!((&state["state"], &state["reason"]), (&"blocked".into(), &"mutex".into()));
    assert_eq!((&state["idle"], &state["lock"]), (&false.into(), &Value::Null));
    assert_eq!(state["waker"]["name"], "io 302");
    assert_eq!(state["waker_stack"][2]["name"], "finish");
    assert_eq!(state["stack"][5]["name"], "main");
    assert_eq!(wait["sampled"], Value::Null);
    // 4 to 8 ms of the page: 3.25 ms of the wait, and the samples of both threads.
    let range = running.json("api/range?trace=0&from=4250000&to=8500000");
    let sections = range["sections"].as_array().expect("sections");
    let section = |key: &str| sections.iter().find(|row| row["key"] == key).expect("a section");
    let names = |key: &str, column: &str| -> Vec<String> {
        let columns = section(key)["columns"].as_array().expect("columns");
        let at = columns.iter().position(|row| row["key"] == column).expect("a column");
        let rows = section(key)["rows"].as_array().expect("rows").iter();
        rows.map(|row| row[at].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(names("range_cpu", "function"), ["copy", "hot", "main", "run"]);
    assert!(names("range_waits", "reason").iter().any(|reason| reason == "mutex"));
}

#[test]
fn annotated_traces_have_no_samples_in_ranges() {
    let running = start(vec![open("kineto/llama_small.json.gz")]);
    let range = running.json("api/range?trace=0&from=0&to=9000000");
    let keys: Vec<_> = range["sections"].as_array().expect("sections").iter().collect();
    assert_eq!(keys.len(), 2);
    let span = running.json("api/span?trace=0&span=0");
    assert_eq!((&span["sampled"], &span["state"]), (&Value::Null, &Value::Null));
}
