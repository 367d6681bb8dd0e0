"""How evidence names what it saw: by tools and counts only."""

from __future__ import annotations

from looptrap.call.model import LONGEST_NAME
from looptrap.detect.round import Round

MOST = 8
"""Tools that are named of one round."""


def tools(one: Round) -> str:
    """Return the names of the tools of a round, as many as people read."""
    names = [name[:LONGEST_NAME] for name in sorted(one.names)]
    more = [f"{len(names) - MOST} more"] if len(names) > MOST else []
    return " + ".join(names[:MOST] + more)
