"""Requests: read in every dialect, judged, refused, nudged, and sent on under another model."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any

import msgspec
from tests.replay.captured import DIALECTS

from fuzz.target import Target, pick, seed
from looptrap.detect.signals.signal import Evidence
from looptrap.dialect.body import read_body
from looptrap.dialect.content import UNREADABLE
from looptrap.dialect.model import Call, Request
from looptrap.dialect.path import normal_path
from looptrap.dialect.registry import find_ending, read
from looptrap.engine import Guard
from looptrap.errors import CallError
from looptrap.gateway.slow_body import TooLargeError
from looptrap.gateway.slow_body import decode_body as unpacked
from looptrap.gateway.upstream.outbound_request import (
    find_model_slices,
    replace_model,
    replace_model_in_path,
)
from looptrap.policy.action import Action, Ladder
from looptrap.policy.policy import Policy
from looptrap.policy.refusal import final_message, nudged, refusal
from looptrap.policy.rule import Rule
from looptrap.policy.verdict import Verdict

PATHS = (
    *(path for path, _ in DIALECTS.values()),
    "/v1/embeddings",
    "/v1/messages/count_tokens",
    "/v1beta/models/m:streamGenerateContent",
    "/mcp",
    "/any/thing",
    "/v1/Chat/%63ompletions;a=b/.",
    "/model/m/converse",
    "/model/m/invoke",
    "/v1/batches",
)
ENCODINGS = ("utf-8-sig", "utf-16", "utf-16-be", "utf-32", "utf-32-le")
MOST_UNPACKED = 1 << 16
CONVERSE = (
    b'{"system":[{"text":"s"}],"messages":[{"role":"assistant","content":[{"toolUse":{"toolUseId":'
    b'"t","name":"n","input":{"a":1}}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"t",'
    b'"content":[{"text":"x"},{"json":{}}],"status":"error"}}]}],"toolConfig":{"tools":[]}}'
)
RPC = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":1}}}'
WORDS = tuple(
    b'"%b"' % word
    for word in (
        b"messages", b"role", b"content", b"tool_calls", b"tool_call_id", b"arguments", b"input",
        b"type", b"text", b"contents", b"parts", b"functionCall", b"model", b"stream", b"tool_use",
        b"tool_result", b"function_call_output", b"jsonrpc", b"previous_response_id", b"tools",
        b"toolUse", b"toolResult", b"toolConfig",
    )
)  # fmt: skip

SECRET = b"a secret of the fuzzer's own ..."
LOOP = Verdict(
    action=Action.BLOCK,
    reason="loop_detected",
    policy="p",
    rule="r",
    message="Blocked: the same 6 times.",
    count=6,
    threshold=6,
    fingerprint="c1-0",
    evidence=(Evidence(signal="repeat", what="the same", count=6, ago=6),),
)
WATCHED = (
    "conversation", "request", "session", "tool", "repeat", "cycle", "mutating_repeat",
    "same_error", "failing", "near_repeat", "stagnation", "unknown_tool", "monologue",
    "turn_budget", "chant",
)  # fmt: skip


def asked(data: bytes) -> Call:
    """Return the request that an input stands for."""
    path, body = pick(data, PATHS)
    return read(Request("POST", path, "key=1&a=b", (), body, "caller", "", "session"))


def decoded(text: bytes) -> Any:
    """Return what JSON says, also where its texts are not UTF-8 and its numbers beyond bounds."""
    return json.loads(text.decode("latin-1"), strict=False, parse_int=str, parse_float=str)


@cache
def _rules() -> tuple[Policy, ...]:
    """Return a policy with every way of counting, each of which acts at once."""
    ladder = Ladder({Action.WARN: 2, Action.BLOCK: 3})
    rules = [Rule(name=watch, watch=watch, ladder=ladder, cooldown=5.0) for watch in WATCHED]
    rules += [
        Rule(name=f"{watch}-{similarity}", watch=watch, similarity=similarity, ladder=ladder)
        for watch in ("conversation", "request", "tool")
        for similarity in ("masked", "near")
        if (watch, similarity) != ("request", "near")
    ]
    return (Policy(name="every", rules=tuple(rules)),)


def check_call(data: bytes) -> None:
    """Read and judge a request as often as it takes to be refused: the same is always the same."""
    guard, other = (Guard(_rules(), secret=SECRET) for _ in range(2))
    first, again = (one.plan(asked(data), 1.0).hits for one in (guard, other))
    assert [hit.key for hit in first] == [hit.key for hit in again], "another fingerprint"
    for second in range(4):
        guard.settle(guard.admit(asked(data), 1.0 + second))


def check_refusal(data: bytes) -> None:
    """Refuse and end whatever was asked: what the client gets is whole JSON, or whole events."""
    call = asked(data)
    answer = refusal(call, LOOP, shadow=None, request_id="r", block_status=429)
    decoded(answer.body)
    ended = final_message(call, LOOP, shadow=None, request_id="r", now=1.0)
    if ended is not None:
        for document in _documents(ended.body):
            decoded(document)


def _documents(body: bytes) -> list[bytes]:
    if not body.startswith((b"data:", b"event:")):
        return [body]
    lines = [line[5:].strip() for line in body.split(b"\n") if line.startswith(b"data:")]
    return [line for line in lines if line != b"[DONE]"]


def check_nudge(data: bytes) -> None:
    """A nudge stands at the end of what was sent, which is otherwise the same, byte for byte."""
    call = asked(data)
    body = call.request.body
    spliced = nudged(call, LOOP)
    if spliced is None:
        return
    before, after = decoded(body), decoded(spliced)
    assert list(before) == list(after)
    [name] = [name for name in before if before[name] != after[name]]
    assert name in ("messages", "input", "contents")
    if isinstance(before[name], list):
        kept = len(before[name]) - 1
        assert after[name][:kept] == before[name][:kept], "an earlier message has changed"
    begin = _alike(body, spliced)
    end = _alike(body[begin:][::-1], spliced[begin:][::-1])
    wrapped = body[begin : len(body) - end]
    assert wrapped in spliced[begin : len(spliced) - end], "something was taken away"


def _alike(one: bytes, other: bytes) -> int:
    """Return with how many bytes both begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def check_rewrite(data: bytes) -> None:
    """Another model's name goes where the model's was, and changes nothing else."""
    _, body = pick(data, PATHS)
    replace_model_in_path(body[:200].replace(b"\n", b""), "other")
    spots = find_model_slices(body)
    if not spots:
        return
    before, after = decoded(body), decoded(replace_model(body, spots, "a/1"))
    assert after == {**before, "model": "a/1"}


