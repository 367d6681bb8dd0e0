"""Judges the requests of LiteLLM's proxy as the gateway would. Needs no LiteLLM.

The proxy's hooks pass plain dictionaries: `data`, the request with what the proxy knows of it, and
`standard_logging_object`, what it used.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from looptrap.client.enforcer import Enforcer, GuardedCall, HeaderField
from looptrap.client.history import LocalHistory
from looptrap.dialect.answer import Answer
from looptrap.dialect.model import NO_USAGE, Outcome
from looptrap.dialect.openai_chat import ChatCounts
from looptrap.dialect.usage import read_counts
from looptrap.engine import Guard
from looptrap.money.price import nano

PROVIDER = "litellm"

log = logging.getLogger("looptrap")

TIMED_OUT = (408, 504)
"""The status of what LiteLLM no longer waited for."""

MAX_OPEN_CALLS = 10_000
"""Calls that may be under way at once; of more, the oldest are taken to use what was reserved."""

MAX_COST_USD = 1_000_000
"""The highest cost of one call that the proxy is believed."""

RequestData = Mapping[str, Any]


class ProxyRefusal(NamedTuple):
    """What the proxy is to tell a client that it refuses; it finds the shape by itself."""

    status: int
    headers: dict[str, str]
    error: dict[str, Any]
    """As OpenAI's `error`, with the gateway's `detail` inside."""


class ProxyDecision(NamedTuple):
    """What is to be done with a request."""

    refusal: ProxyRefusal | None = None
    delay: float = 0.0
    """Seconds to wait before it goes on."""
    changed: dict[str, Any] | None = None
    """Fields to send in place of the client's own."""


class ProxyEnforcer:
    """Judges the requests of a proxy, and settles those that pass by what they used."""

    def __init__(
        self,
        guard: Guard,
        *,
        block_status: int = 429,
        incident_history: LocalHistory | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.guard = guard
        self._enforcer = Enforcer(
            guard, block_status=block_status, incident_history=incident_history, clock=clock
        )
        self._open: dict[str, GuardedCall] = {}

    def judge(self, data: RequestData, key: str) -> ProxyDecision:
        """Judge a request that was made with a key of the proxy; empty where there is none."""
        request = _mapping(data.get("proxy_server_request"))
        if not request:
            return ProxyDecision()
        sent = _sent(_mapping(request.get("body")))
        try:
            guarded_call = self._enforcer.begin(
                str(request.get("method", "POST")),
                urlsplit(str(request.get("url", ""))).path.encode("latin-1", "replace"),
                self._headers(_mapping(request.get("headers")), data),
                _encoded(sent),
                PROVIDER,
                caller_id(key),
            )
            # A hook can send no final message, and the proxy wants the errors of OpenAI.
            guarded_call.enforce(self._enforcer.clock(), can_end=False, dialect="openai_chat")
        except Exception:
            log.exception("a call passes unjudged")
            return ProxyDecision()
        if guarded_call.answer is not None:
            guarded_call.settle_unsent()
            return ProxyDecision(_proxy_refusal(guarded_call.answer))
        self._keep(str(data.get("litellm_call_id", "")), guarded_call)
        return ProxyDecision(
            delay=guarded_call.delay, changed=_changed_fields(sent, guarded_call.body)
        )

    def used(self, call_id: str, payload: RequestData) -> None:
        """Settle a call by what the proxy logged of it."""
        guarded_call = self._open.pop(call_id, None)
        if guarded_call is None:
            return
        counts = _mapping(payload.get("metadata")).get("usage_object")
        usage = read_counts(counts, ChatCounts) or read_counts(dict(payload), ChatCounts)
        cost: int | None = None
        # The proxy knows which model an alias stood for; where it has no price, ours may be known.
        dollars = payload.get("response_cost")
        if isinstance(dollars, int | float) and 0 < dollars <= MAX_COST_USD:
            cost = nano(dollars)
        elif usage is not None:
            cost = guarded_call.cost(usage, self._enforcer.clock())
        self._enforcer.settle(guarded_call, Outcome(200, usage or NO_USAGE, cost=cost))

    def failed(self, call_id: str, status: int) -> None:
        """Settle a call without an answer; the provider may still work on one that timed out."""
        guarded_call = self._open.pop(call_id, None)
        if guarded_call is None:
            return
        now, is_lost = self._enforcer.clock(), status in TIMED_OUT and guarded_call.is_charged
        guarded_call.status = status
        if is_lost:
            guarded_call.lose(now)
        self._enforcer.settle(guarded_call, guarded_call.outcome(now, cut_off=is_lost))

    def _keep(self, call_id: str, guarded_call: GuardedCall) -> None:
        if len(self._open) >= MAX_OPEN_CALLS:
            self._enforcer.settle(self._open.pop(next(iter(self._open))), Outcome())
        self._open[call_id] = guarded_call

    def _headers(self, headers: RequestData, data: RequestData) -> list[HeaderField]:
        """Return what the client sent, with its session as LiteLLM knows it where ours is not."""
        sent = [
            (str(name).lower().encode("latin-1", "replace"), str(text).encode("latin-1", "replace"))
            for name, text in headers.items()
        ]
        names = self.guard.session_headers
        session = litellm_session(data)
        if session and names and not any(name in names for name, _ in sent):
            sent.append((names[0], session.encode("latin-1", "replace")))
        return sent


def _proxy_refusal(answer: Answer) -> ProxyRefusal:
    body = msgspec.json.decode(answer.body)
    headers = {
        name.decode("latin-1").lower(): text.decode("latin-1")
        for name, text in answer.headers
        if name != b"Content-Type"
    }
    return ProxyRefusal(answer.status, headers, {**body["error"], "detail": body["detail"]})


def caller_id(key: str) -> str:
    """Return who a key stands for, without telling the key."""
    return f"cred:{hashlib.blake2b(key.encode(), digest_size=8).hexdigest()}" if key else ""


def litellm_session(data: RequestData) -> str:
    """Return the session that the client named in LiteLLM's way, if it did."""
    for place in (data.get("metadata"), data.get("litellm_metadata")):
        if isinstance(place, Mapping) and place.get("session_id"):
            return str(place["session_id"])
    return str(data.get("litellm_session_id") or "")


def _mapping(value: object) -> RequestData:
    return value if isinstance(value, Mapping) else {}


def _sent(body: RequestData) -> dict[str, Any]:
    """Return what the client sent, without what the proxy has added to it by then."""
    sent = {
        name: value
        for name, value in body.items()
        if name != "metadata" and not name.startswith("litellm_")
    }
    if user := _mapping(body.get("metadata")).get("user_id"):
        sent["metadata"] = {"user_id": user}
    return sent


def _encoded(sent: RequestData) -> bytes | None:
    """Return the body as it may have been sent; None where it was no JSON, such as a file."""
    try:
        return msgspec.json.encode(sent)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return None


def _changed_fields(sent: RequestData, body: bytes | None) -> dict[str, Any] | None:
    """Return the fields that a body has and what was sent has not."""
    if body is None:
        return None
    fields: dict[str, Any] = msgspec.json.decode(body)
    return {name: value for name, value in fields.items() if value != sent.get(name)}
