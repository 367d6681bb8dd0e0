"""Paths as a lenient server understands them: for judging only, never for forwarding."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import unquote

MAX_DECODINGS = 3
"""Layers of percent-encoding that are removed: proxies decode a path before a provider does."""


# The bound keeps a client that makes up paths from filling the memory.
@lru_cache(maxsize=256)
def normal_path(path: str) -> str:
    """Return the path without escapes, parameters, empty segments, dot segments or final slash."""
    for _ in range(MAX_DECODINGS):
        if "%" not in path:
            break
        path = unquote(path)
    path = path.partition("?")[0].partition("#")[0].replace("\\", "/")
    kept: list[str] = []
    for segment in path.split("/"):
        name = "".join(filter(str.isprintable, segment)).partition(";")[0].strip()
        if name == "..":
            del kept[-1:]
        elif name not in ("", "."):
            kept.append(name)
    return "/" + "/".join(kept)


@lru_cache(maxsize=256)
def folded_path(path: str) -> str:
    """Return the normal path in lower case and with a final slash, to be compared with others."""
    return normal_path(path).lower().rstrip("/") + "/"


def folded_prefix(prefix: str) -> str:
    """Return how the folded paths of a prefix begin; `/v1/` binds `/v1` and what is below it."""
    folded = folded_path(prefix)
    return folded if prefix.endswith("/") else folded[:-1]
