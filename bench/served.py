"""Other people's programs, started for a benchmark, with who asks them for work.

They come from the distribution or from PyPI; one that cannot be had raises `Failed`. Each is put
into a control group of its own, so that the kernel itself counts the CPU time of all its
processes. Everything listens on the loopback address alone.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from install import BENCH, CACHE, install, pinned, pip, python_environment
from process import Failed

SERVED = BENCH / "served"
#: Nobody waits longer than this for a program to begin or to end.
PATIENCE_S = 60


@dataclass(frozen=True)
class Program:
    """A program, and the load it is put under."""

    name: str
    #: What it needs beforehand, in a folder of its own, and then the command.
    prepare: Callable[[Path], list[str]]
    #: Asks it for work, for so many seconds; without it the program ends by itself.
    load: Callable[[float], list[str]] | None = None
    #: How many operations the load has done, in what it prints.
    done: str = ""
    port: int = 0
    #: The signal that ends it well.
    stop: signal.Signals = signal.SIGTERM
    env: dict[str, str] = field(default_factory=dict)


def found(name: str, package: str) -> str:
    """The path of a program; servers are in folders that are not searched."""
    postgres = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    folders = [os.environ.get("PATH", ""), "/usr/sbin", *map(str, postgres)]
    path = shutil.which(name, path=os.pathsep.join(folders))
    if path is None:
        raise Failed(f"there is no {name} (apt-get install {package})")
    return path


class ControlGroup:
    """The processes of a program, and their CPU time as the kernel counts it."""

    def __init__(self, name: str) -> None:
        one, two = Path("/sys/fs/cgroup/cpuacct"), Path("/sys/fs/cgroup")
        if one.is_dir():
            self.folder, self.file = one / name, "cpuacct.usage"
        elif (two / "cgroup.controllers").is_file():
            self.folder, self.file = two / name, "cpu.stat"
        else:
            raise Failed("there are no control groups")
        with contextlib.suppress(OSError):
            self.remove()
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise Failed(f"no control group can be made: {error}") from error

    def starting(self, command: Sequence[str]) -> list[str]:
        """A command that enters the group and becomes the program."""
        enter = 'echo $$ > "$0" && exec "$@"'
        return ["sh", "-c", enter, str(self.folder / "cgroup.procs"), *command]

    def pids(self) -> list[int]:
        return sorted(map(int, (self.folder / "cgroup.procs").read_text().split()))

    def first(self) -> int:
        """The process that has begun the others."""
        pids = self.pids()
        for pid in pids:
            with contextlib.suppress(OSError):
                parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
                if parent not in pids:
                    return pid
        raise Failed("it has ended before its time")

    def cpu_s(self) -> float:
        text = (self.folder / self.file).read_text()
        if self.file == "cpuacct.usage":
            return int(text) / 1e9
        return int(re.search(r"usage_usec (\d+)", text).group(1)) / 1e6

    def remove(self) -> None:
        """Ends what is left in it, and takes it away."""
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until("its processes end", lambda: not self.pids())
        self.folder.rmdir()


def wait_until(what: str, is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > end:
            raise Failed(f"waited in vain until {what}")
        time.sleep(0.02)


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def running(program: Program, group: ControlGroup, folder: Path, recorder: Sequence[str] = ()) -> Iterator[subprocess.Popen[str]]:
    """Starts it, under a recorder if one is given; ends it afterwards, if it has not."""
    command = [*recorder, *group.starting(program.prepare(folder))]
    log = folder / "log"
    with log.open("w") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=folder, env={**os.environ, **program.env})
        try:
            if program.port:
                wait_until(f"port {program.port} is served", lambda: listens(program.port) or process.poll() is not None)
            if program.load is not None and process.poll() is not None:
                raise Failed(f"it ended at once: {log.read_text()[-300:]}")
            yield process
            if program.load is not None:
                os.kill(group.first(), program.stop)
            wait_until("it ends", lambda: process.poll() is not None)
        finally:
            if process.poll() is None:
                with contextlib.suppress(Failed, ProcessLookupError):
                    os.kill(group.first(), signal.SIGKILL)
                process.terminate()
                process.wait(PATIENCE_S)


def put_under_load(program: Program, seconds: float) -> float:
    """Asks it for work; gives how many operations were done."""
    run = subprocess.run(program.load(seconds), capture_output=True, text=True, timeout=seconds * 5 + PATIENCE_S)
    numbers = re.findall(program.done, run.stdout + run.stderr)
    if run.returncode or not numbers:
        raise Failed(f"{program.load(seconds)[0]}: {(run.stderr or run.stdout)[-300:]}")
    return float(numbers[-1])


def redis(folder: Path) -> list[str]:
    server = found("redis-server", "redis-server")
    found("redis-benchmark", "redis-tools")
    return [server, "--port", "7391", "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]


def ask_redis(*options: str) -> Callable[[float], list[str]]:
    # It counts requests, not seconds: some 60,000 a second, and many more in one go.
    rate = 250_000 if options else 40_000
    return lambda seconds: [
        "redis-benchmark", "-p", "7391", "-q", "-t", "set,get,lpush", "-n", str(int(rate * seconds / 3)), *options]


POSTGRES_USER = "postgres"


def postgres(folder: Path) -> list[str]:
    found("pgbench", "postgresql")
    base = folder / "postgres"
    if not base.exists():
        base.mkdir()
        shutil.chown(base, POSTGRES_USER)
        folder.chmod(0o755)
        as_user = ["setpriv", f"--reuid={POSTGRES_USER}", f"--regid={POSTGRES_USER}", "--clear-groups"]
        install("a database", [*as_user, found("initdb", "postgresql"), "-D", str(base / "data"), "-A", "trust"], cwd=base)
    return [
        "setpriv", f"--reuid={POSTGRES_USER}", f"--regid={POSTGRES_USER}", "--clear-groups",
        found("postgres", "postgresql"), "-D", str(base / "data"), "-p", "7392",
        "-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={base}"]


def ask_postgres(seconds: float) -> list[str]:
    connect = ["-h", "127.0.0.1", "-p", "7392", "-U", POSTGRES_USER]
    bench = found("pgbench", "postgresql")
    # The tables are made at the first time, and found at the next.
    fill = f"{bench} {' '.join(connect)} -q -i -s 5 postgres"
    ask = f"{bench} {' '.join(connect)} -n -c 8 -j 2 -T {max(1, round(seconds))} postgres"
    return ["sh", "-c", f"{ask} 2>/dev/null || {{ {fill} && {ask}; }}"]


def nginx(folder: Path) -> list[str]:
    server = found("nginx", "nginx-light")
    (folder / "html").mkdir(exist_ok=True)
    (folder / "html" / "index.html").write_text("".join(f"<p>line {n} of a page</p>\n" for n in range(2000)))
    (folder / "nginx.conf").write_text(f"""
        daemon off; user root; worker_processes 2; pid {folder}/pid; error_log {folder}/error;
        events {{ worker_connections 256; }}
        http {{
            access_log {folder}/access; gzip on; gzip_comp_level 6; gzip_types text/html;
            client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
            fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
            server {{ listen 127.0.0.1:7393; root {folder}/html; }}
        }}""")
    return [server, "-p", str(folder), "-c", str(folder / "nginx.conf")]


def ask_http(port: int, *headers: str) -> Callable[[float], list[str]]:
    def command(seconds: float) -> list[str]:
        options = [word for header in headers for word in ("-H", header)]
        wrk = [found("wrk", "wrk"), "-t", "1", "-c", "16", "-d", f"{max(1, round(seconds))}s", *options]
        return [*wrk, f"http://127.0.0.1:{port}/"]

    return command


def gunicorn(folder: Path) -> list[str]:
    environment = python_environment("gunicorn")
    python = environment / "bin" / "python"
    if not (environment / "bin" / "flask").exists():
        install("flask", [*pip(python), pinned("flask")])
    options = ["-w", "3", "-b", "127.0.0.1:7394", "--chdir", str(SERVED), "app:app"]
    return [str(python), "-B", "-m", "gunicorn", *options]


def go(folder: Path) -> list[str]:
    built = CACHE / "go-server"
    CACHE.mkdir(exist_ok=True)
    install("the Go server", [found("go", "golang-go"), "build", "-o", str(built), str(SERVED / "server.go")], cwd=SERVED)
    return [str(built), "7395"]


#: So that names of functions that are made as it runs are on disk in the end.
JAVA_OPTIONS = ["-XX:+UnlockDiagnosticVMOptions", "-XX:+DumpPerfMapAtExit", "-XX:+PreserveFramePointer"]


def java(folder: Path) -> list[str]:
    install("the Java program", [found("javac", "default-jdk"), "-d", str(folder), str(SERVED / "Work.java")])
    return [found("java", "default-jre"), *JAVA_OPTIONS, "-cp", str(folder), "Work", "60"]


def node(folder: Path) -> list[str]:
    return [found("node", "nodejs"), "--perf-basic-prof", str(SERVED / "work.js"), "7396"]


REQUESTS = r"(\d+) requests in"

PROGRAMS = [
    Program("redis", redis, ask_redis(), r"([\d.]+) requests per second", 7391),
    Program("redis, pipelined", redis, ask_redis("-P", "16"), r"([\d.]+) requests per second", 7391),
    Program("PostgreSQL", postgres, ask_postgres, r"actually processed: (\d+)", 7392, signal.SIGINT),
    Program("nginx, gzip", nginx, ask_http(7393, "Accept-Encoding: gzip"), REQUESTS, 7393),
    Program("gunicorn, flask", gunicorn, ask_http(7394), REQUESTS, 7394),
    Program("Go", go, ask_http(7395), REQUESTS, 7395),
    Program("Java", java),
    Program("Node", node, ask_http(7396), REQUESTS, 7396),
]
