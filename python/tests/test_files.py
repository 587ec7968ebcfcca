"""Files that results are written to."""

import os
import stat
import threading

import pytest

from spanwise._files import append_only, replaced


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
