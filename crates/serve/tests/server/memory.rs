//! Memory that PyTorch recorded is shown as counters.

use serde_json::{Value, json};

use crate::running::{from_text, start};

/// An allocation (or free, below 0) of GPU 0 at a time, with what is then held and reserved.
fn event(ts: u32, bytes: i64, allocated: i64, reserved: i64) -> String {
    format!(
        r#"{{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 10,
        "tid": 10, "ts": {ts}, "args": {{"Bytes": {bytes}, "Device Id": 0, "Device Type": 1,
        "Total Reserved": {reserved}, "Total Allocated": {allocated}, "Addr": {ts}}}}}"#
    )
}

#[test]
fn allocations_become_counters_of_their_process() {
    let events = [event(2, 50, 150, 1000), event(5, 100, 250, 1000), event(8, -100, 150, 2000)];
    let running = start(vec![from_text(&format!(
        r#"{{"traceEvents": [
        {{"ph": "M", "name": "process_name", "pid": 10, "args": {{"name": "train"}}}},
        {{"ph": "X", "cat": "cpu_op", "name": "aten::empty", "pid": 10, "tid": 10, "ts": 0,
          "dur": 10}},
        {}]}}"#,
        events.join(",")
    ))]);
    let traces = running.json("api/traces");
    let tracks = traces["traces"][0]["tracks"].as_array().expect("tracks");
    let counters: Vec<&Value> = tracks.iter().filter(|track| track["kind"] == "counter").collect();
    let described = |counter: &Value| {
        let keys = ["process", "process_name", "thread_name", "least", "most", "unit"];
        json!(keys.map(|key| counter[key].clone()))
    };
    let descriptions: Vec<Value> = counters.iter().map(|counter| described(counter)).collect();
    assert_eq!(
        json!(descriptions),
        json!([
            ["10", "train", "GPU 0 memory, allocated", 100.0, 250.0, "bytes"],
            ["10", "train", "GPU 0 memory, reserved", 1000.0, 2000.0, "bytes"],
        ])
    );

    let [allocated, reserved] = [0, 1].map(|at| counters[at]["id"].as_u64().expect("a number"));
    let answer = running.json(&format!("api/counters?trace=0&pixels=10&tracks={allocated}"));
    assert_eq!(
        answer["tracks"][0]["points"],
        json!([
            [0.0, 100.0, 100.0, 100.0],
            [2000.0, 150.0, 150.0, 150.0],
            [5000.0, 250.0, 250.0, 250.0],
            [8000.0, 150.0, 150.0, 150.0],
        ])
    );
    for (question, track) in [("counters", reserved + 1), ("slices", reserved), ("marks", reserved)]
    {
        let status = running.get(&format!("api/{question}?trace=0&tracks={track}")).status;
        assert_eq!(status, 404, "{question} of {track}");
    }
}
