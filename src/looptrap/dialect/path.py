"""Paths as a lenient server understands them: for decisions only, never for forwarding."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from urllib.parse import unquote

MAX_DECODINGS = 3
"""Layers of percent-encoding that are removed: proxies decode a path before a provider does."""


# The size limit of each cache: clients may invent any number of paths.
@lru_cache(maxsize=256)
def normal_path(path: str) -> str:
    """Return the path without escapes, parameters, empty segments, dot segments or final slash."""
    for _ in range(MAX_DECODINGS):
        if "%" not in path:
            break
        path = unquote(path)
    path = path.partition("?")[0].partition("#")[0].replace("\\", "/")
    segments: list[str] = []
    for segment in path.split("/"):
        name = "".join(filter(str.isprintable, segment)).partition(";")[0].strip()
        if name == "..":
            del segments[-1:]
        elif name not in ("", "."):
            segments.append(name)
    return "/" + "/".join(segments)


@lru_cache(maxsize=256)
def folded_path(path: str) -> str:
    """Return the normal path in lower case and with a final slash, for comparisons."""
    return normal_path(path).lower().rstrip("/") + "/"


def folded_prefix(prefix: str) -> str:
    """Return the beginning of the folded paths of a prefix; `/v1/` matches `/v1` and all below."""
    folded = folded_path(prefix)
    return folded if prefix.endswith("/") else folded[:-1]


@lru_cache(maxsize=256)
def model_in_path(path: str) -> str:
    """Return the model in a path of Azure's, Bedrock's (`…/model/x/…`) or Google's."""
    # An escaped slash may be part of a name, so the path is split before it is decoded.
    segments = [unquote(segment).partition(";")[0].strip() for segment in path.split("/")]
    names = [segment for segment in segments if segment not in ("", ".")] or [""]
    for segment, name in pairwise(names):
        if segment.lower() in ("deployments", "model"):
            return name
    return names[-1].rpartition(":")[0]
