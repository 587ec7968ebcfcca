"""Load a trace with bare `orjson.loads`: the floor of every reader in Python."""

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path

import orjson

start = time.perf_counter()
trace = orjson.loads(Path(sys.argv[1]).read_bytes())
load_s = time.perf_counter() - start

print(
    json.dumps(
        {
            "load_s": load_s,
            "version": version("orjson"),
            "read": f"{len(trace['traceEvents']):,} events as dictionaries",
        }
    ),
    flush=True,
)
