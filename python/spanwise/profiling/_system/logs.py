"""Words to loggers: those of `logging`, and those that take fields by name."""

from __future__ import annotations

import sys
from typing import Any


def default_logger() -> Any:
    """The logger of this package."""
    # Loaded when something is to be said: programs start faster without.
    import logging

    return logging.getLogger("spanwise.profiling")


def say(logger: Any, level: str, message: str, **fields: Any) -> None:
    """Says something at a level (`info`, `warning`, …), with fields; to no logger, nothing."""
    write = getattr(logger, level, None)
    if write is None:
        return
    logging = sys.modules.get("logging")
    if logging is not None and isinstance(logger, (logging.Logger, logging.LoggerAdapter)):
        text = ", ".join(f"{name}={value!r}" for name, value in fields.items())
        write("%s%s", message, f" ({text})" if text else "")
        return
    try:
        write(message, **fields)
    except TypeError:
        # It takes no fields.
        write(message)
