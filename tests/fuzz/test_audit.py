"""What the audit of dependencies knows without any network."""

import json
import subprocess

import pytest
from fuzz.audit import Dependency, dependencies, known

from fuzz import audit


def test_all_that_runs_with_the_product_is_listed():
    names = {one.name for one in dependencies()}
    assert {"aiohttp", "msgspec", "uvloop", "yarl", "pyjwt", "genai-prices", "apprise"} <= names
    assert "pytest" not in names
    assert "looptrap" not in names


def test_every_licence_is_permissive():
    assert [one for one in dependencies() if not one.is_permissive] == []


@pytest.mark.parametrize(
    ("licence", "expected"),
    [
        ("Apache-2.0", True),
        ("BSD-3-Clause", True),
        ("MIT License", True),
        ("MPL-2.0", True),
        ("GNU Affero General Public License v3", False),
        ("GPL-3.0-only", False),
        ("LIMITED", False),
        ("unknown", False),
    ],
)
def test_which_licences_are(licence, expected):
    assert Dependency("a", "1", licence).is_permissive is expected


def pip_audit(monkeypatch, said):
    """Have pip-audit say this."""
    done = subprocess.CompletedProcess([], 0, stdout=said)
    monkeypatch.setattr(audit, "find_spec", lambda _: object())
    monkeypatch.setattr(audit.subprocess, "run", lambda *_, **__: done)


def test_what_nobody_could_be_asked_about_does_not_count_as_checked(monkeypatch):
    told = [
        {"name": "a", "version": "1", "vulns": [{"id": "PYSEC-1"}]},
        {"name": "b", "version": "2", "vulns": []},
        {"name": "c", "skip_reason": "not found on PyPI"},
        {"name": "other", "version": "1", "vulns": [{"id": "PYSEC-2"}]},
    ]
    pip_audit(monkeypatch, json.dumps({"dependencies": told}))
    assert known(["a", "b", "c"]) == (["a 1: PYSEC-1"], ["c"])


def test_an_audit_that_fails_checked_nothing(monkeypatch):
    pip_audit(monkeypatch, "no network")
    vulnerable, unchecked = known(["a"])
    assert not vulnerable
    assert unchecked
