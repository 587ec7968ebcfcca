//! Time and GPU work by phase and by step.

use spanwise_analyze::{GpuPart, PhaseUse, Spread};

use crate::Top;
use crate::document::sectioned::{Body, Section};
use crate::document::table::{Cell, Column, Table, Unit};
use crate::document::units::{count_text, nanos_text};

const UNKNOWN: &str = "[unknown]";

pub fn phases_section(phases: &PhaseUse) -> Section {
    let nanos = |key, title| Column::new(key, title, Unit::Nanos);
    let has_tokens = phases.phases.iter().any(|row| row.tokens.is_some());
    let mut table = Table::new([
        Column::new("phase", "phase", Unit::Text),
        Column::new("steps", "steps", Unit::Count),
        nanos("wall", "wall"),
        nanos("wall_median", "median"),
        nanos("wall_min", "min").optional(),
        nanos("wall_max", "max").optional(),
        nanos("gpu_busy", "GPU busy"),
        nanos("gpu_work", "GPU work"),
        Column::new("gpu_share", "of GPU", Unit::Percent),
        Column::new("launches", "launches", Unit::Count),
        Column {
            in_text: has_tokens,
            ..Column::new("requests", "requests", Unit::Count).optional()
        },
        Column { in_text: has_tokens, ..Column::new("tokens", "tokens", Unit::Count) },
    ]);
    for row in &phases.phases {
        let wall = |of: fn(Spread) -> i128| Cell::from(row.wall.map(of));
        table.push([
            row.phase.map_or(UNKNOWN, |phase| phase.text()).into(),
            row.steps.into(),
            wall(|wall| wall.total_ns),
            wall(|wall| wall.median_ns),
            wall(|wall| wall.min_ns),
            wall(|wall| wall.max_ns),
            row.gpu.busy_ns.into(),
            row.gpu.work_ns.into(),
            Cell::Share(row.gpu.work_ns, phases.work_ns),
            row.gpu.launches.into(),
            row.requests.into(),
            row.tokens.into(),
        ]);
    }
    // A single row that tells nothing is no answer for people.
    let tells = phases.phases.iter().any(|row| row.phase.is_some());
    let when_empty =
        "the trace marks no phases: annotate steps with torch.profiler.record_function";
    if !tells {
        table = Table::new(table.columns().to_vec());
    }
    Section {
        key: "phases",
        title: "Phases: host time by step, and the GPU work launched in them".to_owned(),
        body: Body::Rows(table),
        when_empty: Some(when_empty).filter(|_| phases.work_ns > 0),
        left_out: 0,
    }
}

pub fn steps_section(phases: &PhaseUse, top: Top) -> Section {
    let steps = &phases.steps;
    let has_phase = steps.iter().any(|row| row.phase.is_some());
    let has_tokens = steps.iter().any(|row| row.tokens.is_some());
    let nanos = |key, title| Column::new(key, title, Unit::Nanos);
    let mut table = Table::new([
        Column::new("step", "step", Unit::Count),
        Column { in_text: has_phase, ..Column::new("phase", "phase", Unit::Text) },
        nanos("start", "start"),
        nanos("wall", "wall"),
        nanos("gpu_busy", "GPU busy"),
        nanos("gpu_work", "GPU work"),
        Column::new("launches", "launches", Unit::Count),
        Column {
            in_text: has_tokens,
            ..Column::new("requests", "requests", Unit::Count).optional()
        },
        Column { in_text: has_tokens, ..Column::new("tokens", "tokens", Unit::Count) },
        Column::new("name", "name", Unit::Text),
    ]);
    let gpu = |part: GpuPart| [part.busy_ns.into(), part.work_ns.into(), part.launches.into()];
    for row in top.of(steps) {
        let [busy, work, launches] = gpu(row.gpu);
        table.push([
            row.number.into(),
            row.phase.map(|phase| phase.text().to_owned()).into(),
            row.start_ns.into(),
            row.wall_ns.into(),
            busy,
            work,
            launches,
            row.requests.into(),
            row.tokens.into(),
            row.name.as_str().into(),
        ]);
    }
    let left_out = steps.len() - table.rows().len();
    if !steps.is_empty() && phases.outside_steps.launches > 0 && left_out == 0 {
        let [busy, work, launches] = gpu(phases.outside_steps);
        let none = || Cell::None;
        let name = "[launched outside of steps]".into();
        table.push([none(), none(), none(), none(), busy, work, launches, none(), none(), name]);
    }
    Section {
        key: "steps",
        title: steps_title(phases),
        body: Body::Rows(table),
        when_empty: Some(
            "the trace marks no steps: call profiler.step() after each, or annotate them",
        ),
        left_out,
    }
}

/// "Steps: 24, wall 5.100 ms in the middle, from 4.900 ms to 6.000 ms"
fn steps_title(phases: &PhaseUse) -> String {
    match Spread::of(phases.steps.iter().map(|row| row.wall_ns).collect()) {
        None => "Steps".to_owned(),
        Some(wall) => format!(
            "Steps: {}, wall {} in the middle, from {} to {}",
            count_text(phases.steps.len() as i128),
            nanos_text(wall.median_ns),
            nanos_text(wall.min_ns),
            nanos_text(wall.max_ns),
        ),
    }
}
