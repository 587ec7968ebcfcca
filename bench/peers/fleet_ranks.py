"""Read a folder of ranks as a fleet: FOLDER, then "threads" or "ray", then so many workers."""

import json
import resource
import sys
import time

import spanwise as sw

folder, where, workers = sys.argv[1], sys.argv[2], int(sys.argv[3])
cluster = None
if where == "ray":
    import ray

    # Started before: a cluster is there for more than one question.
    cluster = "local"
    ray.init(
        address="local",
        num_cpus=workers,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
    )
    # Every worker has begun, and has imported what it needs.
    sw.fleet(folder + "/rank[0-3]-*", cluster=cluster)

start = time.perf_counter()
fleet = sw.fleet(folder, cluster=cluster, workers=workers)
fleet.ranks()
load_s = time.perf_counter() - start

costs = fleet.costs()
peaks = {}
for worker, peak in zip(costs["worker"], costs["peak_bytes"]):
    peaks[worker] = max(peak, peaks.get(worker, 0))
kept = sum(len(table.to_ipc()) for table in (fleet.files(), fleet.calls(), fleet.activities()))
all_kept = sum(len(table.to_ipc()) for table in fleet._tables.values())
figures = {
    "load_s": load_s,
    "ranks": len(fleet),
    "unread": len(fleet.unread),
    "reading_s": sum(costs["seconds"]),
    "workers": len(peaks),
    "worker_peak_bytes": max(peaks.values()),
    "own_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    "kept_bytes": kept,
    "all_kept_bytes": all_kept,
    "version": sw.__version__,
}
print(json.dumps(figures), flush=True)
