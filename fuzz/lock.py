"""The lock file: what is pinned, for which environments, and by which hashes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement

from fuzz.audit import PROJECT, normal

LOCK = PROJECT.with_name("requirements.lock")

_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})(?= |$)")


class Pin(NamedTuple):
    """One version of a package."""

    requirement: Requirement
    """With `==`, and the environments in which it is needed."""
    hashes: tuple[str, ...]
    """SHA-256 of each file that the index offers for this version."""

    @property
    def version(self) -> str:
        """The only version that fits."""
        [one] = self.requirement.specifier
        return one.version


def pins(path: Path = LOCK) -> dict[str, Pin]:
    """Return what a lock file pins, by normal name; a package with two versions is an error."""
    found: dict[str, Pin] = {}
    for line in path.read_text("utf-8").replace("\\\n", " ").splitlines():
        hashes = tuple(_HASH.findall(line))
        text = _HASH.sub("", line).strip()
        if not text or text.startswith("#"):
            continue
        one = Requirement(text)
        [specifier] = one.specifier
        if specifier.operator != "==" or normal(one.name) in found:
            raise ValueError(f"{text}: must be pinned by ==, once")
        found[normal(one.name)] = Pin(one, hashes)
    return found
