"""The trajectory: what an agent did since a person last spoke, round by round."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from msgspec import Raw
from rapidfuzz import fuzz

from looptrap.call.model import Call, Message, ToolCall, ToolResult
from looptrap.detect.canonical import join, normalise
from looptrap.detect.change import alters
from looptrap.detect.failure import failure_of, is_fruitless
from looptrap.detect.lazy import lazy
from looptrap.detect.mask import mask
from looptrap.detect.poll import is_poll

COMPARED = 4096
"""Results are compared by so many of their first characters, and by their length."""

ALIKE = 85.0
"""Per cent from which on two texts are almost the same."""


PROMPT = 40
_INJECTED = re.compile(
    r"\W*(?:please\s+)?(?:continue|go on|go ahead|proceed|keep going|carry on|next(?: step)?"
    r"|resume)(?:\s+please)?\W*",
    re.IGNORECASE,
)
"""What loops around a model say to keep it going."""

LOOKED_THROUGH = 40
"""In so many of the latest messages a call is looked for before they are read."""

SHORTEST, LONGEST = 4, 24
"""How much of a call is looked for: less proves nothing, more makes the search no faster."""

_PLAIN = re.compile(r"[A-Za-z0-9 _.:=,-]+")
"""What JSON writes as it is, however often it is wrapped."""

Reader = Callable[[Raw], Message]


class Round:
    """One assistant turn with its tool calls, and what came back; looked into as needed."""

    def __init__(
        self, said: Message | Raw, answers: Sequence[Message | Raw], read: Reader | None = None
    ) -> None:
        self._said = said
        self._answers = answers
        """What tools answered, the latest first; like `said`, read with `read` where still raw."""
        self._read = read

    @lazy
    def said(self) -> Message:
        """What the assistant said, and asked for."""
        return self._message(self._said)

    @lazy
    def text(self) -> str:
        """The words."""
        return self.said.text

    @lazy
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls."""
        return self.said.calls

    @lazy
    def size(self) -> int:
        """How much came back, about: of what is still raw, without reading it."""
        if self._read is None:
            return len(self.result)
        return sum(memoryview(raw).nbytes for raw in self._answers if isinstance(raw, Raw))

    @lazy
    def results(self) -> tuple[ToolResult | None, ...]:
        """In the order of the calls; None where no result has come."""
        found: dict[str, list[ToolResult]] = {}
        for message in map(self._message, self._answers):
            for result in reversed(message.results):
                found.setdefault(result.call_id or result.name, []).append(result)
        return tuple(_take(found, one) for one in self.calls)

    def _message(self, one: Message | Raw) -> Message:
        if isinstance(one, Message):
            return one
        assert self._read is not None  # nothing is left raw without it
        return self._read(one)

    @lazy
    def asked(self) -> frozenset[tuple[str, str]]:
        """What was asked for: names and arguments; parallel twins are one, their order is none."""
        return frozenset((call.name, call.arguments) for call in self.calls)

    @lazy
    def names(self) -> frozenset[str]:
        """The tools that were called."""
        return frozenset(call.name for call in self.calls)

    @lazy
    def arguments(self) -> str:
        """All arguments, as far as they are compared for likeness."""
        return " ".join(sorted(call.arguments for call in self.calls))[:COMPARED]

    @lazy
    def result(self) -> str:
        """All results, in the order of what was asked."""
        pairs = zip(self.calls, self.results, strict=True)
        told = sorted((call.name, call.arguments, one.text) for call, one in pairs if one)
        return told[0][2] if len(told) == 1 else "\n".join(dict.fromkeys(t for _, _, t in told))

    @lazy
    def essence(self) -> bytes:
        """What of the results counts: case, white space and volatile tokens do not."""
        return normalise([mask(self.result[:COMPARED])])

    @lazy
    def failure(self) -> str | None:
        """What went wrong, if it did."""
        if not self.calls:
            return None
        return failure_of(
            self.result, any(one is not None and one.is_error for one in self.results)
        )

    @lazy
    def is_fruitless(self) -> bool:
        """Whether it neither failed nor brought anything."""
        return bool(self.calls) and self.failure is None and is_fruitless(self.result)

    @lazy
    def lands(self) -> bool:
        """Whether a call of it changed something, as far as its own result tells."""
        return any(
            alters(call.name, call.arguments)
            and one is not None
            and failure_of(one.text, one.is_error) is None
            for call, one in zip(self.calls, self.results, strict=True)
        )

    @lazy
    def is_poll(self) -> bool:
        """Whether it asked for the state of something that goes on by itself."""
        return is_poll(self.names, self.result)

    def has_result_of(self, other: Round) -> bool:
        """Say whether the results are the same, volatile tokens aside."""
        one, two = self.result, other.result
        if one == two:
            return True
        # Volatile tokens change a length by little: mostly this saves masking both.
        if abs(len(one) - len(two)) > 16 + len(one) // 16:
            return False
        return self.essence == other.essence

    def repeats(self, other: Round) -> bool:
        """Say whether the same was asked, with the same result."""
        return self.asked == other.asked and self.has_result_of(other)


