//! Two traces set against each other, and flame graphs of all sorts.

use serde_json::Value;

use crate::running::{Running, from_text, open, start};

fn numbers(value: &Value) -> Vec<i64> {
    value.as_array().expect("a list").iter().map(|one| one.as_i64().expect("a number")).collect()
}

/// The names of the frames right below the whole, with their weights.
fn roots(flame: &Value) -> Vec<(String, i64)> {
    let (parents, names) = (numbers(&flame["parent"]), numbers(&flame["name"]));
    let weights = numbers(&flame["weight"]);
    let roots = (0..parents.len()).filter(|&node| parents[node] == 0);
    let name = |node: usize| flame["names"][names[node] as usize].as_str().expect("text");
    roots.map(|node| (name(node).to_owned(), weights[node])).collect()
}

fn two() -> Running {
    start(vec![open("kineto/llama_small.json.gz"), open("kineto/llama_small_eager.json.gz")])
}

#[test]
fn kernels_that_communicate_have_a_kind_of_their_own() {
    let kernel = |name: &str, at: u32| {
        format!(
            "{{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"{name}\", \"pid\": 0, \"tid\": 7, \
             \"ts\": {at}, \"dur\": 5}}"
        )
    };
    let events = [kernel("ncclDevKernel_AllReduce", 10), kernel("gemm", 20)].join(", ");
    let running = start(vec![from_text(&format!("{{\"traceEvents\": [{events}]}}"))]);
    let kinds = &running.json("api/traces")["kinds"];
    for (span, expected) in ["communication", "kernel"].iter().enumerate() {
        let kind = running.json(&format!("api/span?trace=0&span={span}"))["kind"].as_u64();
        assert_eq!(kinds[kind.expect("an index") as usize], *expected);
    }
}

#[test]
fn flame_graphs_say_what_their_frames_are() {
    let running = two();
    let kinds = &running.json("api/traces")["kinds"];
    let flame = running.json("api/flame?trace=0&value=gpu");
    let (names, kind) = (numbers(&flame["name"]), numbers(&flame["kind"]));
    let mut seen = 0;
    for (node, &name) in names.iter().enumerate() {
        let name = flame["names"][name as usize].as_str().expect("text");
        let expected = match name {
            "cudaLaunchKernel" | "cudaLaunchKernelExC" => "runtime",
            name if name.starts_with("aten::") => "operator",
            name if name.contains(".py(") => "python",
            _ => continue,
        };
        assert_eq!(kinds[kind[node] as usize], expected, "{name}");
        seen += 1;
    }
    assert!(seen > 20, "{seen} frames");
}

#[test]
fn groups_add_up_to_the_whole() {
    let running = two();
    for value in ["wall", "gpu", "count"] {
        let whole = running.json(&format!("api/flame?trace=0&value={value}"));
        for group in ["thread", "phase", "step"] {
            let flame = running.json(&format!("api/flame?trace=0&value={value}&group={group}"));
            assert_eq!(flame["total"], whole["total"], "{value} {group}");
            let below: i64 = roots(&flame).iter().map(|row| row.1).sum();
            let own = numbers(&flame["self"])[0];
            assert!(below + own <= whole["total"].as_i64().expect("a number"));
            assert!(!roots(&flame).is_empty(), "{value} {group}");
        }
    }
    let trained = start(vec![open("kineto/ddp/ddp_rank0.json.gz")]);
    let steps = roots(&trained.json("api/flame?trace=0&group=step"));
    assert!(steps.iter().filter(|(name, _)| name.starts_with("step ")).count() > 1, "{steps:?}");
    let ranks = running.json("api/flame?trace=0&group=rank");
    let names: Vec<String> = roots(&ranks).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let sum = |path: &str| running.json(path)["total"].as_i64().expect("a number");
    assert_eq!(ranks["total"].as_i64(), Some(sum("api/flame?trace=0") + sum("api/flame?trace=1")));
    assert_eq!(running.get("api/flame?trace=0&group=colour").status, 400);
    assert_eq!(running.get("api/flame?trace=0&group=rank&base=1").status, 400);
    assert_eq!(running.get("api/flame?trace=0&base=7").status, 404);
}

#[test]
fn a_flame_graph_of_a_change_has_both_sides() {
    let running = two();
    let same = running.json("api/flame?trace=0&base=0&value=gpu");
    assert_eq!(same["weight"], same["base"]["weight"]);
    assert_eq!(same["self"], same["base"]["self"]);
    let change = running.json("api/flame?trace=1&base=0&value=gpu");
    let back = running.json("api/flame?trace=0&base=1&value=gpu");
    assert_eq!(change["total"], back["base"]["total"]);
    assert_ne!(change["total"], change["base"]["total"]);
    let (weights, before) = (numbers(&change["weight"]), numbers(&change["base"]["weight"]));
    assert_eq!(weights.len(), before.len());
    assert!(weights.iter().zip(&before).any(|(now, before)| *now == 0 && *before > 0));
    assert!(weights.iter().zip(&before).any(|(now, before)| *now > 0 && *before == 0));
}

#[test]
fn rows_of_a_comparison_lead_to_both_traces() {
    let running = two();
    let answer = running.json("api/compare?base=0&other=1");
    let sections = answer["sections"].as_array().expect("sections");
    let changes = sections.iter().find(|section| section["key"] == "changes").expect("changes");
    let column = |key: &str| {
        let columns = changes["columns"].as_array().expect("columns");
        columns.iter().position(|column| column["key"] == key).expect(key)
    };
    let (place, what) = (column("place"), column("key"));
    let rows = changes["rows"].as_array().expect("rows");
    let mut both = 0;
    for (at, row) in rows.iter().enumerate() {
        let sides = [&changes["places"][at], &changes["other_places"][at]];
        for (trace, place_of) in sides.iter().enumerate().filter(|(_, place)| !place.is_null()) {
            let span = running.json(&format!("api/span?trace={trace}&span={}", place_of["span"]));
            assert_eq!(span["start"].as_f64(), place_of["from"].as_f64());
            let names = span["stack"].as_array().expect("a stack").iter().map(|it| &it["name"]);
            let is_operator = |name: &Value| name == &row[what];
            if row[place] == "host" && row[what].as_str().is_some_and(|it| it.starts_with("aten")) {
                assert!(is_operator(&span["name"]) || { names }.any(is_operator), "{row} {span}");
            }
        }
        both += usize::from(sides.iter().all(|place| !place.is_null()));
    }
    assert!(both > 5, "{both} of {} rows are in both", rows.len());
}
