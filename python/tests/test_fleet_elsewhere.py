"""Fleets on a Ray cluster that others have started: joined by its address, left as it was."""

import os
import pickle
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading

import pytest
from replicas import replicate
from test_fleet import bytes_of

import spanwise as sw

pytest.importorskip("ray", reason="no Ray for this Python: fleets on clusters are not tested")
pytest.importorskip("grpc", reason="no ray[client] here: clusters elsewhere are not tested")

#: Reads a fleet on a cluster, and says what came out, who read, and whether the cluster was left.
DRIVER = """
import os, pickle, sys
import ray
import spanwise as sw
sys.path.insert(0, sys.argv[1])
from test_fleet import bytes_of

with sw.fleet(sys.argv[2], cluster=sys.argv[3]) as fleet:
    workers = {*fleet.costs()["worker"]}
    with open(sys.argv[4], "wb") as out:
        pickle.dump((bytes_of(fleet), len(workers), os.getpid() in workers), out)
assert not ray.is_initialized()
"""
STARTS_MAX_S = 120
ASKS_MAX_S = 200
#: What Ray says where a machine is so busy that its own limits are too short.
TOO_SLOW = re.compile("timed out|timeout|Starting Ray client server failed|Failed to connect")


class Head:
    """A cluster of one machine with a server for those elsewhere; nobody else has its token."""

    def __init__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        # Of its own, so that no other program takes this cluster for the one of the machine;
        # short, for the names of sockets.
        self.folder = tempfile.mkdtemp(prefix="ray")
        secret = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        self.env = {**os.environ, **secret}
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"]
        command += ["--node-ip-address=127.0.0.1"]
        command += ["--port=0", f"--ray-client-server-port={self.port}", "--num-cpus=2"]
        command += ["--include-dashboard=false", "--disable-usage-stats"]
        command += [f"--object-store-memory={100 << 20}", f"--temp-dir={self.folder}"]
        self.process = subprocess.Popen(
            command,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.address = None
        self.said = []
        self.is_ready = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        for line in self.process.stdout:
            self.said.append(line)
            found = re.search(r"--address='([^']+)'", line)
            self.address = found.group(1) if found else self.address
            if "--block" in line:
                self.is_ready.set()

    def end(self):
        """Ends what was started here: the group is our own."""
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="module")
def head():
    started = Head()
    try:
        if not started.is_ready.wait(STARTS_MAX_S):
            pytest.skip("Ray did not start in time: clusters elsewhere are not tested")
        yield started
    finally:
        started.end()


def check(head, tmp_path, cluster, env):
    paths = replicate(tmp_path, 5, thin=True)
    (tmp_path / "run_rank5.json.gz").write_text("<html>")
    out = tmp_path / "out"
    here = os.path.dirname(__file__)
    command = [sys.executable, "-c", DRIVER, here, f"{tmp_path}/run_rank*", cluster, str(out)]
    try:
        done = subprocess.run(
            command, env={**head.env, **env}, capture_output=True, text=True, timeout=ASKS_MAX_S
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"Ray did not answer in time: {cluster} is not tested")
    last = done.stderr.rstrip().rpartition("\n")[2]
    if done.returncode != 0 and TOO_SLOW.search(last):
        pytest.skip(f"Ray was too slow, {cluster} is not tested: {last}")
    assert done.returncode == 0, done.stderr + "".join(head.said)
    got, workers, is_here = pickle.loads(out.read_bytes())
    expected = sw.fleet([*map(str, paths), str(tmp_path / "run_rank5.json.gz")])
    assert got == bytes_of(expected)
    assert workers >= 1 and not is_here
    assert head.process.poll() is None, "a cluster that was there before is not ended"


def test_a_cluster_is_joined_by_its_address(head, tmp_path):
    check(head, tmp_path, f"ray://127.0.0.1:{head.port}", {})


def test_the_cluster_of_this_machine_is_joined(head, tmp_path):
    check(head, tmp_path, "auto", {"RAY_ADDRESS": head.address})
