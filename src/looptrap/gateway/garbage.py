"""The garbage collector, told what a gateway knows about its memory."""

from __future__ import annotations

import gc

YOUNG, MIDDLE, OLD = 20_000, 20, 20
"""Python's own are 700, 10 and 10: what a request leaves is freed without the collector, since
nothing of it is kept in a circle, and looking for that again and again costs a tenth of the CPU."""


def spare() -> None:
    """Look seldom, and never again at what was made at the start; call it when all is up."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, OLD)
