"""Descriptors: what they read from a call, and how a wrong name is refused."""

from __future__ import annotations

import re

import pytest

from looptrap.dialect.descriptor import descriptor
from looptrap.dialect.model import Call, Request
from looptrap.errors import ConfigError

REQUEST = Request(
    query="team=a%26b&team=c&na%20me=x+y&empty=&bare",
    headers=[(b"x-team", b"caf\xe9"), (b"x-team", b"other")],
    caller="key-1",
    project="research",
    session="s-1",
    address="192.0.2.7",
    claims={"org_id": "acme"},
)
CALL = Call(REQUEST, "openai_chat", model="gpt-5", user="u-1")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("caller", "key-1"),
        ("project", "research"),
        ("session", "s-1"),
        ("user", "u-1"),
        ("model", "gpt-5"),
        ("ip:address", "192.0.2.7"),
        ("gateway", ""),
        ("header:x-team", "café"),
        ("header:X-Team", "café"),
        ("header:x-none", ""),
        ("query:team", "a&b"),
        ("query:na me", "x y"),
        ("query:empty", ""),
        ("query:bare", ""),
        ("query:none", ""),
        ("jwt:org_id", "acme"),
        ("jwt:none", ""),
    ],
)
def test_reads_from_a_call(name: str, expected: str) -> None:
    assert descriptor(name)(CALL) == expected


@pytest.mark.parametrize(
    "name",
    ["caller", "project", "session", "user", "model", "ip:address", "header:a", "query:a", "jwt:a"],
)
def test_what_is_absent_reads_as_empty(name: str) -> None:
    assert descriptor(name)(Call(Request(), "http")) == ""


def test_unverified_claims_read_as_empty() -> None:
    token = b"Bearer eyJhbGciOiJub25lIn0.eyJvcmdfaWQiOiJhY21lIn0."
    call = Call(Request(headers=[(b"authorization", token)]), "http")
    assert descriptor("jwt:org_id")(call) == ""


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("modle", ", did you mean model?"),
        ("sesion", ", did you mean session?"),
        ("headers:x-team", ", did you mean header:x-team?"),
        ("jwt", "jwt:<claim>"),
        ("header:", "header:<name>"),
        ("ip", "ip:address"),
        ("", "caller"),
        ("tenant", "caller, project, session"),
    ],
)
def test_an_unknown_name_is_refused_with_what_is_allowed(name: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(hint)) as raised:
        descriptor(name)
    assert repr(name) in str(raised.value)