def alike(one: str, other: str, percent: float = ALIKE) -> bool:
    """Say whether two texts are almost the same."""
    return one == other or fuzz.ratio(one, other, score_cutoff=percent) > 0


class Trajectory:
    """The rounds since the last user message, read from the latest back, as far as needed."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._unread = _backwards(call)
        self._rounds: list[Round] = []

    @lazy
    def asks_anew(self) -> bool:
        """Whether what was asked last was surely not asked in the rounds before.

        The longest plain piece of its arguments would stand in what was sent then: to look for it
        costs far less than reading all that.
        """
        latest = self.latest(1)
        if not latest:
            return True
        needle = max(_PLAIN.findall(latest[0].arguments), key=len, default="")[:LONGEST].encode()
        if len(needle) < SHORTEST:
            return False
        return b"".join(self._call.raws[-LOOKED_THROUGH:]).count(needle) < 2

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools that the request offers."""
        return self._call.tools

    def latest(self, most: int) -> list[Round]:
        """Return up to `most` rounds, the latest first."""
        while len(self._rounds) < most:
            found = next(self._unread, None)
            if found is None:
                break
            self._rounds.append(found)
        return self._rounds[:most]

    def since_change(self, most: int) -> list[Round]:
        """Return up to `most` rounds, the latest first, as far back as nothing new has changed.

        What changed something that had not been done before is progress: what came earlier does
        not count. The latest round itself is always there.
        """
        rounds = self.latest(most)
        for age, one in enumerate(rounds[1:], 1):
            if one.lands and all(one.asked != other.asked for other in rounds if other is not one):
                return rounds[:age]
        return rounds

    def mark(self, with_texts: list[str]) -> bytes:
        """Return what tells this history from others: what was asked last, and these texts."""
        asked = sorted(self.latest(1)[0].asked) if self.latest(1) else []
        return join([*with_texts, *(text for pair in asked for text in pair)])


def is_fresh(call: Call) -> bool:
    """Say, at next to no cost, that a person has just spoken; False where it takes more to know."""
    if call.peek is None or not call.raws:
        return False
    last = call.raws[-1]
    return memoryview(last).nbytes > 4 * PROMPT and call.peek(last) == "user"


def _backwards(call: Call) -> Iterator[Round]:
    """Yield the rounds from the latest back; answers of tools stay unread where that is cheaper."""
    if call.peek is not None and call.read is not None:
        yield from _peeking(call.raws, call.peek, call.read)
        return
    answers: list[Message] = []
    for message in call.backwards():
        if message.results:
            answers.append(message)
        if begins_turn(message):
            return
        if message.role == "assistant":
            yield Round(message, answers)
            answers = []


def _peeking(raws: Sequence[Raw], peek: Callable[[Raw], str], read: Reader) -> Iterator[Round]:
    answers: list[Raw] = []
    for raw in reversed(raws):
        role = peek(raw)
        if role == "tool":
            answers.append(raw)
        elif role == "assistant":
            yield Round(raw, answers, read)
            answers = []
        elif role == "user" and (memoryview(raw).nbytes > 4 * PROMPT or begins_turn(read(raw))):
            return


def _take(results: dict[str, list[ToolResult]], call: ToolCall) -> ToolResult | None:
    waiting = results.get(call.id or call.name)
    return waiting.pop() if waiting else None


def begins_turn(message: Message) -> bool:
    """Say whether a person speaks; a harness that merely says "continue" is none."""
    if message.role != "user" or message.results:
        return False
    return len(message.text) > PROMPT or _INJECTED.fullmatch(message.text) is None
