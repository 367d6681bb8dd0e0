"""The admin listener of several workers: one address, and the answers of all merged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler
from multidict import CIMultiDict
from yarl import URL

from looptrap.admin.api import error_response, iso_time, json_response
from looptrap.admin.audit import OPERATOR_HEADER, SOURCE_HEADER
from looptrap.admin.auth import EVERYBODY_HERE, OPERATOR, AdminAccess, Operator, is_dashboard_path
from looptrap.admin.budget import BUDGETS_PATH, AccountView, BudgetList, most_used
from looptrap.admin.metrics import MetricTotals
from looptrap.admin.provider import PROVIDERS_PATH, ProviderList, ProviderView, first_byte_p95
from looptrap.admin.server import AdminServer, Readiness
from looptrap.admin.status import STATUS_PATH, GatewayStatus, HealthNotice
from looptrap.config.kind import Address
from looptrap.gateway.app import App
from looptrap.money.meter import Unit

T = TypeVar("T")

LOCAL_PATHS = ("/livez", "/readyz", "/metrics")
"""The rest is answered by one worker for all: they share the store."""

WORKER_TIMEOUT = aiohttp.ClientTimeout(total=2.0)
"""For a worker to report."""

CONNECT_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=2.0)
"""For a worker to accept a request; its response may be a stream without end."""

HOP_BY_HOP = ("Connection", "Keep-Alive", "Transfer-Encoding", "Upgrade", "TE", "Trailer")
NO_WORKER_MESSAGE = "No worker is up. Ask again in a moment."

REPLACED_HEADERS = ("Host", "Authorization", "Content-Length", SOURCE_HEADER, OPERATOR_HEADER)
"""Request headers: the client has been checked, and the worker has its own token."""


@dataclass(frozen=True, slots=True)
class WorkerEndpoint:
    """The admin listener of one serving worker."""

    pid: int
    address: tuple[str, int]
    token: str

    def url(self, path: str) -> URL:
        """Return the URL of a path, as it was sent, at this worker."""
        return URL(f"http://{Address(*self.address)}{path}", encoded=True)

    @property
    def bearer(self) -> dict[str, str]:
        """The header with its token."""
        return {"Authorization": f"Bearer {self.token}"}


class WorkerDirectory(Protocol):
    """The workers of a pool, as operators see them."""

    @property
    def size(self) -> int:
        """How many workers there should be."""

    @property
    def restarts(self) -> int:
        """How many ended and were replaced."""

    is_complete: bool
    """Whether all have been up."""
    is_stopping: bool

    def members(self) -> Sequence[WorkerEndpoint]:
        """Return the workers that serve."""


class WorkerProxy(AdminServer):
    """Serves operators of several workers as AdminServer does those of one."""

    def __init__(
        self,
        app: App,
        workers: WorkerDirectory,
        address: Address,
        access: AdminAccess = EVERYBODY_HERE,
    ) -> None:
        super().__init__(app, address, access)
        self._workers = workers
        self._totals = MetricTotals()
        self._client: aiohttp.ClientSession | None = None

    async def start(self) -> tuple[str, int]:
        """Listen; return the address, with the port found for 0."""
        self._client = aiohttp.ClientSession(auto_decompress=False)
        return await super().start()

    async def stop(self) -> None:
        """Close the listener."""
        await super().stop()
        if self._client is not None:
            await self._client.close()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in MERGERS and request.method == "GET":
            handler = self._answer_for_all
        elif request.path not in LOCAL_PATHS and not is_dashboard_path(request.path):
            handler = self._forward
        return await super()._guard(request, handler)

    async def _readiness(self) -> Readiness:
        if self._workers.is_stopping:
            return "stopping"
        answers = (await self._ask_all("/readyz")).values()
        if not answers or not self._workers.is_complete:
            return "starting"
        ready = [answer for answer in answers if b'"ready"' in answer]
        return "ready" if len(ready) == self._workers.size else "degraded"

    async def _exposition(self) -> bytes:
        for pid, text in (await self._ask_all("/metrics")).items():
            self._totals.add(pid, text.decode())
        members = [member.pid for member in self._workers.members()]
        self._totals.retire_all_but(members)
        return self._totals.exposition(workers=len(members), restarts=self._workers.restarts)

    async def _answer_for_all(self, request: web.Request) -> web.StreamResponse:
        """Ask every worker and merge their answers."""
        found = await self._ask_all(request.raw_path)
        if not found:
            return await self._forward(request)  # it says what is wrong with the request
        answers = [msgspec.json.decode(one) for one in found.values()]
        merged = MERGERS[request.path](answers)
        if request.path == STATUS_PATH:
            merged = self._add_workers(merged, len(answers), request[OPERATOR])
        return json_response(merged)

    def _add_workers(
        self, status: GatewayStatus, serving: int, operator: Operator
    ) -> GatewayStatus:
        size, notices = self._workers.size, status["notices"]
        if serving < size and not self._workers.is_stopping:
            message = (
                f"{size - serving} of {size} workers do not answer. The others take their calls,"
                " and each is replaced by itself; the log says why it ended."
            )
            missing: HealthNotice = {"level": "warn", "code": "worker_missing", "message": message}
            notices = [*notices, missing]
        return {
            **status,
            "started": iso_time(self._app.started),
            "workers": {"size": size, "serving": serving},
            "draining": status["draining"] or self._workers.is_stopping,
            "notices": notices,
            "can_write": operator.may_write,
            "operator": operator.name,
        }

    async def _ask_all(self, path: str) -> dict[int, bytes]:
        """Return the answers of workers by process; one that fails is left out."""
        members = self._workers.members()
        answers = await asyncio.gather(*(self._ask(member, path) for member in members))
        pairs = zip(members, answers, strict=True)
        return {member.pid: answer for member, answer in pairs if answer is not None}

    async def _ask(self, member: WorkerEndpoint, path: str) -> bytes | None:
        assert self._client is not None  # made with the listener
        url, headers = member.url(path), member.bearer
        try:
            async with self._client.get(url, headers=headers, timeout=WORKER_TIMEOUT) as answer:
                return await answer.read() if answer.status == 200 else None
        except (aiohttp.ClientError, OSError, TimeoutError):
            return None

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        """Relay the response of one worker; try the next where one cannot be reached."""
        assert self._client is not None  # made with the listener
        body = await request.read()
        headers = _without(request.headers, *HOP_BY_HOP, *REPLACED_HEADERS)
        headers.append((SOURCE_HEADER, request.remote or ""))
        headers.append((OPERATOR_HEADER, quote(request[OPERATOR].name)))
        for member in self._workers.members():
            try:
                answer = await self._client.request(
                    request.method,
                    member.url(request.raw_path),
                    data=body or None,
                    headers=[*headers, *member.bearer.items()],
                    skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
                    allow_redirects=False,
                    timeout=CONNECT_TIMEOUT,
                )
            except aiohttp.ClientConnectorError:
                continue
            except (aiohttp.ClientError, OSError):
                # It may have done what it was asked: no other worker may do it again.
                return error_response(502, "worker_lost", "The worker asked has ended. Ask again.")
            async with answer:
                return await _relay(request, answer, self._timeouts.write)
        return error_response(503, "no_worker", NO_WORKER_MESSAGE)


async def _relay(
    request: web.Request, answer: aiohttp.ClientResponse, timeout: float
) -> web.StreamResponse:
    headers = CIMultiDict(_without(answer.headers, *HOP_BY_HOP))
    relayed = web.StreamResponse(status=answer.status, reason=answer.reason, headers=headers)
    await relayed.prepare(request)
    try:
        async for chunk in answer.content.iter_any():
            async with asyncio.timeout(timeout):
                await relayed.write(chunk)
    except TimeoutError:
        raise ConnectionResetError("the client does not read on") from None
    except aiohttp.ClientPayloadError:
        raise ConnectionResetError("the worker has ended") from None
    await relayed.write_eof()
    return relayed


def _without(headers: Mapping[str, str], *names: str) -> list[tuple[str, str]]:
    excluded = {name.lower() for name in names}
    return [(name, value) for name, value in headers.items() if name.lower() not in excluded]


NOTICES_OF_ALL_WORKERS = ("no_calls",)
"""Notices that hold only if all workers have them."""

BREAKER_SEVERITY = {"closed": 0, "half_open": 1, "open": 2}


def _merge_status(answers: Sequence[GatewayStatus]) -> GatewayStatus:
    """Return the status of all; a fault of one is a fault of all."""
    first = answers[0]
    histories = [one["history"] for one in answers]
    return {
        **first,
        "started": min(one["started"] for one in answers),
        "store": {
            **first["store"],
            "is_degraded": any(one["store"]["is_degraded"] for one in answers),
        },
        "history": {
            **first["history"],
            "is_writing": all(one["is_writing"] for one in histories),
            "failed": sum(one["failed"] for one in histories),
            "lost": sum(one["lost"] for one in histories),
            "waiting": sum(one["waiting"] for one in histories),
        },
        "draining": any(one["draining"] for one in answers),
        "notices": _merge_notices([one["notices"] for one in answers]),
        "indicators": [
            max(same, key=lambda one: one["value"])
            for same in zip(*(one["indicators"] for one in answers), strict=False)
        ],
        # Each reports all that it knows, and some learn of one a moment later.
        "open_incidents": max(one["open_incidents"] for one in answers),
    }


def _merge_providers(answers: Sequence[ProviderList]) -> ProviderList:
    """Return the providers with the sums of all workers."""
    by_name: dict[str, list[ProviderView]] = {}
    for answer in answers:
        for one in answer["providers"]:
            by_name.setdefault(one["name"], []).append(one)
    return {**answers[0], "providers": [_merge_provider(same) for same in by_name.values()]}


def _merge_budgets(answers: Sequence[BudgetList]) -> BudgetList:
    """Return budgets with the accounts that any worker charged recently."""
    every = [one for answer in answers for one in answer["budgets"]]
    accounts: dict[tuple[str, Unit], dict[str, AccountView]] = {}
    for one in every:
        known = accounts.setdefault((one["name"], one["unit"]), {})
        known |= {account["fingerprint"]: account for account in one["accounts"]}
    first = {(one["name"], one["unit"]): one for one in reversed(every)}
    return {
        "budgets": [
            {**first[key], "accounts": most_used(known.values())} for key, known in accounts.items()
        ],
        "rates": answers[0]["rates"],
    }


MERGERS: dict[str, Callable[[Sequence[Any]], Any]] = {
    STATUS_PATH: _merge_status,
    PROVIDERS_PATH: _merge_providers,
    BUDGETS_PATH: _merge_budgets,
}
"""By path; every other answer is the same from each worker."""


def _merge_notices(reported: Sequence[Sequence[HealthNotice]]) -> list[HealthNotice]:
    """Return every notice once; of those with one code, the longest has the most details."""
    in_all = set.intersection(*({one["code"] for one in notices} for notices in reported))
    found = _highest_of_each(
        (one for notices in reported for one in notices),
        key=lambda one: one["code"],
        rank=lambda one: len(one["message"]),
    )
    valid = [
        one for one in found if one["code"] not in NOTICES_OF_ALL_WORKERS or one["code"] in in_all
    ]
    return sorted(valid, key=lambda one: one["level"] != "bad")


def _merge_provider(same: Sequence[ProviderView]) -> ProviderView:
    longest = max(len(one["first_bytes"]) for one in same)
    padded = [one["first_bytes"] or [0] * longest for one in same]
    counts = [sum(numbers) for numbers in zip(*padded, strict=True)]
    return {
        **same[0],
        "calls": sum(one["calls"] for one in same),
        "failures": sum(one["failures"] for one in same),
        "p95_first_byte_seconds": first_byte_p95(counts),
        "first_bytes": counts,
        "breakers": _highest_of_each(
            (breaker for one in same for breaker in one["breakers"]),
            key=lambda one: (one["circuit"], one["credential"]),
            rank=lambda one: BREAKER_SEVERITY[one["state"]],
        ),
    }


def _highest_of_each(
    items: Iterable[T], *, key: Callable[[T], Hashable], rank: Callable[[T], int]
) -> list[T]:
    """Return one item for each key: the first of the highest rank."""
    found: dict[Hashable, T] = {}
    for one in items:
        known = found.setdefault(key(one), one)
        if rank(one) > rank(known):
            found[key(one)] = one
    return list(found.values())
