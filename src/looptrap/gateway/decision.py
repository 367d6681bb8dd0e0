"""Decision mode: another proxy asks whether a request may pass, and forwards it itself."""

from __future__ import annotations

from hmac import compare_digest
from typing import TYPE_CHECKING, Any

from looptrap.dialect.answer import Answer, failure
from looptrap.dialect.model import DialectName, Request
from looptrap.dialect.registry import dialect_of
from looptrap.engine import Transaction
from looptrap.gateway.auth import Denial, is_loopback
from looptrap.gateway.request_context import DECISION_PATH, RequestContext
from looptrap.wire.exchange import Exchange

if TYPE_CHECKING:
    from looptrap.gateway.app import Runtime

TOKEN_HEADER = b"x-looptrap-decision-token"

INVALID_TOKEN = Denial(
    401,
    "invalid_decision_token",
    f"Decisions need the header {TOKEN_HEADER.decode()} with this gateway's token.",
)

BODILESS_METHODS = frozenset(("GET", "HEAD", "DELETE", "OPTIONS"))


def read_decision_request(
    exchange: Exchange[Any], context: RequestContext, runtime: Runtime, request_id: str, body: bytes
) -> Request | Answer:
    """Return the request that another proxy asks about; or a denial, where it may not ask.

    The path after /looptrap/decision names that request (Envoy), or X-Original-Method and
    X-Original-URI do (nginx); X-Real-IP is its address. Rules that need a body which was not sent
    along abstain.
    """
    sent = dict(exchange.headers)
    target = _target(exchange, sent)
    path, _, query = target.decode("latin-1").partition("?")
    if not _is_proxy_allowed(exchange, runtime, sent):
        return denial_answer(runtime, dialect_of(path), INVALID_TOKEN, request_id)
    # Identified again, since this is about the request of the proxy's client.
    address = sent.get(b"x-real-ip", b"").decode("latin-1") or exchange.peer
    identity = runtime.authenticator.identify(exchange.headers, target, address)
    if isinstance(identity, Denial):
        return denial_answer(runtime, dialect_of(path), identity, request_id)
    method = (sent.get(b"x-original-method") or exchange.method).decode("latin-1")
    inbound = runtime.inbound.read(exchange.headers, identity.drop)
    return Request(
        method,
        path,
        query,
        exchange.headers,
        body,
        identity.caller,
        identity.project,
        inbound.session,
        address,
        context.claims,  # of the client's own token: proxies pass its header on
        is_retry=inbound.is_retry,
        progress=inbound.progress,
        lacks_body=_lacks_body(exchange, method),
    )


def decision_answer(transaction: Transaction, runtime: Runtime) -> Answer:
    """Return 200 when the call may pass, else its refusal; nothing is forwarded."""
    if not transaction.ticket.verdict.action.refuses:
        headers = [*transaction.headers, (b"X-Request-Id", transaction.make_request_id())]
        return Answer(200, headers, b"")
    transaction.refuse()
    assert transaction.answer is not None
    return _with_proxy_status(transaction.answer, runtime)


def _target(exchange: Exchange[Any], sent: dict[bytes, bytes]) -> bytes:
    """Return the target of the request that the proxy holds.

    The path wins: proxies that use it may pass a client's own X-Original-URI on.
    """
    rest = exchange.target[len(DECISION_PATH) :]
    if rest.startswith(b"/"):
        return rest
    return sent.get(b"x-original-uri") or b"/" + rest


def _lacks_body(exchange: Exchange[Any], method: str) -> bool:
    """Return whether the proxy kept the body; only a length of 0 says that there is none."""
    if exchange.body or method in BODILESS_METHODS:
        return False
    return (b"x-original-content-length", b"0") not in exchange.headers


def _is_proxy_allowed(exchange: Exchange[Any], runtime: Runtime, sent: dict[bytes, bytes]) -> bool:
    if runtime.decision_token:
        return compare_digest(sent.get(TOKEN_HEADER, b""), runtime.decision_token)
    return is_loopback(exchange.peer)


def denial_answer(
    runtime: Runtime, dialect: DialectName, denied: Denial, request_id: str
) -> Answer:
    """Return the answer to a proxy that may not ask, or whose request cannot be judged."""
    status, code, message = denied.status, denied.code, denied.message
    answer = failure(dialect, status=status, code=code, message=message, request_id=request_id)
    return _with_proxy_status(answer, runtime)


def _with_proxy_status(answer: Answer, runtime: Runtime) -> Answer:
    """Return the answer with the one status that the proxy knows, if it knows just one.

    JSON-RPC errors have status 200, which would let the request pass.
    """
    status = answer.status if answer.status >= 400 else 403
    headers = [*answer.headers, (b"X-Looptrap-Status", b"%d" % status)]
    return Answer(runtime.config.gateway.decision_status or status, headers, answer.body)
