"""RememberedRound: a round of an earlier request, kept as keyed digests, without any text.

A round is digested when it is new. Its record has a fixed size, so that a store can append it and
drop the oldest without reading any.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from enum import IntFlag
from hashlib import blake2b
from struct import Struct
from typing import NamedTuple

from looptrap.detect.call_kind import (
    acts_on_screen,
    adds_something,
    changes_something,
    is_deferred,
    is_poll,
    is_screen_action,
    is_step,
    measures,
    searches,
    sends_something,
    switches_subject,
)
from looptrap.detect.canonical import join, mask_result
from looptrap.detect.failure import (
    denies_item,
    failure_of,
    is_check,
    is_empty_result,
    is_success_report,
    is_test_report,
)
from looptrap.detect.round import (
    MAX_QUERY_CHARS,
    MIN_HITS_CHARS,
    Round,
    call_spelling,
    plain_result,
    receipt,
)
from looptrap.detect.similarity import gist_of_result, is_similar
from looptrap.dialect.model import Message, ToolCall, ToolResult

_FORMAT = Struct("<4s6s5s5s4s16s12s3sIBBBHHI")
ROUND_BYTES = _FORMAT.size
_SIGNATURE_AT = 4

MAX_REMEMBERED_ROUNDS = 40
"""Latest rounds of a run that are remembered."""

MAX_GIST_CHARS = 2_048
"""Characters at either end of a result in which volatile tokens are masked; what is between must
be equal."""

MAX_WORDS_CHARS = 2_000

UNKNOWN_TOOL = "a tool"
"""What a tool is called of which only the digest of its name is left."""

_SKETCH_BYTES = 20
_WORD_BITS = 12
_WORD_MASK = (1 << _WORD_BITS) - 1
_NO_GIST = bytes(5)
_NO_WORDS = bytes(16)
_NO_ARGUMENTS = bytes(12)


class Trait(IntFlag):
    """What is known of a round beside its digests."""

    FAILED = 1
    REPORT = 2
    EMPTY = 4
    REPORTS_SUCCESS = 8
    MADE_CHANGE = 16
    MADE_ADDITION = 32
    POLL = 64
    DEFERRED = 128
    STEP = 256
    NOTE = 512
    """It only thinks or plans, whatever the words."""
    PENDING = 524288
    """It is the call of an answer, whose result no request has shown."""
    SENT = 1048576
    """It sends something out into the world: ids in its receipt do not count."""
    SCREEN = 2097152
    """It acts on a page or a screen, and got that back whole."""
    MEASUREMENT = 4194304
    SWITCH = 8388608
    """It turned to another revision, workspace or environment."""
    CHECK = 131072
    LOOK = 262144
    SEARCH = 1024
    DENIED = 33554432
    """Its failure is about what was asked for: another thing may be there."""
    HITS = 16777216
    """It searched for something, and found some."""
    UNKNOWN_TOOL = 2048
    APPENDED = 4096
    """It repeats the call before, which adds the same to its result."""
    NEW = 8192
    """Its call and result had not been seen before in its run."""
    AFTER_COMPACTION = 16384
    """It is the first one after a compaction."""
    NEWS = 65536
    """It, or one before it in its segment, was new."""
    AFTER_TRIM = 32768
    """When it was new, earlier rounds were no longer in the request, or no longer whole."""


# Plain numbers: Python code combines flags, and that is slow.
_BRIEF = int(Trait.NEW | Trait.NEWS | Trait.MADE_CHANGE)
_BRIEF_FAILED = _BRIEF | int(Trait.FAILED)


class RoundRecord(NamedTuple):
    """The fields of a round's record."""

    link: bytes
    """Of its tool-call ids; of its content where these do not identify it."""
    signature: bytes
    result: bytes
    """Of the exact result …"""
    gist: bytes
    """… and of what is left without volatile tokens; zeros where that was not worked out."""
    failure: bytes
    failure_words: bytes
    """A byte for each word. Of calls that succeeded, `failure` is a digest of what they were about.
    Of a round without calls, `failure` and this are a sketch of its words: twelve bits for each of
    up to thirteen."""
    argument_words: bytes
    """A byte for each word; of a round without calls, of the words it said."""
    names: bytes
    traits: int
    call_count: int
    segment: int = 0
    """How many compactions came before, modulo 256."""
    stale_segments: int = 0
    """Segments in a row, before this one, that brought nothing new."""
    messages: int = 0
    """How many messages its request had."""
    total_calls: int = 0
    """Tool calls of the run so far."""
    seconds: int = 0
    """When it was new, since 1970."""

    def has_same_result(self, other: RoundRecord) -> bool:
        """Return whether the results are equal except for volatile tokens, as far as is known."""
        return self.result == other.result or self.gist == other.gist != _NO_GIST

    def repeats(self, other: RoundRecord) -> bool:
        """Return whether calls and results are equal."""
        return self.signature == other.signature and self.has_same_result(other)

    def pack(self) -> bytes:
        """Return the record as bytes."""
        return _FORMAT.pack(*self)


