"""A round: one assistant turn with its tool calls and their results."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar, overload

from msgspec import Raw

from looptrap.detect.call_kind import (
    adds_something,
    changes_something,
    hands_over,
    is_deferred,
    is_note,
    is_poll,
    is_screen_action,
    is_step,
    measures,
    name_with_action,
    only_looks,
    searches,
    sends_something,
    switches_subject,
)
from looptrap.detect.call_spelling import spelling
from looptrap.detect.canonical import mask_arguments, mask_result, normalise, without_numbers
from looptrap.detect.failure import (
    FIELD_MARK,
    failure_lines,
    failure_of,
    fields_of,
    finds_nothing,
    is_check,
    is_echo,
    is_empty_result,
    is_success_report,
    is_test_report,
)
from looptrap.detect.harness_note import NOTE_MARKS, without_notes
from looptrap.detect.result_frame import END_CHARS, START_CHARS, ResultFrame, encoded_ends
from looptrap.detect.similarity import (
    MAX_COMPARED_CHARS,
    brings_new_lines,
    differs_only_in_noise,
    distinct_words,
    is_same_screen,
    is_similar,
    shares_most_words,
    without_scores,
)
from looptrap.dialect.content import decode_or_none
from looptrap.dialect.model import Message, ToolCall, ToolResult

NUDGE_MARK = "[looptrap]"
"""The first line of every nudge."""


def without_nudge(text: str) -> str:
    """Return a text without the nudge at its end."""
    start = text.find(NUDGE_MARK)
    return text if start < 0 else text[:start].rstrip()


def call_spelling(call: ToolCall) -> str:
    """Return the arguments of a call in one spelling; where it hands over, without the reason."""
    if hands_over(call.name):
        return _REASON.sub("", call.arguments)
    return spelling(call.arguments)


_REASON = re.compile(r'"(?:reason|message|summary|context|note|instructions?)":"(?:[^"\\]|\\.)*",?')


def receipt(text: str) -> str:
    """Return what a receipt says apart from its numbers and ids; longer results are content."""
    return without_numbers(text) if len(text) <= MAX_RECEIPT_CHARS else text


def plain_result(text: str) -> str:
    """Return what a tool returned, without a nudge and what its harness added."""
    return without_notes(without_nudge(text))


def plain(result: ToolResult) -> ToolResult:
    """Return a result with its plain text."""
    text = plain_result(result.text)
    if text is result.text:
        return result
    return result.with_text(text)


def note_text(arguments: str) -> str:
    """Return what a note says: its texts, without lists and states."""
    values = decode_or_none(arguments)
    if not isinstance(values, dict):
        return arguments
    return " ".join(value for value in values.values() if type(value) is str)


T = TypeVar("T")


class cached_field(Generic[T]):  # noqa: N801 - used as a decorator
    """Like functools.cached_property, without the lock that Python 3.11 takes at each first use."""

    def __init__(self, work_out: Callable[[Any], T]) -> None:
        self._work_out = work_out
        self._name = work_out.__name__
        self.__doc__ = work_out.__doc__

    @overload
    def __get__(self, owner: None, kind: type[Any]) -> cached_field[T]: ...
    @overload
    def __get__(self, owner: object, kind: type[Any]) -> T: ...
    def __get__(self, owner: object | None, kind: type[Any]) -> cached_field[T] | T:
        if owner is None:
            return self
        value = owner.__dict__[self._name] = self._work_out(owner)
        return value


VARIANT_PERCENT = 85.0
"""Per cent from which a failing call and its failure are a variant of another."""

NOISE_PERCENT = 95.0
"""The same for calls that return nothing: a search in many places is legitimate, so only noise and
counters may differ."""

MAX_QUERY_CHARS = 300
"""A longer call with an empty result is a script or a note, not a search."""

MIN_WORDS_CHARS = 8
"""Shorter texts may occur in a result by chance."""

_LINES = re.compile(r'\\[ntr"]|["\n]')
"""Where a line of an argument ends, in JSON as it is written."""

SIZE_SLACK_BYTES = 64
"""Bytes by which equal results may differ in size: numbers and ids grow."""

MAX_ID_SLACK_BYTES = 24
"""Bytes by which messages with the same text differ in size: ids, and times."""

ENVELOPE_BYTES = 160
"""Approximate bytes of a tool message beside its result."""

MAX_TALK_CHARS, MAX_TALK_WORDS = 600, 32
"""Longest announcement or excuse, in characters and in distinct words."""

MIN_CONTENT_WORDS = 5
"""Fewer words, without the keys of JSON, may come back from different calls by chance."""

_KEY = re.compile(r'"\w+"\s?:')

MIN_HITS_CHARS = 40
"""Fewer characters may come back from different calls by chance."""

MIN_HITS_START = 80
"""First characters in which the same hits are equal."""

MAX_SCREEN_CHARS = 8_000
"""Pages are compared by this many first characters."""

MAX_RECEIPT_CHARS = 400
"""Longer results are content."""

MAX_NOISE_SHARE = 32
"""By this part of their length two outputs may differ that fail with the same lines."""

MAX_NOISE_CHARS = 40
"""Characters by which equal results may differ in length: a line may say when it was made."""

MAX_RESULT_CHARS = 65_536
"""Results are compared by this many first characters, and by their length."""

_NAMED_PLACE = re.compile(
    r'"(?:(?:file|note(?:book)?|target)?_?path|file(?:_?name)?|ur[il])":"([^"]+)"'
)
_PLACE = re.compile(r"(?<![\w~.-])[\w~.-]{0,60}/[\w./-]+|(?<![\w-])[\w-]{1,60}\.[a-z]{1,5}\b")
"""A place that arguments name: a path, a file, an address."""

Reader = Callable[[Raw], Message]

_RESULT_ID = re.compile(rb'"(?:tool_call_id|tool_use_id)" ?: ?"([\w.:-]{1,128})"')


def _last_id_in(raw: Raw) -> str:
    """Return the id of a tool message with one result, where it stands at either end of it.

    Decoding the message would take longer.
    """
    text = bytes(raw)
    found = _RESULT_ID.findall(text[:200] + b" " + text[-200:])
    return found[0].decode() if len(found) == 1 and text.count(b'_id"') == 1 else ""


def is_random_id(id_: str) -> bool:
    """Return whether an id ends as those of providers do: no other round has it.

    Numbers such as `call_0` come again.
    """
    end = id_.replace("-", "_").rpartition("_")[2]
    if len(end) < 8 or not end.isascii() or not end.isalnum():
        return False
    if end.isdigit():
        return len(end) >= 12
    return not end.isalpha() or (len(end) >= 16 and not (end.islower() or end.isupper()))


def _match_by_name(
    calls: Sequence[ToolCall], results: list[ToolResult | None], left: list[ToolResult]
) -> None:
    """Give results whose ids fit to no call to the calls without one, by name and in order.

    Some harnesses give ids to results only.
    """
    for place, call in enumerate(calls):
        if results[place] is None and left:
            same = [one for one in left if one.name in ("", call.name)] or left
            results[place] = same[-1]
            left.remove(same[-1])


class Round:
    """One assistant turn with its tool calls and their results; decoded as needed."""

    frame: ResultFrame | None = None
    """What the harness writes around the results of this run, where that was learned."""

    def __init__(
        self,
        assistant_message: Message | Raw,
        tool_messages: Sequence[Message | Raw],
        read: Reader | None = None,
        known: Sequence[Message] = (),
    ) -> None:
        self._assistant_message = assistant_message
        if type(assistant_message) is Message:
            self.assistant_message = assistant_message
        self._tool_messages = tool_messages
        """The latest first; what is still raw is decoded with `read`."""
        self._read = read
        self._known = known
        """The first of the tool messages, where they were decoded before."""

    @cached_field
    def assistant_message(self) -> Message:
        """The assistant's message."""
        return self._decoded(self._assistant_message)

    @cached_field
    def text(self) -> str:
        """Its text."""
        return self.assistant_message.text

    @cached_field
    def words_said(self) -> frozenset[str]:
        """The words of a short text or note; none of a long one or of code, which are content."""
        text = self.text
        if self.is_note:
            text = " ".join([text, *(note_text(call.arguments) for call in self.calls)])
        if len(text) > MAX_TALK_CHARS or "```" in text:
            return frozenset()
        words = distinct_words(text)
        return words if len(words) <= MAX_TALK_WORDS else frozenset()

    @cached_field
    def calls(self) -> tuple[ToolCall, ...]:
        """Its tool calls."""
        calls, frame = self.assistant_message.calls, self.frame
        if frame is None or not frame.explanations:
            return calls
        return tuple(map(frame.without_explanations, calls))

    @cached_field
    def size(self) -> int:
        """The approximate size of the results, without decoding what is raw."""
        if self._read is None:
            return len(self.result)
        return sum(memoryview(raw).nbytes for raw in self._raw_messages)

    @property
    def _raw_messages(self) -> list[Raw]:
        return [message for message in self._tool_messages if isinstance(message, Raw)]

    @cached_field
    def results(self) -> tuple[ToolResult | None, ...]:
        """In the order of the calls, with plain texts; None where there is no result."""
        results, frame = self.framed_results(), self.frame
        if frame is None:
            return results
        return tuple(one and one.with_text(frame.without_noise(one.text)) for one in results)

    def framed_results(self) -> tuple[ToolResult | None, ...]:
        """Return the same, with what the harness of this run writes around each of them."""
        calls, known = self.calls, self._known
        if len(calls) == len(self._tool_messages) == 1:  # as in most rounds
            message = known[0] if known else self._decoded(self._tool_messages[0])
            if len(message.results) == 1:
                return (plain(message.results[0]),)
        found: dict[str, list[ToolResult]] = {}
        rest = self._tool_messages[len(known) :]
        for message in (*known, *map(self._decoded, rest)):
            for result in reversed(message.results):
                found.setdefault(result.call_id or result.name, []).append(plain(result))
        queues = [found.get(call.id or call.name) for call in calls]
        results = [queue.pop() if queue else None for queue in queues]
        if None in results and any(found.values()):
            _match_by_name(calls, results, [one for queue in found.values() for one in queue])
        return tuple(results)

    @property
    def latest_result_ends(self) -> bytes:
        """The ends of the message that came last, without decoding it; empty where none came."""
        if not self._tool_messages:
            return b""
        message = self._tool_messages[0]
        if isinstance(message, Raw):
            view = memoryview(message)
            if view.nbytes > START_CHARS + END_CHARS:
                return bytes(view[:START_CHARS]) + bytes(view[-END_CHARS:])
            return bytes(view)
        return encoded_ends(message.results[-1].text) if message.results else b""

    @property
    def last_result_id(self) -> str:
        """The id of the call whose result came last; empty where there is none."""
        if not self._tool_messages:
            return ""
        if self._known:
            last = self._known[0]
        elif isinstance(raw := self._tool_messages[0], Raw) and (id_ := _last_id_in(raw)):
            return id_
        else:
            last = self._decoded(self._tool_messages[0])
        return last.results[-1].call_id if last.results else ""

    @cached_field
    def random_id(self) -> str:
        """That id, if no other round can have it; otherwise empty."""
        last_id = self.last_result_id
        return last_id if is_random_id(last_id) else ""

    def latest_ids(self, limit: int) -> list[str]:
        """Return the ids of the calls whose results came last, the latest first."""
        ids: list[str] = []
        for message in self._tool_messages[:limit]:
            if isinstance(message, Raw) and (id_ := _last_id_in(message)):
                ids.append(id_)
            else:
                results = self._decoded(message).results[: -limit - 1 : -1]
                ids += [result.call_id for result in results]
        return ids[:limit]

    def _decoded(self, message: Message | Raw) -> Message:
        if isinstance(message, Message):
            return message
        assert self._read is not None  # nothing is left raw without it
        return self._read(message)

    @cached_field
    def signature(self) -> Hashable:
        """What equal calls have in common: names and arguments, without order or duplicates."""
        return frozenset((call.name, call_spelling(call)) for call in self.calls)

    @property
    def signature_texts(self) -> list[str]:
        """The same as texts, sorted."""
        pairs = sorted({(call.name, call_spelling(call)) for call in self.calls})
        return [text for pair in pairs for text in pair]

    @cached_field
    def names(self) -> frozenset[str]:
        """The tools that were called."""
        return frozenset(call.name for call in self.calls)

    @cached_field
    def arguments(self) -> str:
        """All arguments, as far as they are compared for similarity."""
        return " ".join(sorted(call.arguments for call in self.calls))[:MAX_COMPARED_CHARS]

    @cached_field
    def arguments_gist(self) -> bytes:
        """The arguments without case and white space."""
        return normalise([self.arguments])

    @cached_field
    def masked_arguments(self) -> str:
        """The arguments without volatile tokens."""
        return mask_arguments(self.arguments)

    @cached_field
    def is_search(self) -> bool:
        """Whether it searched and found nothing."""
        is_short = len(self.arguments) <= MAX_QUERY_CHARS
        return self.is_empty and is_short and not self.made_change

    @cached_field
    def result(self) -> str:
        """The text of all results, in the order of the sorted calls."""
        if len(self.calls) == 1:
            only = self.results[0]
            return "" if only is None else only.text
        pairs = zip(self.calls, self.results, strict=True)
        found = sorted(
            (call.name, call_spelling(call), result.text) for call, result in pairs if result
        )
        return "\n".join(dict.fromkeys(text for _, _, text in found))

    @cached_field
    def failure(self) -> str | None:
        """The normalised failure, if there is one."""
        if not self.calls:
            return None
        text = self.result
        is_error = False
        for result in self.results:
            is_error = is_error or (result is not None and result.is_error)
        failure = failure_of(text, is_error)
        if failure is None or is_error or not self.only_looks or not is_echo(text, self.arguments):
            return failure
        return None

    def fails_the_same(self, other: Round) -> bool:
        """Return whether both failed with the same lines and figures, and printed about as much."""
        if self.failure is None or self.failure != other.failure:
            return False
        return self.has_same_result(other) or (
            len(self.results) == len(other.results) == 1
            and abs(len(self.result) - len(other.result)) <= len(self.result) // MAX_NOISE_SHARE
            and failure_lines(self.result) == failure_lines(other.result)
        )

    @cached_field
    def failures(self) -> int:
        """How many of its calls went wrong."""
        if len(self.calls) < 2:
            return int(self.failure is not None)
        found = [result for result in self.results if result is not None]
        return sum(failure_of(result.text, result.is_error) is not None for result in found)

    @property
    def result_count(self) -> int:
        """How many tool messages came back, without decoding them."""
        return len(self._tool_messages)

    @cached_field
    def is_report(self) -> bool:
        """Whether the failure is a test report: fewer failures are another failure."""
        return self.failure is not None and is_test_report(self.failure)

    @cached_field
    def is_empty(self) -> bool:
        """Whether its calls succeeded and returned nothing."""
        return bool(self.calls) and self.failure is None and is_empty_result(self.result)

    @cached_field
    def only_looks(self) -> bool:
        """Whether it looks at something, and neither runs nor changes anything."""
        return all(only_looks(call.name, call.arguments) for call in self.calls)

    @cached_field
    def is_check(self) -> bool:
        """Whether it runs a check, by its tools and commands."""
        return is_check(f"{' '.join(self.names)} {self.arguments}") and not any(
            changes_something(call.name, call.arguments) for call in self.calls
        )

    @cached_field
    def reports_success(self) -> bool:
        """Whether it reports success; a check may do so by returning nothing."""
        if self.is_empty:
            return is_check(f"{' '.join(self.names)} {self.arguments}")
        if self.failure is not None:
            return False
        return is_success_report(self.result) or (self.is_check and finds_nothing(self.result))

    @cached_field
    def made_change(self) -> bool:
        """Whether one of its calls changed something, by its own result."""
        return any(
            changes_something(call.name, call.arguments)
            and result is not None
            and failure_of(result.text, result.is_error) is None
            for call, result in zip(self.calls, self.results, strict=True)
        )

    @cached_field
    def subjects(self) -> frozenset[str]:
        """What its calls are about: the files and other places that they name first."""
        named = _NAMED_PLACE.findall(self.arguments)
        return frozenset(named or _PLACE.findall(self.arguments[:MAX_QUERY_CHARS]) or [""])

    @cached_field
    def made_addition(self) -> bool:
        """Whether one of its calls added something, by its name."""
        return self.made_change and any(
            adds_something(call.name, call.arguments) for call in self.calls
        )

    @cached_field
    def actions(self) -> frozenset[str]:
        """The tools that were called, each with what it was told to do."""
        return frozenset(name_with_action(call.name, call.arguments) for call in self.calls)

    @cached_field
    def is_note(self) -> bool:
        """Whether it only took down what the agent thinks or plans."""
        return bool(self.calls) and all(map(is_note, self.names))

    @cached_field
    def is_sent(self) -> bool:
        """Whether it sent something out into the world."""
        return (
            bool(self.calls)
            and self.failure is None
            and all(sends_something(call.name, call.arguments) for call in self.calls)
        )

    @cached_field
    def has_hits(self) -> bool:
        """Whether it searched for something and found some, or got a page or a screen back."""
        if not self.calls or self.failure is not None:
            return False
        if self.is_screen_action:
            return True
        return len(self.result) >= MIN_HITS_CHARS and all(
            searches(call.name, call.arguments) for call in self.calls
        )

    @cached_field
    def switches_subject(self) -> bool:
        """Whether it turned to another revision, workspace or environment."""
        return self.made_change and any(switches_subject(call.arguments) for call in self.calls)

    @cached_field
    def is_screen_action(self) -> bool:
        """Whether it acted on a page or a screen, and got that back whole."""
        return self.failure is None and is_screen_action(self.actions, self.result)

    @cached_field
    def is_poll(self) -> bool:
        """Whether it asked for the state of something that runs by itself, or has to wait."""
        # Words in a failure ("error while running x") are not a state, and an edit has none.
        state = self.result if self.failure is None and not self.made_change else ""
        if self.is_deferred:
            return True
        return is_poll(self.actions, self.arguments, state) and not self.is_sent

    @cached_field
    def is_measurement(self) -> bool:
        """Whether it measured how long something takes, which may differ each time."""
        is_timed = mask_result(self.result) != self.result
        return is_timed and all(measures(call.name, call.arguments) for call in self.calls)

    @cached_field
    def is_deferred(self) -> bool:
        """Whether the result asks to try again later."""
        return is_deferred(self.result)

    @cached_field
    def is_step(self) -> bool:
        """Whether it made one more step that succeeded, with no further result."""
        return self.failure is None and is_step(self.actions, self.result)

    def has_same_result(self, other: Round) -> bool:
        """Return whether the results are equal except for volatile tokens."""
        text, other_text = self.result, other.result
        if text == other_text:
            return True
        # Volatile tokens hardly change the length: in most cases this saves the comparison.
        if abs(len(text) - len(other_text)) > MAX_NOISE_CHARS + len(text) // 16:
            return False
        are_failures = self.failure is not None and other.failure is not None
        text, other_text = text[:MAX_RESULT_CHARS], other_text[:MAX_RESULT_CHARS]
        return differs_only_in_noise(text, other_text, are_failures)

    def may_have_same_result(self, other: Round) -> bool:
        """Return whether the sizes allow equal results: in most cases that saves decoding them."""
        slack = SIZE_SLACK_BYTES + ENVELOPE_BYTES * abs(self.result_count - other.result_count)
        if abs(self.size - other.size) <= slack + self.size // 8:
            return True
        return self._may_have_note or other._may_have_note

    @cached_field
    def _may_have_note(self) -> bool:
        """Whether a result, still raw, may begin or end with what its harness added."""
        texts = map(bytes, self._raw_messages)
        ends = [text[:400] + text[-200:] for text in texts]
        return any(mark in end for end in ends for mark in NOTE_MARKS)

    def has_similar_result(self, other: Round) -> bool:
        """Return whether the results are almost equal."""
        return is_similar(self.result[:MAX_COMPARED_CHARS], other.result[:MAX_COMPARED_CHARS])

    def says_like(self, other: Round) -> bool:
        """Return whether both only say something, and say almost the same."""
        if self.calls or other.calls or brings_new_lines(self.text, other.text):
            return False
        return is_similar(self.text[:MAX_COMPARED_CHARS], other.text[:MAX_COMPARED_CHARS])

    def writes_again(self, before: Round) -> bool:
        """Return whether a call adds something, or its own text to its result once more.

        That separates a write that adds the same again from a read whose subject changes by itself.
        Reads do not take several lines as arguments: for those one occurrence is enough.
        """
        if self.made_addition:
            return True
        words = max((line.strip() for line in _LINES.split(self.arguments)), key=len)
        if len(words) < MIN_WORDS_CHARS:
            return False
        times = self.result.count(words)
        return times > (0 if "\\n" in self.arguments else before.result.count(words))

    def is_variant_of(self, latest: Round) -> bool:
        """Return whether almost the same call failed almost alike, or brought nothing either."""
        if self.names != latest.names:
            return False
        if latest.failure is not None:
            return self.fails_like(latest, VARIANT_PERCENT) and is_similar(
                self.arguments, latest.arguments, VARIANT_PERCENT
            )
        return self.is_empty and is_similar(
            self.masked_arguments, latest.masked_arguments, NOISE_PERCENT
        )

    def repeats(self, other: Round) -> bool:
        """Return whether calls and results are equal; receipts of what was sent may differ."""
        if self.signature != other.signature:
            return False
        if self.has_same_result(other) or self.is_sent_again(other):
            return True
        return self.is_screen_action and other.is_screen_action and self._logs_only_more(other)

    def _logs_only_more(self, other: Round) -> bool:
        """Return whether the same page came back, apart from times in what it logs."""
        texts = (self.result[:MAX_SCREEN_CHARS], other.result[:MAX_SCREEN_CHARS])
        return is_same_screen(*texts, counters=0)

    def is_sent_again(self, other: Round) -> bool:
        """Return whether the same was sent twice: only the receipts differ."""
        return self.is_sent and other.is_sent and receipt(self.result) == receipt(other.result)

    def has_same_hits(self, other: Round) -> bool:
        """Return whether both searched and found the same, or acted and changed nothing."""
        return (
            abs(self.size - other.size) <= MAX_ID_SLACK_BYTES
            and self.has_hits
            and other.has_hits
            # Hits that begin differently are others: comparing them whole would take long.
            and self.result[:MIN_HITS_START] == other.result[:MIN_HITS_START]
            and (
                self.has_same_result(other)
                or without_scores(self.result) == without_scores(other.result)
            )
        )

    @cached_field
    def has_content(self) -> bool:
        """Whether its result says more than that something was done."""
        words = distinct_words(_KEY.sub("", self.result[:MAX_SCREEN_CHARS]))
        return len(words) >= MIN_CONTENT_WORDS

    def brings_same(self, other: Round) -> bool:
        """Return whether both succeeded and brought the same content, more than "done"."""
        return (
            self.failure is None
            and not self.is_empty
            and not self.reports_success
            and self.may_have_same_result(other)
            and self.has_content
            and (
                self.has_same_result(other)
                or without_scores(self.result) == without_scores(other.result)
            )
        )

    def shows_same_screen(self, other: Round) -> bool:
        """Return whether the same action led to the same page, but for a counter or a line."""
        return (
            self.signature == other.signature
            and self.is_screen_action
            and other.is_screen_action
            and is_same_screen(self.result[:MAX_SCREEN_CHARS], other.result[:MAX_SCREEN_CHARS])
        )

    def fails_like(self, other: Round, percent: float) -> bool:
        """Return whether both failed with almost equal messages; reports must be equal."""
        mine, theirs = self.failure, other.failure
        if mine is None or theirs is None or mine == theirs or self.is_report:
            return mine == theirs is not None
        if FIELD_MARK in mine and fields_of(mine) != fields_of(theirs):
            return False
        return is_similar(mine, theirs, percent) and shares_most_words(mine, theirs)