def check_encoding(data: bytes) -> None:
    """What can be read is read alike in every encoding that a decoder tells from the bytes."""
    path, body = pick(data, PATHS)
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return
    plain = read(Request("POST", path, body=body))
    if plain.is_opaque or plain.dialect in ("http", "mcp") or json.detect_encoding(body) != "utf-8":
        return
    for encoding in ENCODINGS:
        other = read(Request("POST", path, body=text.encode(encoding)))
        assert other.dialect == plain.dialect, encoding
        assert [one.role for one in other.messages] == [one.role for one in plain.messages]


def check_path(data: bytes) -> None:
    """A path has one normal form, whatever it is made of, and its end_stream is found in it."""
    path = data.decode("latin-1")
    normal = normal_path(path)
    assert normal.startswith("/")
    assert not {"", ".", ".."} & {*normal.split("/")[1:]} or normal == "/"
    assert find_ending(path) is find_ending(path.swapcase() if path.isascii() else path)


def check_unpacked(data: bytes) -> None:
    """Packed bytes unpack to no more than there may be, or stay as they are."""
    encoding, body = pick(data, (b"gzip", b"deflate", b"gzip, identity", b"br", b"gzip, gzip"))
    with suppress(TooLargeError):
        plain = unpacked(body, encoding, MOST_UNPACKED)
        assert plain is body or len(plain) <= MOST_UNPACKED


def check_body(data: bytes) -> None:
    """Bodies inside a process: told by their shape, or a CallError."""
    try:
        value = msgspec.json.decode(data[1:])
    except UNREADABLE:
        value = data[1:]
    for body in (data[1:], value):
        with suppress(CallError):
            assert read_body(body).messages is not None


def seeds() -> Iterator[bytes]:
    """Yield a short and a longer conversation of every dialect."""
    for place, (_, make) in enumerate(DIALECTS.values()):
        yield seed(place, msgspec.json.encode(make(1)))
        yield seed(place, msgspec.json.encode(make(4) | {"stream": True}))
    yield seed(5, b'{"model":"e","input":["a","b"]}')
    yield seed(PATHS.index("/mcp"), RPC)
    yield seed(PATHS.index("/mcp"), b"[%b,%b]" % (RPC, RPC))
    yield seed(PATHS.index("/model/m/converse"), CONVERSE)
    yield seed(0, b'{"messages":[],"user":1e400,"x":NaN,"y":"\\ud83d"}')
    yield seed(0, b'{"messages":[],"x":%b}' % (b"[" * 1_100 + b"]" * 1_100))
    yield seed(0, '{"messages":[]}'.encode("utf-16"))


def path_seeds() -> Iterator[bytes]:
    """Yield paths as they are, and as nobody writes them."""
    yield from (path.encode() for path in PATHS)
    yield b"/v1/x/%2e%2e/chat%252fcompletions;a=b//."
    yield b"\\v1\\chat\\completions%00%20?a#b"


def packed_seeds() -> Iterator[bytes]:
    """Yield a body in each encoding, whole, in members, and one that unpacks to too much."""
    body = b'{"messages":[]}'
    raw = zlib.compressobj(wbits=-15)
    yield seed(0, gzip.compress(body))
    yield seed(0, gzip.compress(body[:5]) + gzip.compress(body[5:]))
    yield seed(1, zlib.compress(body))
    yield seed(1, raw.compress(body) + raw.flush())
    yield seed(2, gzip.compress(bytes(2 * MOST_UNPACKED)))
    yield seed(4, gzip.compress(gzip.compress(body)))


TARGETS = [
    Target(name=name, check=check, seeds=seeds, words=WORDS)
    for name, check in (
        ("call", check_call),
        ("refusal", check_refusal),
        ("nudge", check_nudge),
        ("rewrite", check_rewrite),
        ("body", check_body),
        ("encoding", check_encoding),
    )
]
TARGETS += [
    Target(name="path", check=check_path, seeds=path_seeds, words=(b"/", b"%2e", b";", b"..")),
    Target(name="unpacked", check=check_unpacked, seeds=packed_seeds),
]
