"""Files that results are written to."""

import contextlib
import itertools
import os
import signal
import stat
import threading
import time

import pytest

from spanwise._files import append_only, make_folder, place_of, remove_folder, replaced

TRIES = 400


def attack(root, tester):
    """Exchanges every folder of root for a link to another one of root, until it is killed."""
    for number in itertools.count():
        evil = f"{root}/theirs/evil-{number}"
        os.symlink(f"{root}/secret", evil)
        is_done = False
        while not is_done and os.getppid() == tester:
            for entry in os.scandir(f"{root}/theirs"):
                if not entry.name.startswith("new") or entry.is_symlink():
                    continue
                with contextlib.suppress(OSError):
                    os.rename(entry.path, f"{root}/theirs/stolen-{number}")
                    os.rename(evil, entry.path)
                is_done = True
                break
        if os.getppid() != tester:
            return


def attacking(root):
    """A process of another user that attacks."""
    tester = os.getpid()
    attacker = os.fork()
    if attacker == 0:
        try:
            os.setgid(65534)
            os.setuid(65534)
            attack(root, tester)
        finally:
            os._exit(1)
    return attacker


def write(path, text=b"new"):
    with replaced(str(path)) as out:
        out.write(text)


def test_files_are_made_and_replaced_whole(tmp_path):
    path = tmp_path / "file"
    write(path, b"old")
    path.chmod(0o640)
    with pytest.raises(ValueError, match="no more"), replaced(str(path)) as out:
        out.write(b"half")
        raise ValueError("no more")
    assert path.read_bytes() == b"old"
    write(path)
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", 0o640)
    assert os.listdir(tmp_path) == ["file"]


def test_pipes_are_written_to_and_stay(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    found = []
    reader = threading.Thread(target=lambda: found.append(path.read_bytes()))
    reader.start()
    write(path)
    reader.join()
    assert found == [b"new"]
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_own_links_are_followed_and_those_of_others_are_not(tmp_path):
    file, link = tmp_path / "file", tmp_path / "link"
    link.symlink_to(file)
    write(link)
    with open(link, "a", opener=append_only) as lines:
        lines.write(" line")
    assert (file.read_bytes(), link.is_symlink()) == (b"new line", True)
    if os.geteuid() != 0:
        pytest.skip("only root can make links of others")
    os.lchown(link, 65534, -1)
    with pytest.raises(PermissionError, match="of user 65534"):
        write(link)
    with pytest.raises(PermissionError, match="of user 65534"):
        open(link, "a", opener=append_only)
    assert file.read_bytes() == b"new line"


def test_folders_on_the_way_may_be_own_links(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "near").symlink_to("folder")
    (tmp_path / "far").symlink_to(tmp_path / "near")
    for number, name in enumerate(["near", "far", "far/../folder/."]):
        write(f"{tmp_path}/{name}/file", str(number).encode())
        assert (tmp_path / "folder" / "file").read_bytes() == str(number).encode()
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="symbolic links"):
        write(tmp_path / "loop" / "file")
    with pytest.raises(IsADirectoryError):
        write(tmp_path)
    with place_of(str(tmp_path / "near" / "other"), behind_links=False) as place:
        (tmp_path / "folder").rename(tmp_path / "moved")
        (tmp_path / "folder").mkdir()
        with open(place.path_of(place.name), "wb") as out:
            out.write(b"here")
    assert (tmp_path / "moved" / "other").read_bytes() == b"here"
    assert os.listdir(tmp_path / "folder") == []


def test_folders_are_made_and_taken_away(tmp_path):
    make_folder(str(tmp_path / "outer" / "inner"))
    make_folder(str(tmp_path / "outer" / "inner"))
    (tmp_path / "link").symlink_to("outer")
    make_folder(str(tmp_path / "link" / "other"))
    assert sorted(os.listdir(tmp_path / "outer")) == ["inner", "other"]
    (tmp_path / "outer" / "other" / "out").symlink_to(tmp_path / "outer" / "inner")
    (tmp_path / "outer" / "inner" / "file").write_bytes(b"kept")
    remove_folder(str(tmp_path / "link" / "other"))
    remove_folder(str(tmp_path / "link"))
    remove_folder(str(tmp_path / "missing" / "other"))
    assert os.listdir(tmp_path / "outer") == ["inner"]
    assert (tmp_path / "outer" / "inner" / "file").read_bytes() == b"kept"
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError):
        make_folder(str(tmp_path / "file" / "inner"))
    if os.geteuid() != 0:
        pytest.skip("only root can make links of others")
    os.lchown(tmp_path / "link", 65534, -1)
    with pytest.raises(PermissionError, match="of user 65534"):
        make_folder(str(tmp_path / "link" / "third"))
    remove_folder(str(tmp_path / "link" / "inner"))
    assert os.listdir(tmp_path / "outer") == ["inner"]


def test_what_is_open_is_written_to(tmp_path):
    with open(tmp_path / "file", "wb") as file:
        write(f"/dev/fd/{file.fileno()}")
    assert (tmp_path / "file").read_bytes() == b"new"


def save(number, path):
    """As results are written, as folders are made and taken away, as lines are added, and as
    Torch's profiles are made.
    """
    if number % 5 == 0:
        write(path)
    elif number % 5 == 1:
        make_folder(f"{path}s/inner")
    elif number % 5 == 2:
        remove_folder(os.path.join(os.path.dirname(path), "kept"))
    elif number % 5 == 3:
        with open(path, "a", opener=append_only) as lines:
            lines.write("line")
    else:
        with place_of(path, behind_links=False) as place:
            making = place.beside(".json")
            with open(place.path_of(making), "wb") as out:
                out.write(b"profile")
            place.replace(making)


def test_files_stay_in_the_folder_that_was_looked_up(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can be two users")
    theirs, secret = tmp_path / "theirs", tmp_path / "secret"
    theirs.mkdir()
    secret.mkdir()
    (secret / "file").write_bytes(b"safe")
    (secret / "kept").mkdir()
    os.chown(theirs, 65534, 65534)
    for folder in [tmp_path, *tmp_path.parents[:-1]]:
        if folder.stat().st_uid == os.geteuid():
            folder.chmod(folder.stat().st_mode | 0o011)

    attacker = attacking(tmp_path)
    exchanged = written = 0
    try:
        for number in range(TRIES):
            folder = theirs / f"new-{number}"
            folder.mkdir()
            # Now and then the attacker gets the time it needs.
            for _ in range(5000 if number % 4 > 1 else 0):
                if folder.is_symlink():
                    break
                time.sleep(0)
            try:
                save(number, str(folder / "file"))
                written += 1
            except OSError:
                # One that was exchanged before is an error.
                pass
            exchanged += folder.is_symlink()
            assert (secret / "file").read_bytes() == b"safe", number
            assert sorted(os.listdir(secret)) == ["file", "kept"], number
    finally:
        os.kill(attacker, signal.SIGKILL)
        os.waitpid(attacker, 0)
    assert exchanged >= TRIES / 20, f"only {exchanged} were exchanged"
    assert written >= TRIES / 20, f"only {written} were written"
