"""Failures: does a tool's result say that it did not work, or that there was nothing?"""

from __future__ import annotations

import re

from looptrap.detect.mask import mask

HEAD, TAIL = 800, 400
"""Where a result says so: at its beginning or its end. What stands between is content."""

SHORT = 600
"""In a result up to this long every line may be the error; in a longer one it must stand out."""

LINE = 300
"""Longer lines are content, whatever they speak of."""

_FAILS = re.compile(
    r"\berrors?\b|error(?::|$)|exception|traceback|\bfail(?:ed|ure|s)?\b|\bfatal\b"
    r"|\bdenied\b|\brefused\b"
    r"|\binvalid\b|unrecogni[sz]ed|not found|no such|\bcannot\b|can't|could not|couldn't"
    r"|unable to|timed out|time-?out|unexpected|\bundefined\b|\bmissing\b|\bpanic\b|mismatch"
    r"|not (?:defined|allowed|permitted|supported|valid|recogni[sz]ed|exist)|does not|doesn't"
    r"|must be"
)
"""Looked for in lower case: twice as fast as a pattern that does not mind the case."""
_SOURCE = re.compile(
    r"\s*(?:\d+[:\t|]\s*)?(?:class|def|import|from|raise|return|except|catch|throw|public|private"
    r"|protected|static|const|let|var|func|fn|struct|enum|//|#|/?\*|<!--|@)"
)
"""How a line of source begins: it may speak of errors as much as it likes."""

_EXIT = re.compile(r"(?:returncode|exit[ _]?(?:code|status))\W{0,4}(-?\d{1,5})")
_NAMED = re.compile(r"\s*[\w.]*(?:error|exception)\b")
_NOTHING = re.compile(
    r"did not produce any output|\bno (?:output|results?|matches|hits|rows|data)\b"
    r"|\b0 (?:results?|matches|hits|rows)\b|\bnothing (?:found|to)\b",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"\d+")
_MARKUP = re.compile(r"<[^<>]{0,40}>|[\W\d_]+")
WORDLESS = 24
"""So many letters beside the exit status are still no message."""


def failure_of(text: str, is_error: bool = False) -> str | None:
    """Return what went wrong, in a form that the same failure always has; None if nothing did.

    An exit status decides where there is one. Numbers and volatile tokens are left out.
    """
    ends = text if len(text) <= HEAD + TAIL else f"{text[:HEAD]}\n{text[-TAIL:]}"
    lowered = ends.lower()
    # Looking for two words is cheap; the pattern that takes them apart is not.
    status = _EXIT.search(lowered) if "exit" in lowered or "returncode" in lowered else None
    if status is not None:
        if status[1] == "0":
            return None
        # Searches that find nothing end with 1, and without a word.
        is_error = is_error or status[1] != "1" or len(_MARKUP.sub("", lowered)) > WORDLESS
    lines = [line for line in lowered.splitlines() if line.strip()]
    if not lines:
        return "failed" if is_error else None
    is_short = len(text) <= SHORT
    outer = lines if is_short else [*lines[:3], *lines[-3:]]
    told = [
        line
        for line in outer
        if len(line) <= LINE and _FAILS.search(line) and _SOURCE.match(line) is None
    ]
    if not is_error and not (
        told and (is_short or told[0] in lines[:3] or _NAMED.match(lines[-1]) is not None)
    ):
        return None
    said = " ".join((told or [line[:LINE] for line in lines[-2:]])[:3])
    return _DIGITS.sub("#", " ".join(mask(said).split()))[:300]


def is_fruitless(text: str) -> bool:
    """Say whether a result that is no failure holds nothing."""
    bare = text.strip()
    if len(bare) < 3 and not bare.isalnum():  # "ok" is an answer, "[]" is none
        return True
    return len(bare) <= SHORT and _NOTHING.search(bare[:160]) is not None
