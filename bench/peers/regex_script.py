"""Decode text of `perf script` the plain way: a regular expression a line, a list as stack.

Calls push, returns pop, everything else is read and dropped. It is what a script of a
page does, and what most such scripts do.
"""

import json
import re
import sys
import time
from pathlib import Path

LINE = re.compile(
    r"^\s*(?P<pid>\d+)/(?P<tid>\d+)\s+(?P<time>\d+\.\d+):\s+(?P<period>\d+)\s+"
    r"(?P<event>[\w-]+)[^ ]*:\s+"
    r"(?P<kind>call|return|jmp|jcc|syscall|sysret|iret|int|hw int|tx abrt|async"
    r"|tr strt|tr end(?:\s+\w+)?)\s+"
    r"(?P<from>[0-9a-f]+) (?P<from_name>.*?)(?:\+0x(?P<from_offset>[0-9a-f]+))? "
    r"\((?P<from_file>[^()]*)\) =>\s+"
    r"(?P<to>[0-9a-f]+) (?P<to_name>.*?)(?:\+0x(?P<to_offset>[0-9a-f]+))? "
    r"\((?P<to_file>[^()]*)\)\s*$"
)

start = time.perf_counter()
calls = []
stacks: dict[str, list[tuple[str, int]]] = {}
lines = 0
with Path(sys.argv[1]).open(errors="replace") as file:
    for line in file:
        lines += 1
        found = LINE.match(line)
        if found is None:
            continue
        stack = stacks.setdefault(found["tid"], [])
        whole, part = found["time"].split(".")
        time_ns = int(whole) * 10**9 + int(part)
        kind = found["kind"]
        if kind == "call":
            stack.append((found["to_name"], time_ns))
        elif kind == "return" and stack:
            name, began_ns = stack.pop()
            calls.append((name, began_ns, time_ns))
load_s = time.perf_counter() - start

print(
    json.dumps({"load_s": load_s, "read": f"{lines:,} lines, {len(calls):,} calls"}),
    flush=True,
)
