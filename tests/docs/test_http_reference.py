"""The HTTP reference names every header and code that a client can meet."""

import re
from pathlib import Path
from typing import get_args

import pytest

from looptrap.gateway import auth
from looptrap.policy.verdict import CODES
from looptrap.wire.exchange import UpstreamErrorKind

ROOT = Path(__file__).parents[2]
REFERENCE = (ROOT / "docs" / "reference" / "http.md").read_text()
SOURCE = ROOT / "src" / "looptrap"


def texts(*folders):
    return [path.read_text() for folder in folders for path in (SOURCE / folder).rglob("*.py")]


def own_codes():
    """Return (status, code) of every refusal that the wire and the gateway write out."""
    written = re.compile(
        r'(?:Refused|Refusal|WireRefusal|Denial|fail|_denial_answer)\([^")]*?(\d{3}),\s*"([a-z_]+)"'
    )
    return sorted({found for text in texts("wire", "gateway") for found in written.findall(text)})


def test_the_search_for_codes_finds_those_of_every_room():
    codes = {code for _, code in own_codes()}
    assert {"request_too_large", "unknown_route", "invalid_decision_token"} <= codes
    assert {auth.KEY_MISSING.code, auth.KEY_UNKNOWN.code, "overloaded"} <= codes


@pytest.mark.parametrize(("status", "code"), own_codes(), ids=lambda value: value)
def test_every_code_is_documented_with_its_status(status, code):
    assert f"| `{code}` | {status} |" in REFERENCE


@pytest.mark.parametrize("kind", get_args(UpstreamErrorKind))
def test_every_failure_of_a_provider_is_documented(kind):
    assert f"| `upstream_{kind}` |" in REFERENCE


@pytest.mark.parametrize(("reason", "code"), CODES.items())
def test_every_reason_for_a_refusal_is_documented(reason, code):
    assert f"| `{reason}` | `{code}` |" in REFERENCE


def test_every_header_of_ours_is_documented():
    names = {
        name
        for text in texts("gateway", "policy")
        for name in re.findall(r'b"(X-(?:Looptrap|Fairvisor)-[A-Za-z-]+|x-should-retry)"', text)
    }
    assert "X-Looptrap-Status" in names
    assert {name for name in names if f"`{name}`" not in REFERENCE} == set()
