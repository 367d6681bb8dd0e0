"""Selectors compiled at start: which calls a policy binds."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fnmatch import translate

from looptrap.dialect.descriptor import descriptor
from looptrap.dialect.model import Call
from looptrap.dialect.path import folded_path, folded_prefix
from looptrap.policy.policy import KillSwitch, Selector
from looptrap.policy.rate import Values

Selects = Callable[[Call], bool]


def selects(selector: Selector) -> Selects | None:
    """Return the test of a selector; None when it matches every call."""
    tests = path_tests(selector)
    if selector.methods:
        methods = frozenset(selector.methods)
        tests.append(lambda call: call.request.method in methods)
    if selector.hosts:
        hosts = frozenset(host.lower() for host in selector.hosts)
        tests.append(lambda call: _host(call) in hosts)
    if selector.models:
        named = re.compile("|".join(translate(model) for model in selector.models))
        tests.append(lambda call: named.match(call.model) is not None)
    tests.extend(_header_test(name, value) for name, value in selector.headers)
    return all_of(tests) if tests else None


def all_of(tests: Sequence[Selects]) -> Selects:
    """Return the test whether all of these succeed."""
    return tests[0] if len(tests) == 1 else lambda call: all(test(call) for test in tests)


def path_tests(selector: Selector | KillSwitch) -> list[Selects]:
    """Return the tests of a selector's path, or of a kill switch's."""
    tests: list[Selects] = []
    if selector.path_exact is not None:
        exact = folded_path(selector.path_exact)
        tests.append(lambda call: folded_path(call.request.path) == exact)
    if selector.path_prefix is not None:
        prefix = folded_prefix(selector.path_prefix)
        tests.append(lambda call: folded_path(call.request.path).startswith(prefix))
    return tests


def _host(call: Call) -> str:
    host = (call.request.header(b"host") or b"").decode("latin-1").lower()
    name, _, port = host.rpartition(":")
    return name if port.isdigit() else host


def _header_test(name: str, value: str) -> Selects:
    key, expected = name.lower().encode("latin-1"), value.encode()
    if value == "*":
        return lambda call: call.request.header(key) is not None
    return lambda call: call.request.header(key) == expected


def has_values(values: Values) -> Selects:
    """Return the test whether the descriptors of a call have all of these values."""
    expected = [(descriptor(name), value) for name, value in values]
    return lambda call: all(read(call) == value for read, value in expected)
