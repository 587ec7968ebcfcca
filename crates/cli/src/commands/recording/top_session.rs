//! `spanwise top --session`: a program that records itself, seen through its file.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use spanwise_model::{LiveSession, Nanos};
use spanwise_read::SessionFollower;
use spanwise_report::live_state;
use spanwise_write::{Format, LiveState, LiveView, live_document};

use crate::args::LiveArgs;
use crate::commands::recording::top::clear;
use crate::failure::note;
use crate::output::stdout;

pub(in crate::commands) fn run(path: &Path, args: &LiveArgs) -> anyhow::Result<ExitCode> {
    let is_terminal = io::stdout().is_terminal();
    let mut updates_left = args.updates_max(is_terminal);
    let mut follower = SessionFollower::open(path)?;
    let mut polled_at: Option<Instant> = None;
    loop {
        let session = follower.poll()?;
        let now = Instant::now();
        let since_ns = polled_at.map(|before| nanos(now.duration_since(before).as_nanos()));
        polled_at = Some(now);
        let state = live_state(&session);
        let view =
            LiveView { file: &path.to_string_lossy(), state, since_ns, top: args.top.rows() };
        let is_redrawn = is_terminal && updates_left != Some(1);
        draw(&session, &view, args, is_redrawn)?;
        updates_left = updates_left.map(|updates| updates.saturating_sub(1));
        if state != LiveState::Running {
            if is_redrawn {
                note("the session has ended");
            }
            return Ok(ExitCode::SUCCESS);
        }
        if updates_left == Some(0) {
            return Ok(ExitCode::SUCCESS);
        }
        thread::sleep(args.interval);
    }
}

fn nanos(ns: u128) -> Nanos {
    Nanos::try_from(ns).unwrap_or(Nanos::MAX)
}

fn draw(
    session: &LiveSession,
    view: &LiveView<'_>,
    args: &LiveArgs,
    is_redrawn: bool,
) -> anyhow::Result<()> {
    let mut out = stdout();
    let format = args.output.format;
    if is_redrawn && format == Format::Text {
        clear(&mut out)?;
    }
    live_document(session, view).write(format, args.output.style(), &mut out)?;
    Ok(out.flush()?)
}
