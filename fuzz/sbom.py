# ruff: noqa: T201 - says what it wrote
"""A bill of materials: all that runs with Looptrap, as CycloneDX 1.6 in JSON.

python -m fuzz.sbom [--output FILE]

It lists what is installed in this environment. Hashes are those of the lock file, where it pins the
same version: of each file that the package index offers for it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.requirements import Requirement

from fuzz.audit import Installed, asked_for, described, installed, needed, normal
from fuzz.lock import Pin, pins
from looptrap import __version__

Json = dict[str, Any]


def bill(now: datetime) -> Json:
    """Return the bill of what is installed here."""
    found, locked = installed(), pins()
    product: Json = {
        "type": "application",
        "bom-ref": purl("looptrap", __version__),
        "name": "looptrap",
        "version": __version__,
        "licenses": [{"license": {"id": "Apache-2.0"}}],
        "purl": purl("looptrap", __version__),
    }
    contents: Json = {
        "components": [
            component(one.distribution, locked.get(name)) for name, one in sorted(found.items())
        ],
        "dependencies": [
            {
                "ref": product["bom-ref"],
                "dependsOn": _refs(asked_for(), found),
            },
            *(
                {"ref": _ref(one), "dependsOn": _refs(needed(*one), found)}
                for _, one in sorted(found.items())
            ),
        ],
    }
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        # The same contents have the same number.
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(contents)).urn,
        "version": 1,
        "metadata": {
            "timestamp": now.isoformat(timespec="seconds").replace("+00:00", "Z"),
            "component": product,
        },
        **contents,
    }


def component(one: Distribution, pin: Pin | None) -> Json:
    """Return a dependency as a component."""
    told = described(one)
    ref = purl(told.name, told.version)
    found: Json = {
        "type": "library",
        "bom-ref": ref,
        "name": told.name,
        "version": told.version,
        "licenses": [licence(told.licence)],
        "purl": ref,
    }
    if pin is not None and pin.version == told.version:
        found["hashes"] = [{"alg": "SHA-256", "content": text} for text in pin.hashes]
    return found


def licence(text: str) -> Json:
    """Return a licence: as an SPDX expression where it is one, else by its name."""
    try:
        return {"expression": canonicalize_license_expression(text)}
    except InvalidLicenseExpression:
        return {"license": {"name": text}}


def purl(name: str, version: str) -> str:
    """Return the package URL of a version on PyPI."""
    return f"pkg:pypi/{normal(name)}@{version}"


def _ref(one: Installed) -> str:
    return purl(str(one.distribution.metadata["Name"]), one.distribution.version)


def _refs(wanted: Iterator[Requirement], found: Mapping[str, Installed]) -> list[str]:
    names = {normal(one.name) for one in wanted}
    return [_ref(found[name]) for name in sorted(names) if name in found]


def main() -> int:
    """Write the bill, to standard output unless told otherwise."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.sbom", description=__doc__)
    parser.add_argument("--output", type=Path, help="where to write it")
    output = parser.parse_args().output
    built = os.environ.get("SOURCE_DATE_EPOCH")
    now = datetime.fromtimestamp(int(built), UTC) if built else datetime.now(UTC)
    text = json.dumps(bill(now), indent=2) + "\n"
    if output is None:
        print(text, end="")
    else:
        output.write_text(text, "utf-8")
        print(f"{output} is written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
