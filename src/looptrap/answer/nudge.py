"""`nudge`: tell a model that it goes in circles, by one message at the very end of the request.

Whatever stands before the nudge keeps its bytes, so that prompt caches stay valid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from looptrap.answer import wording
from looptrap.answer.answer import encode
from looptrap.answer.splice import append, field, last, wrap
from looptrap.call.content import decode
from looptrap.call.model import Call, Dialect, Request
from looptrap.policy.verdict import Verdict

LARGEST_BODY = 2 * 1024 * 1024
"""A splice reads the body once more; above this that would hold up everybody else."""

SIGNATURES = frozenset(
    {
        b"content-digest",
        b"content-md5",
        b"digest",
        b"repr-digest",
        b"signature",
        b"signature-input",
        b"x-amz-content-sha256",
    }
)
"""Headers that vouch for the bytes of a body: changed, it would be refused."""


def nudged(call: Call, verdict: Verdict) -> bytes | None:
    """Return the body with a nudge at its end; None where it cannot or must not have one."""
    splice = SPLICES.get(call.dialect)
    body = call.request.body
    if splice is None or not call.generates or len(body) > LARGEST_BODY:
        return None
    if _is_sealed(call.request) or not _is_models_turn(call):
        return None
    return splice(body, wording.nudge(verdict))


def _is_sealed(request: Request) -> bool:
    """Say whether the body is encoded or signed."""
    for name, value in request.headers:
        if name in SIGNATURES:
            return True
        if name == b"authorization" and value.startswith(b"AWS4-"):
            return True
        if name == b"content-encoding" and value.strip().lower() not in (b"", b"identity"):
            return True
    return False


def _is_models_turn(call: Call) -> bool:
    """Say whether the model is asked to begin a turn, with no tool call still unanswered."""
    results: Counter[str] = Counter()
    for place, message in enumerate(call.backwards()):
        if not place and message.role not in ("user", "tool", "system"):
            return False  # a prefill to be continued, or something unknown
        results.update(result.call_id or result.name for result in message.results)
        if message.role == "assistant":
            return not Counter(made.id or made.name for made in message.calls) - results
    return bool(call.raws)


def _into_chat(body: bytes, text: str) -> bytes | None:
    messages = field(body, "messages")
    return messages and append(body, messages, encode({"role": "user", "content": text}))


def _into_responses(body: bytes, text: str) -> bytes | None:
    items = field(body, "input")
    if items is None:
        return None
    nudge = encode({"role": "user", "content": text})
    if body[items].startswith(b'"'):
        # A string is short for one user message; written out, another can follow it.
        return wrap(body, items, b'[{"role":"user","content":', b"}," + nudge + b"]")
    return append(body, items, nudge)


def _into_anthropic(body: bytes, text: str) -> bytes | None:
    """Add a block to the last user message: roles alternate, and results must come first."""
    messages = field(body, "messages")
    message = messages and last(body, messages)
    if not message:
        return None
    role, within = field(body[message], "role"), field(body[message], "content")
    if role is None or within is None or decode(body[message][role]) != "user":
        return None
    content = slice(message.start + within.start, message.start + within.stop)
    block = encode({"type": "text", "text": text})
    if body[content].startswith(b'"'):
        # A string is short for one text block.
        return wrap(body, content, b'[{"type":"text","text":', b"}," + block + b"]")
    return append(body, content, block)


def _into_gemini(body: bytes, text: str) -> bytes | None:
    # A content of its own: one with function responses must hold exactly as many as were called.
    contents = field(body, "contents")
    return contents and append(body, contents, encode({"role": "user", "parts": [{"text": text}]}))


SPLICES: dict[Dialect, Callable[[bytes, str], bytes | None]] = {
    "openai_chat": _into_chat,
    "openai_responses": _into_responses,
    "anthropic": _into_anthropic,
    "gemini": _into_gemini,
}
