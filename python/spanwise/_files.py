"""Files that results are written to, in folders where others may write as well."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO


@contextmanager
def replaced(path: str) -> Iterator[IO[bytes]]:
    """A file to write bytes to, which appears whole or not at all.

    Pipes and devices are written to and never replaced. Links of other users are refused.
    """
    path = _behind_links(path)
    try:
        old = os.lstat(path)
    except FileNotFoundError:
        old = None
    if old is not None and not stat.S_ISREG(old.st_mode):
        with open(path, "wb") as out:
            yield out
        return
    folder = os.path.dirname(path) or "."
    # In a folder of somebody else nobody but us is to read what we leave there.
    is_foreign = os.stat(folder).st_uid not in _trusted()
    making = os.path.join(folder, f".spanwise-making-{os.urandom(8).hex()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    made = os.open(making, flags, 0o600 if is_foreign else 0o666)
    try:
        with open(made, "wb") as out:
            if old is not None and not is_foreign:
                os.fchmod(made, stat.S_IMODE(old.st_mode) & 0o777)
            yield out
        os.replace(making, path)
    except BaseException:
        os.unlink(making)
        raise


def append_only(path: str, flags: int) -> int:
    """For `open(…, opener=append_only)`: a file that others put there as a link is refused."""
    return os.open(_behind_links(path), flags | os.O_NOFOLLOW, 0o666)


def _trusted() -> tuple[int, int]:
    return (0, os.geteuid())


def _behind_links(path: str) -> str:
    if not os.path.islink(path):
        return path
    owner = os.lstat(path).st_uid
    if owner not in _trusted():
        raise PermissionError(f"{path}: a symbolic link of user {owner} is not followed")
    return os.path.realpath(path)
