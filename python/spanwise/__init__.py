"""Where did the time go, and why: spans of your own program, and the command `spanwise`.

`spanwise.profiling` has decorators, sessions and reports; `spanwise.span` is the cheapest
way to time a block.
"""

from __future__ import annotations

__all__ = ["__version__", "span"]
__version__ = "0.1.0"


def span(name: str, component: str = "general"):
    """A reusable object for `with`: make it once, enter it as often as you like.

    >>> loading = span("load batch")
    >>> with loading:
    ...     pass
    """
    from .profiling._sites import reusable_span

    return reusable_span(name, component)
