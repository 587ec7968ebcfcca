"""GPU time by the Python function that was open where it was launched, with pandas.

What two peers share once they have data frames: each launching call is joined with the innermost
Python function that was open on its thread, which is searched level by level among the last
ones that began before it. As ours, they ask for lines of models and programs: functions without a
line and those of torch itself are left out.
"""

import pandas as pd

# How far up a call is searched for a function that is still open.
LEVELS_MAX = 64


def has_line(names: pd.Series) -> pd.Series:
    """Whether each is a function in a file that is not torch's own."""
    return names.str.contains(r"\.py\(\d+\): ") & ~names.str.contains(r"^torch/|/torch/")


def gpu_by_function(calls: pd.DataFrame, python: pd.DataFrame) -> list[tuple]:
    """Names of functions with their GPU time, most first.

    `calls` has `ts`, `tid` and the `gpu` time that each launched; `python` has `ts`, `dur`, `tid`
    and `name`.
    """
    python = python.sort_values("ts")
    by_function: dict = {}
    for tid, asked in calls.groupby("tid"):
        frames = python[python["tid"] == tid]
        starts, names = frames["ts"].to_numpy(), frames["name"].to_numpy()
        ends = (frames["ts"] + frames["dur"]).to_numpy()
        places = starts.searchsorted(asked["ts"].to_numpy(), side="right") - 1
        for place, time, gpu in zip(places, asked["ts"], asked["gpu"]):
            levels = 0
            while place >= 0 and ends[place] < time and levels < LEVELS_MAX:
                place, levels = place - 1, levels + 1
            if place >= 0 and ends[place] >= time:
                by_function[names[place]] = by_function.get(names[place], 0) + gpu
    return sorted(by_function.items(), key=lambda row: -row[1])