def has_signature(remembered: bytes, signature: bytes) -> bool:
    """Return whether one of the remembered rounds made these calls."""
    at = remembered.find(signature)
    while at >= 0 and at % ROUND_BYTES != _SIGNATURE_AT:
        at = remembered.find(signature, at + 1)
    return at >= 0


def ends_with_call(remembered: bytes, signature: bytes) -> bool:
    """Return whether the latest one of the remembered rounds made these calls."""
    at = len(remembered) - ROUND_BYTES + _SIGNATURE_AT
    return remembered[at : at + len(signature)] == signature


def records_of(remembered: bytes) -> list[RoundRecord]:
    """Return the records of a run, the oldest first."""
    whole = len(remembered) - len(remembered) % ROUND_BYTES
    return [RoundRecord(*fields) for fields in _FORMAT.iter_unpack(remembered[:whole])]


class RememberedRound(Round):
    """A round of which only the record is left; it is compared like any other."""

    def __init__(self, record: RoundRecord, tools: Mapping[bytes, frozenset[str]]) -> None:
        """`tools` are sets of tool names by their digests."""
        super().__init__(_NO_MESSAGE, ())
        self.record = record
        traits = record.traits
        has_failed = bool(traits & Trait.FAILED)
        self.calls = _PLACEHOLDERS[: record.call_count]
        self.names = tools.get(record.names, _UNKNOWN_NAMES) if record.call_count else _NO_NAMES
        self.signature = record.signature
        self.result = record.result.hex()
        self.text = self.arguments = self.masked_arguments = _as_text(record.argument_words)
        self.arguments_gist = record.argument_words
        self.subjects = frozenset([record.failure.hex()])
        self.words_said = _words_of(b"" if self.calls else record.failure + record.failure_words)
        self.failure = record.failure.hex() if has_failed else None
        self.failures = int(has_failed)
        self.is_report = bool(traits & Trait.REPORT)
        self.is_empty = bool(traits & Trait.EMPTY)
        self.only_looks = bool(traits & Trait.LOOK)
        self.reports_success = bool(traits & Trait.REPORTS_SUCCESS)
        self.made_change = bool(traits & Trait.MADE_CHANGE)
        self.made_addition = bool(traits & Trait.MADE_ADDITION)
        self.is_deferred = bool(traits & Trait.DEFERRED)
        self.is_poll = bool(traits & Trait.POLL)
        self.is_step = bool(traits & Trait.STEP)
        self.is_search = bool(traits & Trait.SEARCH)
        self.is_note = bool(traits & Trait.NOTE)
        # What cannot be told from a record: the gist of a receipt is one without its ids.
        self.is_sent = False
        self.switches_subject = bool(traits & Trait.SWITCH)
        self.is_check = bool(traits & Trait.CHECK)
        self.is_measurement = bool(traits & Trait.MEASUREMENT)
        self.is_screen_action = bool(traits & Trait.SCREEN)
        self.has_hits = bool(traits & (Trait.SCREEN | Trait.HITS))
        self.called_unknown_tool = bool(traits & Trait.UNKNOWN_TOOL)
        after = traits & (Trait.AFTER_COMPACTION | Trait.AFTER_TRIM)
        self.is_brief = record.gist == _NO_GIST
        """Whether it was new while its run was shown whole: then little of it is known."""
        self.begins_segment = after == Trait.AFTER_COMPACTION
        """Whether it follows a compaction that kept no round before it."""

    @property
    def signature_texts(self) -> list[str]:
        """Its digest."""
        return [self.record.signature.hex()]

    @property
    def result_count(self) -> int:
        """How many calls it made."""
        return self.record.call_count

    def may_have_same_result(self, other: Round) -> bool:  # noqa: ARG002 - nothing to decode
        """Return whether comparing the results is worth it: always."""
        return True

    def has_same_result(self, other: Round) -> bool:
        """Return whether the results are equal except for volatile tokens, as far as is known."""
        return self.record.has_same_result(_record(other))

    def fails_the_same(self, other: Round) -> bool:
        """Return whether both failed with equal results, as far as is known."""
        return self.failure is not None and self.has_same_result(other)

    def has_similar_result(self, other: Round) -> bool:
        """Return whether the same call added the same again when it was new."""
        return bool((self.record.traits | _record(other).traits) & Trait.APPENDED)

    def has_same_hits(self, other: Round) -> bool:
        """Return whether both searched and found the same, or acted and changed nothing."""
        return self.has_hits and other.has_hits and self.has_same_result(other)

    def brings_same(self, other: Round) -> bool:
        """Return whether both searched and found the same."""
        return not self.is_screen_action and self.has_same_hits(other)

    def shows_same_screen(self, other: Round) -> bool:
        """Return whether the same action led to the same screen; counters are not known."""
        return (
            self.signature == other.signature
            and self.is_screen_action
            and other.is_screen_action
            and self.has_same_result(other)
        )

    def says_like(self, other: Round) -> bool:
        """Return whether both only say something, and say almost the same."""
        if self.calls or other.calls:
            return False
        return self.has_same_result(other) or is_similar(self.text, other.text)

    def writes_again(self, before: Round) -> bool:  # noqa: ARG002 - known since it was new
        """Return whether it added the same again when it was new."""
        return bool(self.record.traits & Trait.APPENDED)

    def fails_like(self, other: Round, percent: float) -> bool:
        """Return whether both failed with almost equal messages; reports must be equal."""
        mine, theirs = self.failure, other.failure
        if mine is None or theirs is None or mine == theirs or self.is_report:
            return mine == theirs is not None
        words, other_words = self.record.failure_words, _record(other).failure_words
        return any(words) and is_similar(_as_text(words), _as_text(other_words), percent)

    def is_variant_of(self, latest: Round) -> bool:
        """Return whether almost the same call failed almost alike, or brought nothing either."""
        return self.record.names == _record(latest).names and super().is_variant_of(latest)


