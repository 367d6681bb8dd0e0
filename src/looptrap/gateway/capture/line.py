"""Lines of a capture: what is written of a call, as it was sent or as digests of it."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from hashlib import blake2b

import msgspec

from looptrap.call.captured import VERSION, Decided, Form, Line, Recent
from looptrap.call.model import Call, Message
from looptrap.detect.canonical import join
from looptrap.detect.stand_in import StandIns
from looptrap.policy.verdict import ALLOWED, Verdict

_encode = msgspec.json.Encoder().encode


class _Written(msgspec.Struct, frozen=True, gc=False):
    """What is remembered of a run's last line: enough to tell what the next one repeats."""

    messages: array[int]
    sizes: array[int]
    """How many bytes each of them took in the file."""
    tools: tuple[str, ...]


class Lines:
    """Makes lines of calls; a line leans on those before it, until `start_over`."""

    def __init__(self, form: Form, secret: bytes) -> None:
        self._form: Form = form
        self._stand_ins = StandIns(secret)
        self._named = blake2b(digest_size=8, key=secret[:64], person=b"lt-capture")
        self._runs: Recent[_Written] = Recent()

    def start_over(self) -> None:
        """Forget all lines: the next one stands in another file."""
        self._runs.clear()

    def line(self, call: Call, verdict: Verdict, now: float) -> bytes:
        """Return a call as a line, its end included."""
        request, run = call.request, self._run(call)
        # Each message is known by its hash: within this process, so none is ever written.
        hashes = array("q", [hash(bytes(raw)) for raw in call.raws])
        before = self._runs.find(run, now)
        kept = _shared(before.messages, hashes) if before is not None else 0
        messages = list(self._messages(call, kept))
        sizes = before.sizes[:kept] if before is not None else array("q")
        sizes.extend(memoryview(raw).nbytes for raw in messages)
        self._runs.keep(run, now, sum(sizes), _Written(hashes, sizes, call.tools))
        line = Line(
            looptrap=VERSION,
            t=now,
            run=run,
            kept=kept,
            form=self._form,
            dialect=call.dialect,
            path=request.path,
            model=call.model,
            stream=call.stream,
            caller=self._name("caller", request.caller),
            project=request.project,
            session=self._said("session", request.session),
            user=self._said("user", call.user),
            chain=self._said("chain", call.chain),
            progress=self._said("progress", request.progress),
            retry=request.is_retry,
            tools=None if before is not None and before.tools == call.tools else call.tools,
            verdict=_decided(verdict),
            messages=messages,
        )
        return _encode(line) + b"\n"

    def _messages(self, call: Call, kept: int) -> Iterator[msgspec.Raw]:
        new, read = call.raws[kept:], call.read
        if self._form == "content":
            yield from map(_on_one_line, new)
        elif read is not None:
            sized = ((read(raw), memoryview(raw).nbytes) for raw in new)
            for stand_in in self._stand_ins.of(sized):
                yield msgspec.Raw(_encode(stand_in))

    def _run(self, call: Call) -> str:
        """Return the id of the call's run: by its session, else by how it began."""
        request = call.request
        if request.session:
            return self._name("session", request.caller, request.session)
        began = [f"{one.role} {one.text}" for one in _beginning(call)]
        return self._name("beginning", request.caller, call.model, *began)

    def _said(self, what: str, text: str) -> str:
        """Return what a client said of itself, or a digest of it."""
        return text if self._form == "content" else self._name(what, text)

    def _name(self, what: str, *texts: str) -> str:
        if not any(texts):
            return ""
        named = self._named.copy()
        named.update(join([what, *texts]))
        return named.hexdigest()


def _beginning(call: Call) -> Iterator[Message]:
    """Yield the messages up to the first of a user."""
    if call.read is not None:
        for message in map(call.read, call.raws):
            yield message
            if message.role == "user":
                return


def _shared(before: array[int], now: array[int]) -> int:
    """Return how many messages at the beginning are the same."""
    most = min(len(before), len(now))
    if before[:most] == now[:most]:
        return most
    return next(i for i in range(most) if before[i] != now[i])


def _on_one_line(raw: msgspec.Raw) -> msgspec.Raw:
    """Return a message without line ends between its fields; inside of texts there are none."""
    text = bytes(raw)
    if b"\n" in text or b"\r" in text:
        return msgspec.Raw(msgspec.json.format(text, indent=-1))
    return raw


def _decided(verdict: Verdict) -> Decided | None:
    if verdict is ALLOWED:
        return None
    signal = verdict.evidence[0].signal if verdict.evidence else ""
    return Decided(verdict.action.value, verdict.rule, signal)
