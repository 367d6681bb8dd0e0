"""The selectors of a bundle."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from looptrap.policy.fairvisor.finding import Findings
from looptrap.policy.policy import Selector
from looptrap.policy.setting.kind import PATH
from looptrap.schema.wording import found, inside

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
"""What a selector without methods matches there; here, reads count only where they are named."""

_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")


def read_selectors(findings: Findings, spec: dict[str, Any], place: str) -> Iterator[Selector]:
    """Yield one selector, or two: an exact path *or* a prefix may match there."""
    selector = findings.table(spec, place, "selector", required=True)
    if selector is None:
        return
    place = inside(place, "selector")
    findings.name_unknown(place, selector, "pathExact pathPrefix methods hosts")
    methods, hosts = _methods(findings, selector, place), _hosts(findings, selector, place)
    exact, prefix = (
        read_path(findings, selector, place, key) for key in ("pathExact", "pathPrefix")
    )
    if prefix is not None and not prefix.endswith("/"):
        prefix += "/"
    if exact is None and prefix is None:
        findings.warnings.append(f"{place}: has neither pathExact nor pathPrefix, binds nothing")
    elif not methods:
        findings.warnings.append(f"{inside(place, 'methods')}: names no method, binds nothing")
    else:
        if prefix is not None:
            yield Selector(path_prefix=prefix, methods=methods, hosts=hosts)
        if exact is not None and not (prefix and exact.startswith(prefix)):
            yield Selector(path_exact=exact, methods=methods, hosts=hosts)


def read_path(findings: Findings, selector: dict[str, Any], place: str, key: str) -> str | None:
    """Return the path of that key, if there is one."""
    path = selector.get(key)
    if path is None:
        return None
    if not isinstance(path, str) or not re.fullmatch(PATH.pattern, path):
        findings.wrong(inside(place, key), f"is {found(path)}, must be {PATH.words()}")
        return None
    return path


def _methods(findings: Findings, selector: dict[str, Any], place: str) -> tuple[str, ...]:
    methods = selector.get("methods")
    if methods is None:
        return METHODS
    if not isinstance(methods, list):
        findings.wrong(inside(place, "methods"), f"is {found(methods)}, must be a list")
        return ()
    for i, method in enumerate(methods):
        if not isinstance(method, str) or not method:
            findings.warnings.append(f"{place}.methods[{i}]: is {found(method)}, no method")
    return tuple(method for method in methods if isinstance(method, str) and method)


def _hosts(findings: Findings, selector: dict[str, Any], place: str) -> tuple[str, ...]:
    place = inside(place, "hosts")
    hosts = selector.get("hosts")
    if hosts is None:
        return ()
    if not isinstance(hosts, list) or not hosts:
        findings.wrong(place, "must be a non-empty array of hostnames")
        return ()
    names = []
    for i, host in enumerate(hosts):
        name = re.sub(r":\d+$", "", host.strip().lower()) if isinstance(host, str) else ""
        name = name.removesuffix(".")
        if _HOST.fullmatch(name) and ".." not in name:
            names.append(name)
        else:
            findings.wrong(f"{place}[{i}]", f"is {found(host)}, must be a hostname")
    return tuple(names)
