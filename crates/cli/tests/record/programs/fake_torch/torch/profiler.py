"""The profiler that programs use."""

import enum
import json
import os

from .autograd import profiler as _kineto

BASE_NS = 1_700_000_000_000_000_000


class ProfilerActivity(enum.Enum):
    CPU = 0
    CUDA = 2


def supported_activities():
    return set(ProfilerActivity)


class profile:
    def __init__(self, activities=None):
        self.activities = activities

    def start(self):
        self.profiler = _kineto.profile()
        self.profiler._prepare_trace()

    def stop(self):
        self.profiler.__exit__(None, None, None)

    def export_chrome_trace(self, path):
        rows = []
        for number, (began, ended, tid) in enumerate(self.profiler.events, 1):
            start, dur, pid = (began - BASE_NS) / 1000, (ended - began) / 1000, os.getpid()

            def row(category, name, shift, of, **args):
                return {"ph": "X", "cat": category, "name": name, "ts": start + dur * shift,
                        "dur": dur * (1 - 2 * shift), **of, "args": args}

            host = {"pid": pid, "tid": tid}
            gpu = {"pid": 0, "tid": 7}
            rows.append(row("cpu_op", "aten::mm", 0, host, **{"External id": number}))
            launch = {"External id": number, "correlation": number}
            rows.append(row("cuda_runtime", "cudaLaunchKernel", 0.1, host, **launch))
            kernel = {"device": 0, "stream": 7, **launch}
            rows.append(row("kernel", "fake_gemm_kernel", 0.2, gpu, **kernel))
        trace = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "Fake GPU"}],
                 "baseTimeNanoseconds": BASE_NS, "displayTimeUnit": "ms", "traceEvents": rows}
        with open(path, "w") as file:
            json.dump(trace, file)
