"""Recorders of this very process: one that listens already, or one that is started for it."""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Optional

from ... import _native
from ..._files import remove_folder

# A recorder ends after this much by itself: nobody else would end it, should we be killed.
RECORDED_MAX_S = 30
READY_EVERY_S = 0.01
# Where no function of Python has been read by then, none can be.
PYTHON_WITHIN_S = 2.0
# A file that has no more is only begun.
FILE_HEAD_BYTES = 64
ENDS_WITHIN_S = 60
# `prctl`: this process lets another one read its memory.
PR_SET_PTRACER = 0x59616D61
BREAKPOINT = b"\xcc"

_known: dict = {}


def _snapshot_function() -> Any:
    """The function that recorders watch by its name."""
    if "snapshot" not in _known:
        import ctypes

        function = ctypes.CDLL(_native.__file__).spanwise_snapshot
        function.argtypes = [ctypes.c_uint64, ctypes.c_uint64]
        function.restype = None
        _known["snapshot"] = function
    return _known["snapshot"]


def is_someone_listening() -> bool:
    """Whether a recorder watches for calls: the kernel sets a breakpoint there for it."""
    import ctypes

    try:
        address = ctypes.cast(_snapshot_function(), ctypes.c_void_p).value
        return address is not None and ctypes.string_at(address, 1) == BREAKPOINT
    except (AttributeError, OSError):
        return False


def ask_for_snapshot(argument: int) -> None:
    """Requests a snapshot from a recorder that listens."""
    _snapshot_function()(0, argument)


class Attach:
    """A `spanwise attach` of this process, into a folder that is not there yet."""

    def __init__(self, folder: str) -> None:
        import subprocess

        from ..reports.live_view import _command_line

        self.folder = folder
        # When it was seen to record, on the monotonic clock.
        self.ready_ns: Optional[int] = None
        command = [_command_line(), "attach", "-p", str(os.getpid()), "--recording", folder]
        command += ["--no-decode", "--duration", f"{RECORDED_MAX_S}s"]
        # A session of its own: Ctrl-C is for the program.
        self._process: Any = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            start_new_session=True,
        )
        _allow_tracing(self._process.pid)
        threading.Thread(target=self._wait_until_ready, name="spanwise-deep-ready",
                         daemon=True).start()

    @property
    def is_ready(self) -> bool:
        """Whether it records."""
        return self.ready_ns is not None

    @property
    def has_ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._process.poll() is not None

    def _wait_until_ready(self) -> None:
        """The kernel's records come first; Python functions shortly after, if at all."""
        recorded_at = None
        while self._process.poll() is None:
            if recorded_at is None and self._has("perf.data"):
                recorded_at = time.monotonic()
            if recorded_at is not None:
                is_late = time.monotonic() - recorded_at > PYTHON_WITHIN_S
                if is_late or self._has("python.samples"):
                    self.ready_ns = time.monotonic_ns()
                    return
            time.sleep(READY_EVERY_S)

    def _has(self, file: str) -> bool:
        try:
            return os.path.getsize(os.path.join(self.folder, file)) > FILE_HEAD_BYTES
        except OSError:
            return False

    def finish(self) -> Optional[str]:
        """Ends the recording; says why there is none, where there is none."""
        import signal
        import subprocess

        try:
            self._process.send_signal(signal.SIGINT)
            _, said = self._process.communicate(timeout=ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            _, said = self._process.communicate()
            return "the recorder did not end"
        if self._process.returncode != 0:
            text = said.decode("utf-8", "replace").strip()
            return text or f"the recorder ended with {self._process.returncode}"
        return None

    def discard(self) -> Optional[str]:
        """Ends it and takes away what it wrote; says what it could not do."""
        reason = self.finish()
        remove_folder(self.folder)
        return reason


def _allow_tracing(process_id: int) -> None:
    """Where only parents may trace processes, a child needs permission."""
    import ctypes

    try:
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, process_id, 0, 0, 0)
    except (AttributeError, OSError):
        # Elsewhere no leave is needed, or none can be given.
        pass
