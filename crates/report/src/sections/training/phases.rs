//! Time and GPU work by phase and by step.

use spanwise_analyze::{PhaseRow, PhaseUse, Spread, StepRow};
use spanwise_write::{Cell, Column, Columns, Content, Top, count_text, nanos_text};

use crate::sections::{SectionDef, Shown};

const UNKNOWN: &str = "[unknown]";

pub(in crate::sections) const PHASES: SectionDef = SectionDef {
    key: "phases",
    title: "Phases: host time by step, and the GPU work launched in them",
    about: "prefill, decode, forward, backward and so on: time, GPU work, tokens",
    shown: Shown::Always,
    method: "phases",
    content: |request| phases(request.facts.phase_use()),
};

fn phases(phases: &PhaseUse) -> Content {
    let has_tokens = phases.phases.iter().any(|row| row.tokens.is_some());
    // A single row without a phase is not worth showing.
    let has_phases = phases.phases.iter().any(|row| row.phase.is_some());
    let rows: &[PhaseRow] = if has_phases { &phases.phases } else { &[] };
    let wall = |row: &PhaseRow, of: fn(Spread) -> i128| Cell::from(row.wall.map(of));
    let content = Columns::<PhaseRow>::new()
        .add(Column::text("phase", "phase"), |row| {
            row.phase.map_or(UNKNOWN, |phase| phase.text()).into()
        })
        .add(Column::count("steps", "steps"), |row| row.steps.into())
        .add(Column::nanos("wall", "wall"), |row| wall(row, |wall| wall.total_ns))
        .add(Column::nanos("wall_median", "median"), |row| wall(row, |wall| wall.median_ns))
        .add(Column::nanos("wall_min", "min").optional(), |row| wall(row, |wall| wall.min_ns))
        .add(Column::nanos("wall_max", "max").optional(), |row| wall(row, |wall| wall.max_ns))
        .add(Column::nanos("gpu_busy", "GPU busy"), |row| row.gpu.busy_ns.into())
        .add(Column::nanos("gpu_work", "GPU work"), |row| row.gpu.work_ns.into())
        .add(Column::percent("gpu_share", "of GPU"), |row| {
            Cell::Share(row.gpu.work_ns, phases.work_ns)
        })
        .add(Column::count("launches", "launches"), |row| row.gpu.launches.into())
        .add(Column::count("requests", "requests").optional().in_text_if(has_tokens), |row| {
            row.requests.into()
        })
        .add(Column::count("tokens", "tokens").in_text_if(has_tokens), |row| row.tokens.into())
        .content(rows, Top::All);
    match phases.work_ns > 0 {
        true => content.when_empty(
            "the trace marks no phases: annotate steps with torch.profiler.record_function",
        ),
        false => content,
    }
}

pub(in crate::sections) const STEPS: SectionDef = SectionDef {
    key: "steps",
    title: "Steps",
    about: "each step: time, GPU work, tokens",
    shown: Shown::OnRequest,
    method: "steps",
    content: |request| steps(request.facts.phase_use(), request.top),
};

fn steps(phases: &PhaseUse, top: Top) -> Content {
    let has_phase = phases.steps.iter().any(|row| row.phase.is_some());
    let has_tokens = phases.steps.iter().any(|row| row.tokens.is_some());
    let mut content = Columns::<StepRow>::new()
        .add(Column::count("step", "step"), |row| row.number.into())
        .add(Column::text("phase", "phase").in_text_if(has_phase), |row| {
            row.phase.map(|phase| phase.text().to_owned()).into()
        })
        .add(Column::nanos("start", "start"), |row| row.start_ns.into())
        .add(Column::nanos("wall", "wall"), |row| row.wall_ns.into())
        .add(Column::nanos("gpu_busy", "GPU busy"), |row| row.gpu.busy_ns.into())
        .add(Column::nanos("gpu_work", "GPU work"), |row| row.gpu.work_ns.into())
        .add(Column::count("launches", "launches"), |row| row.gpu.launches.into())
        .add(Column::count("requests", "requests").optional().in_text_if(has_tokens), |row| {
            row.requests.into()
        })
        .add(Column::count("tokens", "tokens").in_text_if(has_tokens), |row| row.tokens.into())
        .add(Column::text("name", "name"), |row| row.name.as_str().into())
        .content(&phases.steps, top)
        .titled(steps_title(phases))
        .when_empty("the trace marks no steps: call profiler.step() after each, or annotate them");
    let outside = phases.outside_steps;
    if !phases.steps.is_empty() && outside.launches > 0 && content.left_out == 0 {
        content.push([
            ("gpu_busy", outside.busy_ns.into()),
            ("gpu_work", outside.work_ns.into()),
            ("launches", outside.launches.into()),
            ("name", "[launched outside of steps]".into()),
        ]);
    }
    content
}

/// "Steps: 24, wall 5.100 ms in the middle, from 4.900 ms to 6.000 ms"
fn steps_title(phases: &PhaseUse) -> String {
    match Spread::of(phases.steps.iter().map(|row| row.wall_ns).collect()) {
        None => STEPS.title.to_owned(),
        Some(wall) => format!(
            "Steps: {}, wall {} in the middle, from {} to {}",
            count_text(phases.steps.len() as i128),
            nanos_text(wall.median_ns),
            nanos_text(wall.min_ns),
            nanos_text(wall.max_ns),
        ),
    }
}
