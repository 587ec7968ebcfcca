"""The viewer's page, served by the program that has the trace."""

import json
import re
import subprocess
import sys
from http.client import HTTPException
from pathlib import Path
from types import SimpleNamespace
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

import pytest

import spanwise as sw
from spanwise._traces import view as _view

#: This machine is asked itself, whatever a proxy says.
urlopen = build_opener(ProxyHandler({})).open
#: What comes of asking where nobody is, or somebody else.
NO_ANSWER = (OSError, HTTPException)
SMALL = Path(__file__).resolve().parents[2] / "testdata" / "kineto" / "llama_small.json.gz"


def asked(viewer, path=""):
    with urlopen(viewer.url + path, timeout=60) as answer:
        return answer.read().decode(), answer.headers


def test_the_page_shows_the_traces_of_this_program():
    trace, other = (sw.open(SMALL, index=False) for _ in range(2))
    with trace.view(other, browser=False) as viewer:
        page, headers = asked(viewer)
        assert page.startswith("<!") and "app.js" in page
        # A notebook on this machine may show it, a stranger's page may not.
        (policy,) = (p for p in headers["Content-Security-Policy"].split(";") if "ancestors" in p)
        assert {"http://localhost:*", "vscode-webview:"} <= {*policy.split()}
        assert not {"*", "http:", "https:"} & {*policy.split()}
        found = json.loads(asked(viewer, "api/traces")[0])["traces"]
        assert [shown["spans"] for shown in found] == [len(trace.spans)] * 2
        spans = len(trace.spans)
        # It holds what it shows.
        del trace, other
        assert json.loads(asked(viewer, "api/traces")[0])["traces"][0]["spans"] == spans
        with pytest.raises(HTTPError, match="403"):
            urlopen(viewer.url[:-2] + "/", timeout=60)


def test_after_closing_nobody_is_answered():
    viewer = sw.open(SMALL, index=False).view(browser=False)
    shown = viewer._repr_html_()
    assert viewer.url in shown and "height: 640px" in shown
    # What the frame asks for is answered, by the name that notebooks have for this machine.
    (inside,) = re.findall('<iframe src="(http://localhost:[^"]+)"', shown)
    with urlopen(inside, timeout=60) as answer:
        assert answer.status == 200
    viewer.close()
    viewer.close()
    # Another program may have the port by now, and does not know the secret.
    with pytest.raises(NO_ANSWER):
        asked(viewer)
    assert "closed" in repr(viewer) and "iframe" not in viewer._repr_html_()
    viewer.wait()


def test_a_program_that_ends_ends_its_page():
    code = f"import spanwise as sw; print(sw.open({str(SMALL)!r}, index=False).view().url)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout.startswith("http://127.0.0.1:"), done.stderr
    with pytest.raises(NO_ANSWER):
        urlopen(done.stdout.strip(), timeout=60)


def check_opened(monkeypatch, browser, notebook, desktop, expected):
    opened = []
    shell = SimpleNamespace(kernel=object()) if notebook else None
    ipython = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or True)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.delenv("DISPLAY", raising=False)
    if desktop:
        monkeypatch.setenv("DISPLAY", ":0")
    with sw.open(SMALL, index=False).view(browser=browser) as viewer:
        assert len(opened) == expected
        for address in opened:
            check_leads_to(address, viewer)
        paths = [Path(address.removeprefix("file://")) for address in opened]
    assert not any(path.exists() or path.parent.exists() for path in paths)


def check_leads_to(address, viewer):
    """A private file leads to the page; what a browser is started with says nothing of it."""
    token = viewer.url.split("/")[3]
    path = Path(address.removeprefix("file://"))
    assert address.startswith("file:///") and token not in address
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert f"url={viewer.url}\"" in path.read_text()
    asked(viewer)
    assert not path.exists()


def test_the_browser_opens_unless_a_notebook_shows_it(monkeypatch):
    check_opened(monkeypatch, None, notebook=False, desktop=True, expected=1)
    check_opened(monkeypatch, None, notebook=False, desktop=False, expected=0)
    check_opened(monkeypatch, None, notebook=True, desktop=True, expected=0)
    check_opened(monkeypatch, True, notebook=True, desktop=True, expected=1)
    check_opened(monkeypatch, False, notebook=False, desktop=True, expected=0)


def test_heights_that_make_no_sense_are_refused():
    trace = sw.open(SMALL, index=False)
    for height in (0, 99, 10_001):
        with pytest.raises(ValueError, match="height_px"):
            trace.view(browser=False, height_px=height)


def test_examples_run(tmp_path):
    import doctest
    import shutil

    shutil.copy(SMALL, tmp_path)
    results = doctest.testmod(_view)
    assert results.attempted and not results.failed
