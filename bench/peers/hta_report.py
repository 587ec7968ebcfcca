"""Ask HolisticTraceAnalysis what a report of ours answers: `hta_report.py TRACE`.

The trace is loaded as one rank, and the questions that both programs answer are asked
one after the other, without drawing. One that fails is named and the others go on.
"""

import json
import sys
import time
from importlib.metadata import version

from hta.trace_analysis import TraceAnalysis

# Name in the output, method, its options.
QUESTIONS = [
    ("temporal", "get_temporal_breakdown", {"visualize": False}),
    ("idle", "get_idle_time_breakdown", {"visualize": False}),
    ("overlap", "get_comm_comp_overlap", {"visualize": False}),
    ("kernels", "get_gpu_kernel_breakdown", {"visualize": False}),
    ("launches", "get_cuda_kernel_launch_stats", {"visualize": False}),
    ("queue", "get_queue_length_summary", {}),
]


def main() -> None:
    start = time.perf_counter()
    analysis = TraceAnalysis(trace_files={0: sys.argv[1]})
    total_s = time.perf_counter() - start
    took = [f"load {total_s:.1f} s"]
    for name, method, options in QUESTIONS:
        start = time.perf_counter()
        try:
            getattr(analysis, method)(**options)
            word = ""
        except Exception as error:  # Whatever it is, the other questions still count.
            word = f" (failed: {type(error).__name__})"
        question_s = time.perf_counter() - start
        total_s += question_s
        took.append(f"{name} {question_s:.1f} s{word}")
    result = {
        "load_s": total_s,
        "version": version("HolisticTraceAnalysis"),
        "read": ", ".join(took),
    }
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