_NO_MESSAGE = Message("assistant")
_PLACEHOLDERS = (ToolCall("", "", ""),) * 255
_UNKNOWN_NAMES = frozenset({UNKNOWN_TOOL})
_NO_NAMES: frozenset[str] = frozenset()


def _record(round_: Round) -> RoundRecord:
    assert isinstance(round_, RememberedRound)  # a run is judged by records alone
    return round_.record


def _as_text(words: bytes) -> str:
    return words.rstrip(b"\0").decode("latin-1")


def _words_of(sketch: bytes) -> frozenset[str]:
    """Return the words of a sketch, each as one character."""
    bits, words = int.from_bytes(sketch), set()
    while bits:
        words.add(chr(bits & _WORD_MASK))
        bits >>= _WORD_BITS
    return frozenset(words)


class RoundDigester:
    """Makes records of rounds: keyed, so that they say nothing to who does not have the key."""

    def __init__(self, secret: bytes) -> None:
        self._hasher = blake2b(digest_size=16, key=secret[:64], person=b"lt-round")
        self._names: dict[frozenset[str], bytes] = {}

    def digest(self, content: bytes) -> bytes:
        """Return the keyed digest of some content: at least 8 bytes."""
        keyed = self._hasher.copy()
        keyed.update(content)
        return keyed.digest()

    def signature(self, round_: Round) -> bytes:
        """Return the digest of a round's calls; empty bytes where it has none."""
        calls = round_.calls
        if len(calls) == 1:
            return self.call_signature(calls[0])
        return self.digest(join(["s", *round_.signature_texts]))[:6]

    def call_signature(self, call: ToolCall) -> bytes:
        """Return the digest of one call; that of a round with no other."""
        return self.digest(join(("s", call.name, call_spelling(call))))[:6]

    def names(self, names: frozenset[str]) -> bytes:
        """Return the digest of a set of tools."""
        known = self._names.get(names)
        if known is None:
            if len(self._names) >= 4_096:
                self._names.clear()
            known = self._names[names] = self.digest(join(["n", *sorted(names)]))[:3]
        return known

    def result(self, text: str) -> bytes:
        """Return the digest of the exact result."""
        return self.digest(_encoded(text))[:5]

    def gist(self, text: str, *, is_failure: bool) -> bytes:
        """Return the digest of a result without volatile tokens."""
        if len(text) <= 2 * MAX_GIST_CHARS:
            return self.digest(b"g" + gist_of_result(text, is_failure))[:5]
        ends = (text[:MAX_GIST_CHARS], text[-MAX_GIST_CHARS:])
        middle = text[MAX_GIST_CHARS:-MAX_GIST_CHARS].encode("utf-8", "surrogatepass")
        parts = [*(gist_of_result(end, is_failure) for end in ends), middle]
        return self.digest(b"g".join(parts))[:5]

    def words(self, text: str, size: int) -> bytes:
        """Return a byte for each word, of a long text for its first and last ones."""
        words = text[:MAX_WORDS_CHARS].translate(_SPACED).split()
        if len(words) > size:
            words = words[: size // 2] + words[-(size - size // 2) :]
        return bytes(self._word(word) for word in words).ljust(size, b"\0")

    def sketch(self, words: frozenset[str]) -> bytes:
        """Return some bits of some words: of two texts with the same words, the same ones."""
        encoded = (_encoded(word) for word in words)
        digests = sorted(int.from_bytes(self.digest(word)) for word in encoded)
        bits = 0
        for digest in digests[: 8 * _SKETCH_BYTES // _WORD_BITS]:
            bits = bits << _WORD_BITS | (digest & _WORD_MASK or 1)
        return bits.to_bytes(_SKETCH_BYTES)

    def _subjects(self, round_: Round) -> bytes:
        """Return a digest of what the calls of a round are about, where others have a sketch."""
        about = self.digest(_encoded(" ".join(sorted(round_.subjects))))[:4]
        return about.ljust(_SKETCH_BYTES, b"\0")

    def _word(self, word: str) -> int:
        return self.digest(_encoded(word))[0] or 1

    def record(
        self,
        round_: Round,
        link: bytes,
        before: Round | None = None,
        *,
        is_unknown_tool: bool = False,
    ) -> RoundRecord:
        """Return the full record of a round that is new.

        `before` is the round before it, where that is known whole. What its run says of it
        (segments, messages, calls so far, time) is left 0.
        """
        failure = round_.failure
        has_calls = bool(round_.calls)
        text = round_.result if has_calls else round_.text
        if round_.is_sent:
            text = receipt(text)
        traits = (
            (Trait.FAILED if failure is not None else 0)
            | (Trait.REPORT if round_.is_report else 0)
            | (Trait.EMPTY if round_.is_empty else 0)
            | (Trait.LOOK if has_calls and round_.only_looks else 0)
            | (Trait.REPORTS_SUCCESS if has_calls and round_.reports_success else 0)
            | (Trait.MADE_CHANGE if round_.made_change else 0)
            | (Trait.MADE_ADDITION if round_.made_addition else 0)
            | (Trait.POLL if has_calls and round_.is_poll else 0)
            | (Trait.DEFERRED if has_calls and round_.is_deferred else 0)
            | (Trait.STEP if has_calls and round_.is_step else 0)
            | (Trait.NOTE if round_.is_note else 0)
            | (Trait.SCREEN if has_calls and round_.is_screen_action else 0)
            | (Trait.MEASUREMENT if round_.is_measurement else 0)
            | (Trait.CHECK if has_calls and round_.is_check else 0)
            | (Trait.SWITCH if round_.switches_subject else 0)
            | (Trait.SEARCH if round_.is_search else 0)
            | (Trait.DENIED if failure is not None and denies_item(failure) else 0)
            | (Trait.HITS if has_calls and round_.has_hits else 0)
            | (Trait.UNKNOWN_TOOL if is_unknown_tool else 0)
        )
        if before is not None and has_calls and before.signature == round_.signature:
            is_append = round_.writes_again(before) and round_.has_similar_result(before)
            traits |= Trait.APPENDED if is_append else 0
        sketch = self.sketch(round_.words_said) if not has_calls else self._subjects(round_)
        return RoundRecord(
            link=link[:4],
            signature=self.signature(round_) if has_calls else bytes(6),
            result=self.result(text),
            gist=self.gist(text, is_failure=failure is not None),
            failure=sketch[:4] if failure is None else self.digest(_encoded(failure))[:4],
            failure_words=sketch[4:] if failure is None else self.words(failure, 16),
            argument_words=self.words(round_.arguments if has_calls else text, 12),
            names=self.names(round_.names),
            traits=int(traits),
            call_count=min(len(round_.calls), 255),
        )

    def pack_brief(
        self,
        round_: Round,
        link: bytes,
        signature: bytes,
        segment: int,
        stale_segments: int,
        messages: int,
        total_calls: int,
        seconds: int,
        *,
        with_failure: bool = True,
    ) -> bytes:
        """Return the packed record of a round whose call was certainly never made before.

        As long as a request shows its run whole, little is needed of such a round, and the rest
        would take long to work out.
        """
        failure = round_.failure if with_failure else None
        return _FORMAT.pack(
            link,
            signature,
            self.result(round_.result),
            _NO_GIST,
            self.digest(_encoded(failure))[:4]
            if failure is not None
            else self._subjects(round_)[:4],
            _NO_WORDS,
            _NO_ARGUMENTS,
            self.names(round_.names),
            _BRIEF if failure is None else _BRIEF_FAILED,
            min(len(round_.calls), 255),
            segment,
            stale_segments,
            messages,
            total_calls,
            seconds & 0xFFFFFFFF,
        )

    def calls_record(self, message: Message, link: bytes) -> RoundRecord:
        """Return the record of calls whose results are not known yet; `completed` adds them."""
        round_ = Round(message, ())
        requests = [(call.name, call.arguments) for call in message.calls]
        names, arguments = round_.names, round_.arguments
        traits = (
            (Trait.MADE_CHANGE if any(changes_something(*one) for one in requests) else 0)
            | (Trait.MADE_ADDITION if any(adds_something(*one) for one in requests) else 0)
            | (Trait.POLL if is_poll(round_.actions, arguments, "") else 0)
            | (Trait.STEP if is_step(round_.actions, "") else 0)
            | (Trait.SENT if all(sends_something(*one) for one in requests) else 0)
            | (Trait.LOOK if round_.only_looks else 0)
            | (Trait.CHECK if is_check(f"{' '.join(names)} {arguments}") else 0)
            | (Trait.NOTE if round_.is_note else 0)
            | (Trait.SCREEN if acts_on_screen(round_.actions) else 0)
            | (Trait.MEASUREMENT if all(measures(*one) for one in requests) else 0)
            | (Trait.SWITCH if any(switches_subject(text) for _, text in requests) else 0)
            | (Trait.SEARCH if len(arguments) <= MAX_QUERY_CHARS else 0)
            | (Trait.HITS if all(searches(*one) for one in requests) else 0)
        )
        return RoundRecord(
            link=link[:4],
            signature=self.signature(round_),
            result=bytes(5),
            gist=_NO_GIST,
            failure=self._subjects(round_)[:4],
            failure_words=bytes(16),
            argument_words=self.words(arguments, 12),
            names=self.names(names),
            traits=int(traits),
            call_count=min(len(message.calls), 255),
        )

    def completed(self, calls: RoundRecord, results: Sequence[ToolResult]) -> RoundRecord:
        """Return the record of calls with their results."""
        text = "\n".join(plain_result(result.text) for result in results)
        failure = failure_of(text, any(result.is_error for result in results))
        traits = Trait(calls.traits)
        if Trait.SENT in traits and failure is None:
            text = receipt(text)
        is_empty = failure is None and is_empty_result(text)
        may_search = Trait.SEARCH in traits
        traits &= ~Trait.SEARCH
        if failure is not None:
            traits &= ~(Trait.MADE_CHANGE | Trait.MADE_ADDITION | Trait.STEP | Trait.SWITCH)
            traits |= Trait.FAILED | (Trait.REPORT if is_test_report(failure) else 0)
            traits |= Trait.DENIED if denies_item(failure) else 0
        elif is_poll(frozenset(), "", text) and Trait.MADE_CHANGE not in traits:
            traits |= Trait.POLL
        if is_deferred(text):
            traits |= Trait.DEFERRED | Trait.POLL
        if not is_step(frozenset(), text):
            traits &= ~Trait.STEP
        if failure is not None or not is_screen_action(frozenset(), text):
            traits &= ~Trait.SCREEN
        if failure is not None or len(text) < MIN_HITS_CHARS:
            traits &= ~Trait.HITS
        if mask_result(text) == text:
            traits &= ~Trait.MEASUREMENT
        if is_empty:
            traits |= Trait.EMPTY | (Trait.REPORTS_SUCCESS if Trait.CHECK in traits else 0)
            if may_search and Trait.MADE_CHANGE not in traits:
                traits |= Trait.SEARCH
        elif failure is None and is_success_report(text):
            traits |= Trait.REPORTS_SUCCESS
        return calls._replace(
            result=self.result(text),
            gist=self.gist(text, is_failure=failure is not None),
            failure=calls.failure if failure is None else self.digest(_encoded(failure))[:4],
            failure_words=bytes(16) if failure is None else self.words(failure, 16),
            traits=int(traits),
        )


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


class LocalRoundDigester(RoundDigester):
    """Makes records that never leave this process: by its own keyed hashes, which are faster."""

    def digest(self, content: bytes) -> bytes:
        """Return the hash of some content: 8 bytes, which no other process can compare."""
        return _hashed(content)

    def call_signature(self, call: ToolCall) -> bytes:
        """Return the hash of one call; that of a round with no other."""
        return _hashed((call.name, call_spelling(call)))[:6]

    def result(self, text: str) -> bytes:
        """Return the hash of the exact result."""
        return _hashed(text)[:5]


def _hashed(content: Hashable) -> bytes:
    return hash(content).to_bytes(8, "little", signed=True)


_SPACED = {ord(char): " " for char in "\"'`,;:()[]{}<>=\\/|"}
