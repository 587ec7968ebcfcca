"""Counts the events of traces by phase, as an oracle for the reader's tests.

Takes paths on stdin, one a line. Prints one line of JSON for each:
{"path": ..., "counts": {"X": 3, ...}} or {"path": ..., "error": "..."}.
Plain Python and its own json, so that nothing here is shared with the reader.
"""

import collections
import gzip
import json
import lzma
import sys

OPENERS = {b"\x1f\x8b": gzip.open, b"\xfd7": lzma.open}


def phase(event):
    found = event.get("ph") if isinstance(event, dict) else None
    return found if isinstance(found, str) and len(found) == 1 else "?"


def count(path):
    with open(path, "rb") as file:
        opener = OPENERS.get(file.read(2), open)
    with opener(path, "rb") as file:
        document = json.load(file)
    events = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(events, list):
        raise ValueError("not a trace: no traceEvents")
    counts = collections.Counter(map(phase, events))
    if not isinstance(document, dict) and set(counts) == {"?"}:
        raise ValueError("not a trace: an array of other things")
    return counts


for path in sys.stdin.read().splitlines():
    try:
        answer = {"path": path, "counts": count(path)}
    except (ValueError, OSError, EOFError) as error:
        answer = {"path": path, "error": f"{type(error).__name__}: {error}"[:200]}
    print(json.dumps(answer), flush=True)
