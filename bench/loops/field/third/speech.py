"""How models of this half word what they do."""

from __future__ import annotations

from collections.abc import Sequence

from bench.loops.field.run import Run


def speech(run: Run, *parts: Sequence[str]) -> str:
    """Return a choice for each part, as `Run.mix` does; an empty choice leaves its part out."""
    return " ".join(run.mix(*parts).split())
