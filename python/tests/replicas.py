"""Runs of many ranks, made of a recording of four: every rank says its own number."""

import gzip
import json
from pathlib import Path

TESTDATA = Path(__file__).resolve().parents[2] / "testdata"
FOUR = sorted((TESTDATA / "kineto" / "ddp").glob("ddp_rank*.json.gz"))

#: What is left of a rank where hundreds are wanted: all that is waited for, and what is long.
KEPT = {"user_annotation", "kernel", "gpu_memcpy", "gpu_memset"}
LONG_US = 2000


def replicate(folder, count, thin=False):
    """Writes `count` ranks; only their heads are written anew, as members of their own."""
    halves = []
    for path in FOUR:
        trace = json.loads(gzip.decompress(path.read_bytes()))
        events = trace.pop("traceEvents")
        if thin:
            events = [event for event in events if is_kept(event)]
        rest = f'"traceEvents": {json.dumps(events)}}}'
        halves.append((trace, gzip.compress(rest.encode(), 1)))
    paths = []
    for rank in range(count):
        head, rest = halves[rank % len(halves)]
        head["distributedInfo"].update(rank=rank, world_size=count)
        path = Path(folder) / f"run_rank{rank}.json.gz"
        path.write_bytes(gzip.compress((json.dumps(head)[:-1] + ", ").encode(), 1) + rest)
        paths.append(path)
    return paths


def is_kept(event):
    return event["ph"] == "M" or event.get("cat") in KEPT or event.get("dur", 0) > LONG_US
