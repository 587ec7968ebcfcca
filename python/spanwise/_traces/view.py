"""The viewer: a page in a notebook or in the browser that shows the traces of this program."""

from __future__ import annotations

import os
import sys
from typing import Any

from .. import _native


class Viewer:
    """A page about traces, served by this program until `close` or its end.

    In a notebook it shows itself. Its address is the machine's own and has a secret in it: who
    does not know it is not answered.

    >>> import spanwise as sw
    >>> with sw.open("llama_small.json.gz").view(browser=False) as viewer:
    ...     viewer.url.startswith("http://127.0.0.1:")
    True
    """

    def __init__(self, native: _native.Viewer, height_px: int) -> None:
        self._viewer = native
        self._height_px = height_px
        self._is_open = True

    @property
    def url(self) -> str:
        """The address of the page."""
        return self._viewer.url

    def open(self) -> bool:
        """Open the page in the browser; whether there is one."""
        import weakref
        import webbrowser
        from pathlib import Path

        # Without a desktop, a browser of the terminal would take that over.
        if sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY"} & {*os.environ}:
            return False
        # Everybody can read the arguments of a process, so a browser is given a private file
        # that leads to the address.
        file = Path(self._viewer.redirect_file())
        weakref.finalize(self, self._viewer.remove_redirect_file)
        return webbrowser.open(file.as_uri())

    def wait(self) -> None:
        """Keep a program alive for its page, until Ctrl-C."""
        import time

        try:
            while self._is_open:
                time.sleep(0.2)
        except KeyboardInterrupt:
            self.close()

    def close(self) -> None:
        """End it: the page gets no more answers."""
        self._is_open = False
        self._viewer.close()

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Viewer {self.url}{'' if self._is_open else ', closed'}>"

    def _repr_html_(self) -> str:
        if not self._is_open:
            return "<p>This viewer was closed.</p>"
        # As notebooks name this machine: frames of the same site are drawn without delay.
        inside = self.url.replace("127.0.0.1", "localhost", 1)
        style = f"width: 100%; height: {self._height_px}px; border: 0"
        return (
            f'<iframe src="{inside}" style="{style}"></iframe>'
            f'<p><a href="{self.url}" target="_blank" rel="noreferrer">in a tab of its own</a></p>'
        )


def view(traces: list[_native.Trace], browser: bool | None, height_px: int, port: int) -> Viewer:
    """Serves a page about traces, and opens the browser unless a notebook will show it."""
    if not 100 <= height_px <= 10_000:
        raise ValueError(f"height_px: from 100 to 10,000 pixels, not {height_px}")
    viewer = Viewer(_native.view_traces(traces, port), height_px)
    if browser or (browser is None and not _in_notebook()):
        viewer.open()
    return viewer


def _in_notebook() -> bool:
    """Whether what a cell gives is shown as a page: IPython has a kernel then."""
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None
