"""Marks: by what a sighting is known to be of an incident that is open. Pure.

One agent in a loop trips several rules in one session; one prompt that is sent over and over may
look like another session each time, and is counted under one fingerprint. Either mark will do.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TypeAlias

from looptrap.detect.fingerprint import is_of_history
from looptrap.incident.model import Incident, Sighting
from looptrap.policy.rule import SCOPES

Mark: TypeAlias = tuple[str, str, str, str, str]
"""Whose, and of what kind: nothing of one caller is ever part of an incident of another."""

COUNTED = frozenset((*SCOPES, "similar_prompt"))
"""What is counted across requests, and so under the same fingerprint each time."""


def marks_of(seen: Sighting) -> list[Mark]:
    """Return the marks of a sighting, the one first by which its incident is opened."""
    whose = (seen.caller, seen.project, seen.mode)
    is_counted = seen.signal in COUNTED or not seen.session
    marks: list[Mark] = [(*whose, "fingerprint", seen.fingerprint)] if is_counted else []
    if seen.session:
        marks.append((*whose, "session", seen.session))
    return marks


def marks_in(part: Incident) -> list[Mark]:
    """Return the marks of what was seen of an incident, as far as they are written down."""
    whose = (part.caller, part.project, part.mode)
    counted = [one for one in part.fingerprints if not is_of_history(one)]
    marks: list[Mark] = [(*whose, "fingerprint", one) for one in counted]
    if part.session:
        marks.append((*whose, "session", part.session))
    return marks


def digest_of(mark: Mark) -> str:
    """Return a mark as instances tell it to each other."""
    text = "\0".join(mark)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
