# ruff: noqa: T201 - says what it found
"""The dependencies of the product: which versions, under which licences, and what is known of them.

python -m fuzz.audit [--strict]

Needs no network but for known vulnerabilities, which pip-audit asks PyPI about; what it could not
ask about is told as not checked, and with --strict is a failure.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
EXTRAS = ("embedded", "jwt", "apprise", "otel", "postgres")
"""What people may install with it, to run it."""

_PERMISSIVE = re.compile(
    r"\b(?:MIT|BSD|0BSD|Apache|PSF|Python Software Foundation|ISC|MPL|Mozilla Public License"
    r"|Unlicense|CC0)\b",
    re.IGNORECASE,
)
LINKED_ONLY = ("psycopg", "psycopg-binary")
"""Of an extra, under the LGPL: used as they are, they ask nothing of Looptrap (ADR 24)."""

TIMEOUT = 300


class Dependency(NamedTuple):
    """One distribution that runs with the product."""

    name: str
    version: str
    licence: str

    @property
    def is_permissive(self) -> bool:
        """Whether whoever uses or changes Looptrap owes its authors no source."""
        is_linked_only = self.name in LINKED_ONLY and self.licence.startswith("LGPL")
        return is_linked_only or _PERMISSIVE.search(self.licence) is not None


class Installed(NamedTuple):
    """A distribution that is installed here, with the extras that are asked of it."""

    distribution: Distribution
    extras: frozenset[str]


class Known(NamedTuple):
    """What is known of vulnerabilities."""

    vulnerable: list[str]
    unchecked: list[str]
    """Of which nobody could be asked, or why nobody could be asked at all."""


def dependencies() -> list[Dependency]:
    """Return all that runs with the product, its dependencies' dependencies included."""
    return [described(one.distribution) for _, one in sorted(installed().items())]


def installed() -> dict[str, Installed]:
    """Return what is installed of all that runs with the product, by normal name."""
    found: dict[str, Installed] = {}
    waiting = [(normal(one.name), frozenset(one.extras)) for one in asked_for()]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        name, wanted = waiting.pop()
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        try:
            one = distribution(name)
        except PackageNotFoundError:
            continue  # for another platform or another Python
        before = found[name].extras if name in found else frozenset[str]()
        found[name] = Installed(one, before | wanted)
        waiting += [(normal(more.name), frozenset(more.extras)) for more in needed(one, wanted)]
    return found


def asked_for() -> Iterator[Requirement]:
    """Yield what the project asks for: of itself, what is installed may be older."""
    project = tomllib.loads(PROJECT.read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    for texts in (project["dependencies"], *(extras[name] for name in EXTRAS)):
        yield from map(Requirement, texts)


def needed(of: Distribution, extras: frozenset[str]) -> Iterator[Requirement]:
    """Yield what a distribution asks for, here and with these extras."""
    for text in of.requires or ():
        one = Requirement(text)
        environments = [{"extra": extra} for extra in ("", *extras)]
        if one.marker is None or any(map(one.marker.evaluate, environments)):
            yield one


def normal(name: str) -> str:
    """Return a name as all its spellings are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def described(one: Distribution) -> Dependency:
    """Return name, version and licence of a distribution."""
    fields = one.metadata
    classified = [
        text.rpartition(" :: ")[2]
        for text in fields.get_all("Classifier") or ()
        if text.startswith("License ::")
    ]
    written = (fields.get("License") or "").strip().partition("\n")[0]
    licence = fields.get("License-Expression") or " / ".join(classified) or written
    return Dependency(normal(str(fields["Name"])), one.version, str(licence or "unknown"))


def known(names: list[str]) -> Known:
    """Ask pip-audit about these."""
    if find_spec("pip_audit") is None:
        return Known([], ["pip-audit is not installed"])
    command = [sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        told = json.loads(done.stdout)["dependencies"]
    except (subprocess.TimeoutExpired, ValueError, KeyError):
        return Known([], ["pip-audit could not ask anybody"])
    ours = [one for one in told if normal(one["name"]) in names]
    vulnerable = [
        f"{one['name']} {one['version']}: {found['id']}"
        for one in ours
        for found in one.get("vulns", ())
    ]
    return Known(vulnerable, [one["name"] for one in ours if "skip_reason" in one])


def main() -> int:
    """Print what was found; return 0 where nothing is wrong."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.audit", description=__doc__)
    parser.add_argument("--strict", action="store_true", help="what was not checked is a failure")
    options = parser.parse_args()
    ours = dependencies()
    for one in ours:
        print(f"{one.name:36} {one.version:14} {one.licence}")
    strange = [one.name for one in ours if not one.is_permissive]
    print(f"\nlicences: {_list(strange, 'all permissive', 'look at')}")
    command = [sys.executable, "-m", "pip", "check"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    print(f"pip check: {checked.stdout.strip()}")
    told = known([one.name for one in ours])
    if told.vulnerable or not told.unchecked:
        print(f"vulnerabilities: {_list(told.vulnerable, 'none known', 'KNOWN in')}")
    if told.unchecked:
        print(f"vulnerabilities NOT CHECKED: {', '.join(told.unchecked)}")
    is_wrong = strange or checked.returncode or told.vulnerable
    return int(bool(is_wrong or (options.strict and told.unchecked)))


def _list(found: list[str], nothing: str, otherwise: str) -> str:
    return f"{otherwise} {', '.join(found)}" if found else nothing


if __name__ == "__main__":
    sys.exit(main())
