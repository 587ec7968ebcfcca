"""`python -m spanwise`: the command line that came with this package.

`overhead` is answered here: it measures this very interpreter.
"""

from __future__ import annotations

import os
import sys
import sysconfig


def command_line() -> str | None:
    """The path of the command `spanwise` of this installation, if it has one."""
    folders = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable)]
    user = sysconfig.get_preferred_scheme("user") if sys.version_info >= (3, 10) else None
    if user is not None:
        folders.append(sysconfig.get_path("scripts", user))
    for folder in folders:
        path = os.path.join(folder, "spanwise")
        if os.access(path, os.X_OK):
            return path
    return None


def main() -> None:
    if sys.argv[1:2] == ["overhead"]:
        from .profiling.adaptive import overhead

        sys.exit(overhead.main(sys.argv[2:]))
    path = command_line()
    if path is None:
        sys.exit("spanwise: this installation has no command line; install the wheel again")
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
