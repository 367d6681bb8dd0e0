"""The bill of materials: CycloneDX, complete, and the same whenever the contents are."""

import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fuzz.audit import dependencies
from fuzz.lock import pins
from fuzz.sbom import bill, licence

from looptrap import __version__

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def made():
    return json.loads(json.dumps(bill(NOW)))


def test_it_has_what_the_format_requires(made):
    assert (made["bomFormat"], made["specVersion"], made["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", made["serialNumber"])
    assert made["metadata"]["timestamp"] == "2026-11-16T12:00:00Z"
    product = made["metadata"]["component"]
    assert (product["type"], product["name"], product["version"]) == (
        "application", "looptrap", __version__,
    )  # fmt: skip
    references = [one["bom-ref"] for one in made["components"]]
    assert len(set(references)) == len(references)


def test_it_lists_all_that_runs_with_the_product(made):
    listed = {(one["name"], one["version"]) for one in made["components"]}
    assert listed == {(one.name, one.version) for one in dependencies()}
    for one in made["components"]:
        assert one["type"] == "library"
        assert one["purl"] == one["bom-ref"] == f"pkg:pypi/{one['name']}@{one['version']}"
        [told] = one["licenses"]
        assert told.get("expression") or told["license"]["name"]


def test_hashes_are_those_of_the_lock_file_where_the_version_is_the_same(made):
    locked = pins()
    hashed = [one for one in made["components"] if "hashes" in one]
    assert hashed
    for one in made["components"]:
        is_locked = locked[one["name"]].version == one["version"]
        assert ("hashes" in one) == is_locked
        for told in one.get("hashes", ()):
            assert told["alg"] == "SHA-256"
            assert re.fullmatch(r"[0-9a-f]{64}", told["content"])


def test_it_says_what_needs_what(made):
    known = {one["bom-ref"] for one in made["components"]}
    product = made["metadata"]["component"]["bom-ref"]
    edges = {one["ref"]: set(one["dependsOn"]) for one in made["dependencies"]}
    assert set(edges) == known | {product}
    reached, waiting = set(), [product]
    while waiting:
        for one in edges[waiting.pop()] - reached:
            reached.add(one)
            waiting.append(one)
    assert reached == known


def test_the_same_contents_have_the_same_number(made):
    assert bill(datetime(2027, 1, 1, tzinfo=UTC))["serialNumber"] == made["serialNumber"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Apache-2.0", {"expression": "Apache-2.0"}),
        ("mit or bsd-3-clause", {"expression": "MIT OR BSD-3-Clause"}),
        ("BSD License", {"license": {"name": "BSD License"}}),
    ],
)
def test_a_licence_is_an_spdx_expression_where_it_can_be(text, shown):
    assert licence(text) == shown


def test_the_command_writes_a_file(tmp_path):
    file = tmp_path / "sbom.json"
    command = [sys.executable, "-m", "fuzz.sbom", "--output", file]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    assert json.loads(file.read_text("utf-8"))["components"]
