"""Judges the requests of LiteLLM's proxy as the gateway would. Needs no LiteLLM.

The proxy's hooks pass plain dictionaries: `data`, the request with what the proxy knows of it, and
`standard_logging_object`, its usage.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from looptrap.client.enforcer import Enforcer, GuardedCall
from looptrap.dialect.answer import Answer
from looptrap.dialect.model import NO_USAGE, Outcome, Request
from looptrap.dialect.openai_chat import ChatCounts
from looptrap.dialect.usage_meter import read_counts
from looptrap.engine import Guard
from looptrap.money.price import nano

PROVIDER = "litellm"

log = logging.getLogger("looptrap")

TIMEOUT_STATUSES = (408, 504)
"""The statuses of calls that LiteLLM no longer waited for."""

MAX_OPEN_CALLS = 10_000
"""Calls under way at the same time; beyond it, the oldest count as what was reserved for them."""

MAX_COST_USD = 1_000_000
"""A higher cost of one call that the proxy reports is ignored."""

RequestData = Mapping[str, Any]


class ProxyRefusal(NamedTuple):
    """The refusal that the proxy sends to a client, in a form of its own."""

    status: int
    headers: dict[str, str]
    error: dict[str, Any]
    """As OpenAI's `error`, with the gateway's `detail` inside."""


class ProxyDecision(NamedTuple):
    """What the proxy does with a request."""

    refusal: ProxyRefusal | None = None
    delay: float = 0.0
    """Seconds to wait before it is sent."""
    changed: dict[str, Any] | None = None
    """Fields to send in place of the client's own."""


class ProxyEnforcer(Enforcer):
    """Judges the requests of a proxy, and settles those that pass by what they used."""

    def __init__(self, guard: Guard, **options: Any) -> None:
        super().__init__(guard, **options)
        self._open: dict[str, GuardedCall] = {}

    def judge(self, data: RequestData, key: str) -> ProxyDecision:
        """Judge a request that was made with a key of the proxy; empty where there is none."""
        request = _mapping(data.get("proxy_server_request"))
        if not request:
            return ProxyDecision()
        sent = _sent(_mapping(request.get("body")))
        body = _encoded(sent)
        try:
            guarded_call = self.begin(
                Request(
                    str(request.get("method", "POST")),
                    _latin1(urlsplit(str(request.get("url", ""))).path).decode("latin-1"),
                    headers=self._headers(_mapping(request.get("headers")), data),
                    body=body or b"",
                    caller=caller_id(key),
                    lacks_body=body is None,
                ),
                PROVIDER,
            )
            # A hook can send no final message, and the proxy expects OpenAI's errors.
            guarded_call.enforce(self.clock(), can_end=False, dialect="openai_chat")
        except Exception:
            log.exception("a call passes unjudged")
            return ProxyDecision()
        if guarded_call.answer is not None:
            guarded_call.settle_unsent()
            return ProxyDecision(_proxy_refusal(guarded_call.answer))
        self._keep(str(data.get("litellm_call_id", "")), guarded_call)
        changed = _changed_fields(sent, guarded_call.body)
        return ProxyDecision(delay=guarded_call.delay, changed=changed)

    def used(self, call_id: str, payload: RequestData) -> None:
        """Settle a call by what the proxy logged of it."""
        guarded_call = self._open.pop(call_id, None)
        if guarded_call is None:
            return
        counts = _mapping(payload.get("metadata")).get("usage_object")
        usage = read_counts(counts, ChatCounts) or read_counts(dict(payload), ChatCounts)
        cost: int | None = None
        # The proxy knows which model an alias stands for; where it has no price, we may have one.
        dollars = payload.get("response_cost")
        if isinstance(dollars, int | float) and 0 < dollars <= MAX_COST_USD:
            cost = nano(dollars)
        elif usage is not None:
            cost = guarded_call.cost(usage, self.clock())
        self.settle(guarded_call, Outcome(200, usage or NO_USAGE, cost=cost))

    def failed(self, call_id: str, status: int) -> None:
        """Settle a call without an answer; the provider may still work on one that timed out."""
        guarded_call = self._open.pop(call_id, None)
        if guarded_call is None:
            return
        now, is_lost = self.clock(), status in TIMEOUT_STATUSES and guarded_call.is_charged
        guarded_call.status = status
        if is_lost:
            guarded_call.lose(now)
        self.settle(guarded_call, guarded_call.outcome(now, cut_off=is_lost))

    def _keep(self, call_id: str, guarded_call: GuardedCall) -> None:
        if len(self._open) >= MAX_OPEN_CALLS:
            self.settle(self._open.pop(next(iter(self._open))), Outcome())
        self._open[call_id] = guarded_call

    def _headers(self, headers: RequestData, data: RequestData) -> list[tuple[bytes, bytes]]:
        """Return the client's headers; with LiteLLM's session, if they name none."""
        sent = [(_latin1(str(name).lower()), _latin1(str(text))) for name, text in headers.items()]
        names = self.guard.session_headers
        session = litellm_session(data)
        if session and names and not any(name in names for name, _ in sent):
            sent.append((names[0], _latin1(session)))
        return sent


def _latin1(text: str) -> bytes:
    return text.encode("latin-1", "replace")


def _proxy_refusal(answer: Answer) -> ProxyRefusal:
    body = msgspec.json.decode(answer.body)
    headers = {
        name.decode("latin-1").lower(): text.decode("latin-1")
        for name, text in answer.headers
        if name != b"Content-Type"
    }
    return ProxyRefusal(answer.status, headers, {**body["error"], "detail": body["detail"]})


def caller_id(key: str) -> str:
    """Return the caller that a key stands for, by a digest of it."""
    return f"cred:{hashlib.blake2b(key.encode(), digest_size=8).hexdigest()}" if key else ""


def litellm_session(data: RequestData) -> str:
    """Return the session that the client named in LiteLLM's way, if it did."""
    for name in ("metadata", "litellm_metadata"):
        if session := _mapping(data.get(name)).get("session_id"):
            return str(session)
    return str(data.get("litellm_session_id") or "")


def _mapping(value: object) -> RequestData:
    return value if isinstance(value, Mapping) else {}


def _sent(body: RequestData) -> dict[str, Any]:
    """Return what the client sent, without what the proxy has added."""
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
