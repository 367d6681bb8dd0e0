"""How evidence names what it saw: by tools and counts only."""

from __future__ import annotations

from looptrap.detect.round import Round

MOST = 8
"""Tools that are named of one round."""

LONGEST = 128
"""Characters of a name that are told: clients may send any."""


def tools(one: Round) -> str:
    """Return the names of the tools of a round, as many as people read."""
    names = [name[:LONGEST] for name in sorted(one.names)]
    more = [f"{len(names) - MOST} more"] if len(names) > MOST else []
    return " + ".join(names[:MOST] + more)
