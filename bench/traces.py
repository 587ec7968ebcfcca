"""A trace to measure with, and the forms of it that rows read."""

from __future__ import annotations

import contextlib
import gzip
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from install import BENCH, CACHE, say
from process import Failed, last_line

COPY_BYTES = 1 << 20

# Names of kernels are long, and hold braces.
KERNEL_DURATION = re.compile(
    rb'("cat"\s*:\s*"kernel"[^\n]{0,20000}\s[^\n]{0,200}?"dur"\s*:\s*)(\d+)'
)
LENGTHEN_BYTES = 8 << 20

RANK = re.compile(rb'("distributedInfo"\s*:\s*\{[^{}]*?"rank"\s*:\s*)\d+')


@dataclass(frozen=True)
class Trace:
    """The trace as plain JSON, and the files made from it.

    `key` distinguishes the files of two traces that have the same name.
    """

    name: str
    key: str
    path: Path
    bytes: int
    events: int

    @classmethod
    def open(cls, given: Path) -> Trace:
        known = given.stat()
        name = given.name.removesuffix(".gz").removesuffix(".xz")
        identity = f"{given.resolve()} {known.st_size} {known.st_mtime_ns}"
        stem = name.removesuffix(".json")
        key = f"{stem}-{zlib.crc32(identity.encode()):08x}"
        path = given.resolve()
        if given.suffix in (".gz", ".xz"):
            path = made(f"{key}.json", lambda out: unpack(given, out))
        return cls(name, key, path, path.stat().st_size, warm(path))

    def times(self, copies: int) -> Trace:
        """The trace whose events are those of this one, so many times over."""
        path = self.replicated(f"{copies}x")
        name, key = f"{self.name}, {copies} times over", f"{self.key}-{copies}x"
        return Trace(name, key, path, path.stat().st_size, warm(path))

    @classmethod
    def of_ranks(cls, sources: list[Path], copies: int, ranks: int) -> Trace:
        """A folder with so many ranks, each the events of one source over and over."""
        bases = [cls.open(source).replicated(f"{copies}x") for source in sources]
        folder = CACHE / "traces" / f"ranks-{ranks}"
        folder.mkdir(exist_ok=True)
        # Links to what was made of other states of the sources would be ranks as well.
        for path in folder.iterdir():
            path.unlink()
        for rank in range(ranks):
            base = bases[rank % len(bases)]
            path = made(f"rank{rank}-{base.name}", lambda out: as_rank(base, rank, out))
            (folder / path.name).hardlink_to(path)
        bytes_ = sum(path.stat().st_size for path in folder.iterdir())
        return cls(f"{ranks} ranks", folder.name, folder, bytes_, warm(folder))

    @classmethod
    def of_pair(cls, base: Path, other: Path) -> Trace:
        """A folder with two traces, base.json and other.json."""
        name = f"{base.stem} and {other.stem}"
        folder = CACHE / "traces" / f"pair-{zlib.crc32(name.encode()):08x}"
        folder.mkdir(parents=True, exist_ok=True)
        # An index that a command left there is of another state of the traces.
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        for path, link in ((base, "base.json"), (other, "other.json")):
            link_or_copy(path, folder / link)
        bytes_ = sum(path.stat().st_size for path in folder.iterdir())
        return cls(name, folder.name, folder, bytes_, warm(folder))

    def with_longer_kernels(self) -> Path:
        """The trace in which each kernel takes a microsecond longer."""
        return made(f"{self.key}-longer.json", lambda out: lengthen(self.path, out))

    @contextlib.contextmanager
    def form(self, form: str) -> Iterator[tuple[Path, dict[str, str]]]:
        """The file that rows of this form read, and the environment for them."""
        env = dict(os.environ)
        match form:
            case "plain":
                yield self.path, env
            case "2x" | "4x":
                yield self.replicated(form), env
            case "gz":
                yield made(f"{self.key}.json.gz", self.pack), env
            case "indexed":
                # Wherever spanwise keeps its index, beside the trace or in the
                # user's cache, it lies in this folder and goes with it.
                CACHE.mkdir(exist_ok=True)
                with tempfile.TemporaryDirectory(dir=CACHE) as folder:
                    path = Path(folder, self.path.name)
                    if self.path.is_dir():
                        path.mkdir()
                        for file in self.path.iterdir():
                            link_or_copy(file, path / file.name)
                    else:
                        link_or_copy(self.path, path)
                    yield path, {**env, "XDG_CACHE_HOME": folder}

    def pack(self, out: Path) -> None:
        with self.path.open("rb") as plain, gzip.open(out, "wb", 6) as packed:
            shutil.copyfileobj(plain, packed, COPY_BYTES)

    def replicated(self, form: str) -> Path:
        def replicate(out: Path) -> None:
            command = [sys.executable, str(BENCH / "replicate"), str(self.path)]
            done = subprocess.run(
                [*command, form.removesuffix("x"), str(out)],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                raise Failed(last_line(done.stderr))

        return made(f"{self.key}-{form}.json", replicate)


def made(name: str, make: Callable[[Path], None]) -> Path:
    """The file of that name in the cache, made if it is not there yet."""
    path = CACHE / "traces" / name
    if path.is_file():
        return path
    say(f"writing {name}")
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name("unfinished-" + name)
    try:
        make(unfinished)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path


def unpack(packed: Path, out: Path) -> None:
    inflater = gzip if packed.suffix == ".gz" else lzma
    with inflater.open(packed, "rb") as source, out.open("wb") as plain:
        shutil.copyfileobj(source, plain, COPY_BYTES)


def link_or_copy(path: Path, link: Path) -> None:
    try:
        link.hardlink_to(path)
    except OSError:
        shutil.copyfile(path, link)


def lengthen(trace: Path, out: Path) -> None:
    """Write the trace with a microsecond more for each kernel, block by block."""

    def longer(found: re.Match[bytes]) -> bytes:
        return found[1] + str(int(found[2]) + 1).encode()

    with trace.open("rb") as source, out.open("wb") as target:
        while block := source.read(LENGTHEN_BYTES) + source.readline():
            # The duration may stand on the line after the kernel's.
            block += source.readline()
            target.write(KERNEL_DURATION.sub(longer, block))


def as_rank(trace: Path, rank: int, out: Path) -> None:
    """Write the trace as if another rank had recorded it."""
    text = trace.read_bytes()
    text, found = RANK.subn(rb"\g<1>%d" % rank, text, count=1)
    if not found:
        raise Failed(f"{trace.name}: no rank in its head")
    out.write_bytes(text)


def warm(path: Path) -> int:
    """Read the file or folder, so that no row waits for the disk; count its events."""
    if path.is_dir():
        return sum(warm(file) for file in sorted(path.iterdir()))
    events = 0
    kept = b""
    with path.open("rb") as file:
        while block := file.read(COPY_BYTES):
            events += (kept + block).count(b'"ph"')
            kept = block[-3:]
    return events
