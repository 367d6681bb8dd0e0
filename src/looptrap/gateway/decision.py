"""Decision mode: another proxy asks whether a request may pass, and forwards it itself."""

from __future__ import annotations

from hmac import compare_digest
from typing import Any

from looptrap.dialect.answer import Answer, failure
from looptrap.dialect.model import Call, DialectName, Request
from looptrap.dialect.registry import dialect_of
from looptrap.engine import Transaction
from looptrap.gateway.auth import Denial, Identity, is_loopback
from looptrap.gateway.request_context import DECISION_PATH, RequestContext
from looptrap.gateway.runtime import Runtime
from looptrap.wire.exchange import Exchange

TOKEN_HEADER = b"x-looptrap-decision-token"


BODILESS_METHODS = frozenset(("GET", "HEAD", "DELETE", "OPTIONS"))


def read_decision_request(
    exchange: Exchange[Any],
    context: RequestContext,
    runtime: Runtime,
    request_id: str,
    body: bytes,
) -> Request | Answer:
    """Return the request that another proxy asks about; or a denial, where it may not ask.

    The request asked about is named by what follows /looptrap/decision in the path (Envoy), or by
    X-Original-Method and X-Original-URI (nginx); X-Real-IP says whence it came. Rules that need a
    body that was not sent along abstain.
    """
    sent = dict(exchange.headers)
    target = _target(exchange, sent)
    dialect = dialect_of(target.partition(b"?")[0].decode("latin-1"))
    if not _is_asker_allowed(exchange, runtime, sent):
        message = f"Decisions need the header {TOKEN_HEADER.decode()} with this gateway's token."
        return _denial_answer(runtime, dialect, 401, "invalid_decision_token", message, request_id)
    # Anew, as this is about the request that the proxy holds: its query, and who sent it.
    peer = sent.get(b"x-real-ip", b"").decode("latin-1") or exchange.peer
    identity = runtime.authenticator.identify(exchange.headers, target, peer)
    if isinstance(identity, Denial):
        status, code = identity.status, identity.code
        return _denial_answer(runtime, dialect, status, code, identity.message, request_id)
    method = (sent.get(b"x-original-method") or exchange.method).decode("latin-1")
    return _request(
        exchange, context, identity, runtime, method, target.decode("latin-1"), peer, body
    )


def decision_answer(transaction: Transaction, runtime: Runtime) -> Answer:
    """Return 200 when the call may pass, else its refusal; nothing is forwarded."""
    if not transaction.ticket.verdict.action.refuses:
        headers = [*transaction.headers, (b"X-Request-Id", transaction.make_request_id())]
        return Answer(200, headers, b"")
    transaction.refuse()
    assert transaction.answer is not None
    return _with_proxy_status(transaction.answer, runtime)


def unreadable(call: Call, runtime: Runtime, denied: Denial, request_id: str) -> Answer:
    """Return the answer to a proxy that asks about a call which cannot be read."""
    return _denial_answer(
        runtime, call.dialect, denied.status, denied.code, denied.message, request_id
    )


def _target(exchange: Exchange[Any], sent: dict[bytes, bytes]) -> bytes:
    """Return the target of the request that the proxy holds.

    The path wins: proxies that use it may pass a client's own X-Original-URI on.
    """
    rest = exchange.target[len(DECISION_PATH) :]
    if rest.startswith(b"/"):
        return rest
    return sent.get(b"x-original-uri") or b"/" + rest


def _lacks_body(exchange: Exchange[Any], method: str) -> bool:
    """Say whether the body stayed with the proxy; only a length of 0 says that there is none."""
    if exchange.body or method in BODILESS_METHODS:
        return False
    return (b"x-original-content-length", b"0") not in exchange.headers


def _is_asker_allowed(exchange: Exchange[Any], runtime: Runtime, sent: dict[bytes, bytes]) -> bool:
    if runtime.decision_token:
        return compare_digest(sent.get(TOKEN_HEADER, b""), runtime.decision_token)
    return is_loopback(exchange.peer)


def _request(
    exchange: Exchange[Any],
    context: RequestContext,
    identity: Identity,
    runtime: Runtime,
    method: str,
    target: str,
    peer: str,
    body: bytes,
) -> Request:
    inbound = runtime.inbound.read(exchange.headers, identity.drop)
    path, _, query = target.partition("?")
    return Request(
        method,
        path,
        query,
        exchange.headers,
        body,
        identity.caller,
        identity.project,
        inbound.session,
        peer,
        context.claims,  # of the client's own token: proxies pass its header on
        is_retry=inbound.is_retry,
        progress=inbound.progress,
        lacks_body=_lacks_body(exchange, method),
    )


def _denial_answer(
    runtime: Runtime, dialect: DialectName, status: int, code: str, message: str, request_id: str
) -> Answer:
    answer = failure(dialect, status=status, code=code, message=message, request_id=request_id)
    return _with_proxy_status(answer, runtime)


def _with_proxy_status(answer: Answer, runtime: Runtime) -> Answer:
    """Return the answer under the one status that the asking proxy knows, if it knows just one.

    JSON-RPC errors travel under 200, which is a yes to whoever asks.
    """
    status = answer.status if answer.status >= 400 else 403
    headers = [*answer.headers, (b"X-Looptrap-Status", b"%d" % status)]
    return Answer(runtime.decision_status or status, headers, answer.body)
