"""Files that results are written to, in folders where others may write as well.

A path is looked up once, and what is done then is relative to the descriptor of its folder:
whoever exchanges a folder or a link meanwhile changes nothing. Links count only if they belong
to root or to this user. Where a system has no such descriptors, names are all there is.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Optional

_HAS_DESCRIPTORS = hasattr(os, "O_PATH") and os.readlink in os.supports_dir_fd
# As many as the kernel follows.
_LINKS_MAX = 40


class Place:
    """A folder by its descriptor, and the name of something in it that may or may not exist."""

    def __init__(self, folder: Optional[int], name: str) -> None:
        self.folder = folder
        self.name = name

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *_: object) -> None:
        if self.folder is not None:
            os.close(self.folder)

    def beside(self, ending: str = "") -> str:
        """A name in the same folder that nobody can foresee."""
        making = f".spanwise-making-{os.urandom(8).hex()}{ending}"
        return making if self.folder is not None else _joined(os.path.dirname(self.name), making)

    def path_of(self, name: str) -> str:
        """A path that leads to something in the folder as long as this is open."""
        return name if self.folder is None else f"/proc/self/fd/{self.folder}/{name}"

    def stat(self) -> Optional[os.stat_result]:
        """What has the name; links are not followed."""
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def owner(self) -> int:
        """Whom the folder belongs to."""
        folder = os.path.dirname(self.name) or "." if self.folder is None else self.folder
        return os.stat(folder).st_uid

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        """Opens something in the folder."""
        return os.open(name, flags | os.O_CLOEXEC, mode, dir_fd=self.folder)

    def replace(self, name: str) -> None:
        """Something in the folder takes this place, unless what is there is no regular file."""
        old = self.stat()
        if old is not None and not stat.S_ISREG(old.st_mode):
            raise FileExistsError(f"{self.name}: what is there is not a regular file")
        os.replace(name, self.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)

    def remove(self, name: str) -> None:
        """Takes something in the folder away."""
        os.unlink(name, dir_fd=self.folder)


def place_of(path: str, behind_links: bool = True, makes_folders: bool = False) -> Place:
    """Where a path leads to, behind own links that its last part may be. Folders on the way that
    are missing are made if that is wanted.
    """
    path = os.fspath(path)
    if not _HAS_DESCRIPTORS:
        if makes_folders:
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        return Place(None, _behind_links(path) if behind_links else path)
    rest = _parts(path)
    at = _start(path)
    links = 0
    try:
        while rest:
            name, is_last = rest.pop(0), not rest
            if is_last and name != ".." and not behind_links:
                return Place(at, name)
            try:
                found = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            except FileNotFoundError:
                if is_last:
                    return Place(at, name)
                if not makes_folders:
                    raise
                found = _made_folder(name, at)
            found_at = os.fstat(found)
            is_link = stat.S_ISLNK(found_at.st_mode)
            if is_last and (not is_link or _is_made_up(found_at)) and name != "..":
                os.close(found)
                return Place(at, name)
            if not is_link:
                os.close(at)
                at = found
                continue
            if _is_made_up(found_at):
                os.close(found)
                folder = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=at)
                os.close(at)
                at = folder
                continue
            try:
                target = os.readlink("", dir_fd=found)
            finally:
                os.close(found)
            _check_link(path, found_at.st_uid)
            links += 1
            if links > _LINKS_MAX:
                raise OSError(f"{path}: more than {_LINKS_MAX} symbolic links")
            if target.startswith("/"):
                os.close(at)
                at = _start(target)
            rest[:0] = _parts(target)
        raise IsADirectoryError(f"{path}: a folder")
    except BaseException:
        os.close(at)
        raise


def _made_folder(name: str, at: int) -> int:
    """A folder that was missing. Somebody else may have been faster: it is checked as others."""
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=at)
    return os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)


def make_folder(path: str) -> None:
    """Makes a folder and those above it, where they are missing."""
    with place_of(os.path.join(path, "_"), behind_links=False, makes_folders=True):
        pass


def remove_folder(path: str) -> None:
    """Takes a folder away with all that is in it, as far as that can be done."""
    with suppress(OSError), place_of(path, behind_links=False) as place:
        # Links in place of the folder or inside of it are not followed.
        shutil.rmtree(place.path_of(place.name), ignore_errors=True)


@contextmanager
def replaced(path: str) -> Iterator[IO[bytes]]:
    """A file to write bytes to, which appears whole or not at all.

    Pipes and devices are written to and never replaced. Links of other users are refused.
    """
    with place_of(path) as place:
        old = place.stat()
        if old is not None and not stat.S_ISREG(old.st_mode):
            # A link that is left is one that the kernel makes up: what it leads to is open.
            no_follow = 0 if stat.S_ISLNK(old.st_mode) else os.O_NOFOLLOW
            with open(place.open(place.name, os.O_WRONLY | os.O_NOCTTY | no_follow), "wb") as out:
                yield out
            return
        # In a folder of somebody else nobody but us is to read what we leave there.
        is_foreign = place.owner() not in _trusted()
        making = place.beside()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        made = place.open(making, flags, 0o600 if is_foreign else 0o666)
        try:
            with open(made, "wb") as out:
                if old is not None and not is_foreign:
                    os.fchmod(made, stat.S_IMODE(old.st_mode) & 0o777)
                yield out
            place.replace(making)
        except BaseException:
            place.remove(making)
            raise


def append_only(path: str, flags: int) -> int:
    """For `open(…, opener=append_only)`: a file that others put there as a link is refused."""
    with place_of(path) as place:
        return place.open(place.name, flags | os.O_NOFOLLOW, 0o666)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _start(path: str) -> int:
    first = "/" if path.startswith("/") else "."
    return os.open(first, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def _is_made_up(link: os.stat_result) -> bool:
    """A link of the file system in which the kernel shows processes."""
    try:
        return link.st_dev == os.stat("/proc/self").st_dev
    except OSError:
        return False


def _check_link(path: str, owner: int) -> None:
    if owner not in _trusted():
        raise PermissionError(f"{path}: a symbolic link of user {owner} is not followed")


def _trusted() -> tuple[int, int]:
    return (0, os.geteuid())


def _joined(folder: str, name: str) -> str:
    return os.path.join(folder, name) if folder else name


def _behind_links(path: str) -> str:
    if not os.path.islink(path):
        return path
    _check_link(path, os.lstat(path).st_uid)
    return os.path.realpath(path)
