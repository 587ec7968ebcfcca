"""Files of a fleet: found by pattern, on disks and in object stores, and brought near to be read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Union

from .. import _native
from .._files import replaced

Path = Union[str, "os.PathLike[str]"]

#: What a pattern has and a name has not.
_MAGIC = re.compile(r"[*?\[]")


def find_files(paths: Path | Iterable[Path], storage: Mapping[str, Any]) -> list[str]:
    """The files that paths, patterns, folders and addresses of object stores name, in order.

    The files of one pattern are in the order in which people count: rank 2 before rank 10.
    """
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    found: list[str] = []
    for path in [os.fspath(path) for path in given]:
        if _is_address(path):
            found += _in_store(path, storage)
        elif _MAGIC.search(path) and not os.path.exists(path):
            from glob import glob

            found += _some(sorted(glob(path, recursive=True), key=_as_counted), path)
        elif os.path.isdir(path):
            found += sorted(_native.trace_files(path), key=_as_counted)
        else:
            found.append(path)
    if not found:
        raise ValueError("no path was given")
    return found


@contextmanager
def brought_near(file: str, storage: Mapping[str, Any]) -> Iterator[str]:
    """A path under which a file can be read; what was fetched for that is deleted after."""
    if not _is_address(file):
        yield file
        return
    store, path = _store(file, storage)
    if "file" in _protocols(store):
        yield path
        return
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="spanwise-") as folder:
        near = os.path.join(folder, os.path.basename(path))
        try:
            store.get_file(path, near)
        except FileNotFoundError:
            raise FileNotFoundError(2, "No such file or directory", file) from None
        yield near


@contextmanager
def written_whole(path: str, storage: Mapping[str, Any]) -> Iterator[Any]:
    """A file to write bytes to. On a disk it appears when it is whole."""
    if _is_address(path):
        store, inside = _store(path, storage)
        store.makedirs(inside.rpartition("/")[0], exist_ok=True)
        with store.open(inside, "wb") as out:
            yield out
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with replaced(path) as out:
        yield out


def in_words(reason: Exception, file: str) -> str:
    """What went wrong with a file, without paths of this machine."""
    if isinstance(reason, OSError) and reason.strerror:
        return f"{file}: {reason.strerror}"
    text = str(reason) or type(reason).__name__
    if isinstance(reason, ValueError):
        # "/tmp/…/rank3.json: byte 0: not a trace": the name is that of a copy.
        before, name, after = text.partition(os.path.basename(file))
        return f"{file}{after}" if name and os.sep in before else text
    return f"{file}: {type(reason).__name__}: {text}"


def joined(folder: str, *parts: str) -> str:
    """A path below a folder or an address."""
    return "/".join([folder.rstrip("/"), *parts])


def _is_address(path: str) -> bool:
    return "://" in path


def _store(address: str, storage: Mapping[str, Any]) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError as reason:
        raise ImportError(f"{address} needs fsspec: pip install fsspec") from reason
    return url_to_fs(address, **storage)


def _protocols(store: Any) -> tuple[str, ...]:
    return (store.protocol,) if isinstance(store.protocol, str) else tuple(store.protocol)


def _in_store(address: str, storage: Mapping[str, Any]) -> list[str]:
    store, path = _store(address, storage)
    if not _MAGIC.search(path):
        return [address]
    names = sorted(store.glob(path), key=_as_counted)
    return _some([store.unstrip_protocol(name) for name in names], address)


def _some(found: list[str], pattern: str) -> list[str]:
    if not found:
        raise FileNotFoundError(2, "no file fits this pattern", pattern)
    return found


def _as_counted(name: str) -> list[Any]:
    """Numbers in names count as numbers."""
    parts = re.split(r"(\d+)", name)
    return [int(part) if at % 2 else part for at, part in enumerate(parts)]
