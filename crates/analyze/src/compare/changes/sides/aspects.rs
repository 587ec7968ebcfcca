//! What besides the rows shows causes: waiting for the GPU, copies through the host, idle
//! devices, exposed communication, and how long phases are open.

use spanwise_model::{ArgValue, SpanId, SpanKind};

use crate::compare::changes::sides::keys::function_text;
use crate::compare::changes::sides::series::{
    Aspect, Cell, ComparePlace, CompareSeries, Group, RowSeries,
};
use crate::compare::changes::sides::sums::PlacedWork;
use crate::compare::changes::sides::window::Window;
use crate::gpu::breakdown::device_breakdown;
use crate::gpu::launching_frame::Launchers;
use crate::gpu::syncs::{SyncCall, sync_costs};
use crate::{Facts, TotalNanos};

/// Stands between what waits and the function it waits in.
pub(in crate::compare::changes) const IN: &str = " @ ";

pub(in crate::compare::changes) const IDLE: &str = "idle";
pub(in crate::compare::changes) const BUSY: &str = "busy";
pub(in crate::compare::changes) const EXPOSED: &str = "exposed communication";

pub(in crate::compare::changes) fn gather(
    facts: &Facts,
    window: &Window,
    work: &[PlacedWork],
    launchers: &Launchers<'_>,
    series: &mut CompareSeries,
) {
    series.groups.insert(Aspect::Syncs, syncs(facts, window));
    series.groups.insert(Aspect::Copies, copies(facts, window, work, launchers));
    series.groups.insert(Aspect::Devices, devices(facts, window, series));
    series.groups.insert(Aspect::PhaseWalls, phase_walls(window));
}

fn add(
    group: &mut Group,
    steps: usize,
    key: (ComparePlace, String),
    at: usize,
    cell: Cell,
) -> &mut RowSeries {
    let row = group.entry(key).or_default();
    row.cells.resize(steps, Cell::default());
    row.cells[at].add(cell);
    row
}

/// The host inside the call (waiting), and the GPU without work afterwards (wall).
fn syncs(facts: &Facts, window: &Window) -> Group {
    let spans = facts.trace().spans();
    let mut group = Group::new();
    for SyncCall { call, idle_ns } in sync_costs(facts) {
        let Some(at) = window.at(spans.start(call)) else { continue };
        if !window.is_in_phase(facts, call) {
            continue;
        }
        let name = |span: SpanId| facts.names().text(facts.names().merged(spans.name(span)));
        let asked = facts.asked_operators().around(spans.parent(call)).unwrap_or(call);
        let line = facts.frames().line(call).map(|line| name(line).into_owned());
        let function = line.as_deref().map(function_text).unwrap_or_default();
        let key = format!("{}{IN}{function}", name(asked));
        let blocked = Cell { ns: i128::from(spans.dur(call)), count: 1 };
        let row =
            add(&mut group, window.count(), (ComparePlace::Waiting, key.clone()), at, blocked);
        if let Some(line) = line {
            row.behind.lines.entry(line).or_default().add(blocked);
        }
        let idle = Cell { ns: idle_ns, count: u64::from(idle_ns > 0) };
        add(&mut group, window.count(), (ComparePlace::Wall, key), at, idle);
    }
    group
}

/// Copies between the GPU and pageable memory, by launching function.
fn copies(facts: &Facts, window: &Window, work: &[PlacedWork], launchers: &Launchers<'_>) -> Group {
    let trace = facts.trace();
    let mut group = Group::new();
    for &PlacedWork { work, at } in work {
        let is_staged =
            trace.kind(work) == SpanKind::Memcpy && trace.name(work).contains("Pageable");
        let Some(at) = at.filter(|_| is_staged) else { continue };
        let line = launchers.of(work).line.map(|line| facts.names().text(line).into_owned());
        let function = line.as_deref().map(function_text).unwrap_or_default();
        let cell = Cell { ns: i128::from(trace.spans().dur(work)), count: 1 };
        let row = add(&mut group, window.count(), (ComparePlace::Gpu, function), at, cell);
        let bytes = trace.pick_args(work, &["bytes"]).ok();
        let bytes = bytes.and_then(|args| args.first()?.as_ref().and_then(ArgValue::as_i64));
        row.behind.copied_bytes += i128::from(bytes.unwrap_or(0).max(0));
        row.behind.copied_ns += cell.ns;
        let kernel = facts.names().text(facts.names().merged(trace.spans().name(work)));
        row.behind.kernels.entry(kernel.into_owned()).or_default().add(cell);
        if let Some(line) = line {
            row.behind.lines.entry(line).or_default().add(cell);
        }
    }
    group
}

/// All devices together, in each step.
fn devices(facts: &Facts, window: &Window, series: &CompareSeries) -> Group {
    let mut group = Group::new();
    for row in device_breakdown(facts) {
        let step =
            row.step.map(|number| series.steps.iter().position(|step| step.number == number));
        let at = match (series.has_steps, step) {
            (true, Some(Some(at))) => at,
            (false, None) => 0,
            _ => continue,
        };
        let parts: [(&str, TotalNanos); 3] =
            [(IDLE, row.idle_ns), (BUSY, row.busy_ns()), (EXPOSED, row.exposed_communication_ns)];
        for (name, ns) in parts {
            let key = (ComparePlace::Wall, name.to_owned());
            add(&mut group, window.count(), key, at, Cell { ns, count: 1 });
        }
    }
    group
}

fn phase_walls(window: &Window) -> Group {
    let mut group = Group::new();
    for (&(phase, row), &ns) in &window.phase_walls {
        let Some(at) = window.place(row) else { continue };
        let key = (ComparePlace::Wall, phase.text().to_owned());
        add(&mut group, window.count(), key, at, Cell { ns, count: 1 });
    }
    group
}
