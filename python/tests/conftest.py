"""Every test works in a folder of its own and leaves nothing installed."""

import pytest

from spanwise.profiling._core import runtime as _runtime


@pytest.fixture(autouse=True)
def clean(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    for manager in list(_runtime._stack):
        manager.end_session(save_results=False)
    _runtime.set_default(None)
