"""The package as it is installed: the command, the import, the types."""

import subprocess
import sys
from pathlib import Path

import spanwise


def test_the_command_comes_along(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "spanwise", "--version"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("spanwise ")


def test_it_is_typed():
    assert (Path(spanwise.__file__).parent / "py.typed").is_file()


def test_importing_the_profiler_brings_no_large_package():
    code = (
        "import sys\n"
        "from spanwise.profiling import create_standard_profiler, profile_function\n"
        "heavy = {'torch', 'numpy', 'psutil', 'asyncio', 'multiprocessing', 'subprocess',\n"
        " 'ctypes', 'logging', 'json', 'csv', 'pathlib'}\n"
        "print(*sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "", done.stderr


def test_overhead_is_measured_by_the_package_itself():
    command = [sys.executable, "-m", "spanwise", "overhead", "--help"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "--self-check" in done.stdout


def test_importing_loads_nothing_else():
    code = (
        "import sys; before = set(sys.modules); import spanwise\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert set(done.stdout.split()) <= {"spanwise", "typing", "__future__", *TYPING}, done.stdout


#: What `typing` brings along, more or less by version.
TYPING = {
    "collections", "collections.abc", "contextlib", "copyreg", "functools", "keyword",
    "operator", "reprlib", "re", "types", "_typing", "_collections", "_functools", "_operator",
    "enum", "sre_compile", "sre_constants", "sre_parse", "_sre", "itertools", "copy",
    "_collections_abc", "typing.io", "typing.re", "warnings", "weakref", "heapq", "_heapq",
    "_locale", "re._casefix", "re._compiler", "re._constants", "re._parser", "abc", "_abc",
}
