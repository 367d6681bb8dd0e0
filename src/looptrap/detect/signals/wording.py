"""How evidence names what it saw: by tools and counts only."""

from __future__ import annotations

from looptrap.detect.round import Round


def tools(one: Round) -> str:
    """Return the names of the tools of a round."""
    return " + ".join(sorted(one.names))
