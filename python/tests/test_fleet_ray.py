"""Fleets on a real cluster of Ray, started here and ended here: the same answers to the byte."""

import os
import signal
from pathlib import Path

import pytest
from replicas import replicate
from test_fleet import bytes_of

import spanwise as sw

ray = pytest.importorskip("ray", reason="no Ray for this Python: fleets on clusters are not tested")

WORKERS = 3
#: The small files make this many a matter of seconds.
RANKS = int(os.environ.get("SPANWISE_RANKS", 256))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run, with one file that is no trace, and what threads make of it."""
    folder = tmp_path_factory.mktemp("run")
    replicate(folder, RANKS - 1, thin=True)
    (folder / f"run_rank{RANKS - 1}.json.gz").write_text("<html>")
    return folder, bytes_of(sw.fleet(folder))


@pytest.fixture(scope="module")
def cluster():
    """A cluster with several worker processes."""
    start_cluster()
    yield
    ray.shutdown()


def start_cluster(tries=3):
    """Ray gives itself 30 seconds to start; a machine that is busy with other things needs more."""
    for _ in range(tries):
        try:
            ray.init(
                address="local",
                num_cpus=WORKERS,
                include_dashboard=False,
                log_to_driver=False,
                object_store_memory=100 << 20,
            )
            return
        except Exception as reason:
            ray.shutdown()
            if "timed out during startup" not in str(reason):
                raise
    pytest.skip("Ray did not start in time: fleets on clusters are not tested")


def descendants(pid):
    """The processes below one, from /proc."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(text.rpartition(")")[2].split()[1])
    found, grown = {pid}, True
    while grown:
        new = {child for child, parent in parents.items() if parent in found} - found
        found, grown = found | new, bool(new)
    return found - {pid}


def busy_workers():
    """Workers of the cluster that are at a file: Ray shows in their command line what they do."""
    busy = []
    for pid in sorted(descendants(os.getpid())):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if command.startswith(b"ray::_reduce"):
            busy.append(pid)
    return busy


def test_a_cluster_gives_the_same_bytes(cluster, run):
    folder, expected = run
    fleet = sw.fleet(folder, cluster="local")
    assert bytes_of(fleet) == expected
    workers = set(fleet.costs()["worker"])
    assert len(workers) > 1 and os.getpid() not in workers
    fleet.close()
    assert ray.is_initialized(), "a cluster that was there before is not ended"


def test_a_lost_worker_costs_nothing_but_its_files(cluster, run):
    folder, expected = run
    killed = []

    def kill_one(done, total):
        if len(killed) < 2 and done > total // 4 * (1 + len(killed)):
            for pid in busy_workers()[:1]:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    fleet = sw.fleet(folder, cluster="local", progress=kill_one)
    assert len(killed) == 2, "nobody was at work when a worker was to be killed"
    assert bytes_of(fleet) == expected


def test_two_runs_are_compared_on_the_cluster(cluster, run):
    folder, _ = run
    files = [folder / f"run_rank{rank}.json.gz" for rank in range(4)]
    here, there = sw.fleet(files), sw.fleet(files, cluster="local")
    ours, theirs = here.compare(here), there.compare(there)
    for name in ("ranks", "changes", "summary"):
        assert getattr(ours, name)().to_ipc() == getattr(theirs, name)().to_ipc(), name
