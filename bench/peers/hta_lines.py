"""GPU time by the Python function that launched it, with HTA's data frame and pandas.

HTA has no such question. This is what one writes in a notebook: kernels joined with their
launching calls, and each call with the innermost Python function that was open on its thread,
which is looked for level by level among the last ones that began before it.
"""

import json
import sys
import time
from importlib.metadata import version

import pandas as pd
from hta.common.trace import parse_trace_file

# How far up a call looks for a function that is still open.
LEVELS_MAX = 64

start = time.perf_counter()
_, events, symbols = parse_trace_file(sys.argv[1])
parsed_s = time.perf_counter() - start
names = pd.Series(symbols.get_sym_table())
categories = {name: number for name, number in symbols.get_sym_id_map().items()}

kernels = events[(events["stream"] >= 0) & (events["index_correlation"] > 0)]
calls = events.loc[kernels["index_correlation"], ["ts", "tid"]].reset_index(drop=True)
calls["gpu"] = kernels["dur"].to_numpy()
python = events[events["cat"] == categories.get("python_function", -1)]
python = python[["ts", "dur", "tid", "name"]].sort_values("ts")
python["end"] = python["ts"] + python["dur"]

by_function: dict[int, float] = {}
for tid, asked in calls.groupby("tid"):
    frames = python[python["tid"] == tid]
    starts, ends = frames["ts"].to_numpy(), frames["end"].to_numpy()
    ids = frames["name"].to_numpy()
    places = starts.searchsorted(asked["ts"].to_numpy(), side="right") - 1
    for place, moment, gpu in zip(places, asked["ts"], asked["gpu"]):
        levels = 0
        while place >= 0 and ends[place] < moment and levels < LEVELS_MAX:
            place, levels = place - 1, levels + 1
        if place >= 0 and ends[place] >= moment:
            by_function[ids[place]] = by_function.get(ids[place], 0) + gpu
found = sorted(by_function.items(), key=lambda row: -row[1])
load_s = time.perf_counter() - start

top = f"{found[0][1] / 1e3:,.1f} ms by {names[found[0][0]]}" if found else "nothing"
top += f"; {parsed_s:.1f} s to parse"
print(
    json.dumps(
        {"load_s": load_s, "version": version("HolisticTraceAnalysis"), "read": top}
    ),
    flush=True,
)
