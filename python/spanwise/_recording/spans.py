"""`profile`, `span` and `session`: spans of this program, in a file that every command reads.

They are the same spans as those of `spanwise.profiling`, without managers: a session of a manager
counts them, and `session` writes what a manager records.
"""

from __future__ import annotations

import os
import warnings
from types import TracebackType
from typing import Any, Callable, ContextManager, Optional, TypeVar, Union, overload

from .. import _native
from ..profiling._core import runtime, sites
from ..profiling.decorators import profile_function

Function = TypeVar("Function", bound=Callable[..., Any])
Path = Union[str, "os.PathLike[str]"]
#: Of spans that name no component; only `spanwise.profiling` groups by component.
COMPONENT = "general"


@overload
def profile(function: Function) -> Function: ...
@overload
def profile(function: str) -> Callable[[Function], Function]: ...
def profile(function: Any) -> Any:
    """A decorator: each call of the function is a span, named as the function or as given.

    Works on functions, methods, generators and coroutines, with a name or without:

    >>> import spanwise
    >>> @spanwise.profile
    ... def load(): ...
    >>> @spanwise.profile("save results")
    ... def save(): ...

    Outside of sessions a call costs almost nothing more.
    """
    if isinstance(function, str):
        return profile_function(function, COMPONENT)
    inner = getattr(function, "__func__", function)
    name = getattr(inner, "__qualname__", type(inner).__name__)
    return profile_function(name.rpartition("<locals>.")[2], COMPONENT)(function)


def span(name: str, *, component: str = COMPONENT) -> ContextManager[object]:
    """A reusable object for `with`: create it once, enter it any number of times.

    >>> import spanwise
    >>> loading = spanwise.span("load batch")
    >>> with loading:
    ...     pass
    """
    made: ContextManager[object] = sites.reusable_span(name, component)
    return made


class Session:
    """Writes all spans of this process to a file, from `start` to `stop`.

    A forked child writes to a file of its own, with its process id before the ending. Sessions
    that are still open when the program ends are closed.
    """

    __slots__ = ("_path", "_file", "_counts")

    def __init__(self, path: Path) -> None:
        self._path = os.fspath(path)
        self._file: Optional[int] = None
        self._counts = (0, 0)

    @property
    def path(self) -> str:
        """The file of this process."""
        return self._path

    @property
    def records(self) -> int:
        """Number of spans in the file. 0 until the session is stopped."""
        return self._counts[0]

    @property
    def dropped(self) -> int:
        """Records that were lost because the file was written too slowly."""
        return self._counts[1]

    def start(self) -> Session:
        """Creates the file. `OSError` if that fails."""
        if self._file is not None:
            raise RuntimeError(f"{self._path}: the session has already started")
        runtime.add_session(self)
        try:
            self._file = _native.open_file(self._path)
        except BaseException:
            runtime.remove_session(self)
            raise
        return self

    def stop(self) -> None:
        """Completes the file. `OSError` if it could not be written; nothing if not started."""
        number, self._file = self._file, None
        if number is not None:
            try:
                self._counts = _native.close_file(number)
            finally:
                runtime.remove_session(self)

    def __enter__(self) -> Session:
        return self.start()

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        value: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<Session: {self._path}>"

    def _after_fork(self) -> None:
        """In a forked child: the parent's file is the parent's."""
        stem, ending = os.path.splitext(self._path)
        self._path = f"{stem}.{os.getpid()}{ending}"
        try:
            self._file = _native.open_file(self._path)
        except OSError as reason:
            self._file = None
            warnings.warn(f"{self._path}: not recorded: {reason}", stacklevel=2)


def session(path: Path) -> Session:
    """Records to a session file: `with spanwise.session("run.spanwise-session"):`.

    `spanwise.open` and every command read the file, also while it grows and after a crash.
    """
    return Session(path)
