"""Frames: what a harness adds to every result and every call, learned from the run itself.

Under `[exit 0 · 0.53 s · job 4711]` two equal results look different. No list of harnesses is ever
complete, but a line with the same words at the same end of every result, whatever was called, is
the harness's. Figures in it that differ from result to result, whatever is called, are noise. Those
that stay or come back, such as an exit status, are kept. The same holds for the fields of JSON that
come with every result, such as `"step": 12, "tokens_used": 4711`, and for an argument in which
every tool, whatever it does, is told why: that changes nothing about the call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from looptrap.detect.call_kind import kind_of_call
from looptrap.dialect.content import canonical, decode_or_none
from looptrap.dialect.model import ToolCall

MAX_FRAME_LINES = 5
"""Lines at either end of a result that may belong to a frame."""

MAX_LINE_CHARS = 240
"""Longer lines are content."""

START_CHARS, END_CHARS = 4 * MAX_LINE_CHARS, 2 * MAX_LINE_CHARS
"""Characters at either end of a message in which its first and its last line are searched."""

MIN_RESULTS, MAX_RESULTS = 5, 40
"""Latest results of which a frame is learned: fewer may be alike by chance."""

MIN_KINDS = 3
"""Kinds of calls that must have the same frame: what one tool always says is its own."""

MIN_SHARE = 0.8
"""Share of the results, and of the kinds of calls, that have the frame: some outputs are cut."""

MIN_DISTINCT_SHARE = 0.5
"""Share of different sentences among those that say why a call is made."""

_FIGURE = re.compile(r"((?<![\w.,:+-])(?:[^\W\d]|[.,:+-])*+\d[\w.,:+-]*+)")
_RAW_FIGURE = re.compile(rb"(?<![\w.,:+-])[a-zA-Z_.,:+-]*+\d[\w.,:+-]*+")
_ESCAPE = re.compile(rb"\\u[0-9a-fA-F]{4}")
_STRING_END = re.compile(rb'(?:[^"\\]|\\[^n])*')
_FIELD = re.compile(
    r"""(?<!\\)"([\w.-]{1,40})"\s?:\s?(-?\d[\w.+-]*|"(?=[^"]{0,64}\d)[\w.:+-]{1,64}")(?=\s*[,}])"""
)
"""A field with a number, or with an id or a time."""
_SENTENCE_WORD = re.compile(r"[(\"'‘“]?[\w'’./-]{1,40}[)\"'’”]?[,;:.!?…]?")
MIN_SENTENCE_WORDS, MAX_SENTENCE_WORDS = 4, 80
_FOUR_WORDS = re.compile(r'"(\w{1,40})":"(?:[^" ]{1,40} ){3}')
_ZERO = re.compile(r"[0.,]+")


FramedResult = tuple[str, str]
"""What kind of call it was, and its result."""


AnsweredCall = tuple[ToolCall, str]
"""A call, and its result."""


class FrameLine(NamedTuple):
    """A line of a frame: its words, and which of the figures between them are noise."""

    words: tuple[str, ...]
    is_noise: tuple[bool, ...]

    def read(self, line: str) -> str | None:
        """Return the line without noise, empty where nothing is left; None for another line."""
        words, figures = _split(line)
        if words != self.words:
            return None
        kept = [figure for figure, noise in zip(figures, self.is_noise, strict=True) if not noise]
        if all(map(_ZERO.fullmatch, kept)):
            return ""
        shown = ("#" if noise else one for one, noise in zip(figures, self.is_noise, strict=True))
        return "".join(part for pair in zip(words, (*shown, ""), strict=True) for part in pair)


class ResultFrame(NamedTuple):
    """The lines around the results of one run, from the outer ones inwards."""

    first: tuple[FrameLine, ...] = ()
    last: tuple[FrameLine, ...] = ()
    fields: frozenset[str] = frozenset()
    """Names of fields of JSON whose values are noise."""
    explanations: frozenset[str] = frozenset()
    """Names of arguments that say why a call is made."""

    def without_explanations(self, call: ToolCall) -> ToolCall:
        """Return a call without the arguments that say why it is made."""
        values = decode_or_none(call.arguments) if self.explanations else None
        if not isinstance(values, dict) or self.explanations.isdisjoint(values):
            return call
        kept = {name: value for name, value in values.items() if name not in self.explanations}
        return ToolCall(call.id, call.name, canonical(kept))

    def without_noise(self, text: str) -> str:
        """Return a result without the noise of its frame."""
        if self.fields:
            return _FIELD.sub(lambda found: "" if found[1] in self.fields else found[0], text)
        return _read_ends(_read_ends(text, self.first, is_last=False), self.last, is_last=True)


def _read_ends(text: str, frame: Sequence[FrameLine], *, is_last: bool) -> str:
    kept: list[str] = []
    for known in frame:
        rest, line = _cut_line(text, is_last=is_last)
        read = known.read(line)
        if read is None:
            break
        text = rest
        if read:
            kept.append(read)
    if is_last:
        return "\n".join([*([text] if text or not kept else []), *reversed(kept)])
    return "\n".join([*kept, *([text] if text or not kept else [])])


def _cut_line(text: str, *, is_last: bool) -> tuple[str, str]:
    """Return the text without its last or its first line that is not blank, and that line."""
    if is_last:
        rest, _, line = text.rstrip().rpartition("\n")
        return rest.rstrip(), line
    line, _, rest = text.lstrip("\n").partition("\n")
    return rest, line


def _split(line: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words of a line, and the figures between them; a long line has none."""
    if len(line) > MAX_LINE_CHARS:
        return (line,), ()
    parts = _FIGURE.split(line.strip())
    return tuple(parts[::2]), tuple(parts[1::2])


def learn_frame(results: Sequence[FramedResult]) -> ResultFrame | None:
    """Return the frame of the results of a run, the latest first."""
    if fields := _learn_fields(results):
        return ResultFrame(fields=fields)
    first = tuple(_learn_lines(results, is_last=False))
    last = tuple(_learn_lines(results, is_last=True))
    if not any(any(line.is_noise) for line in (*first, *last)):
        return None
    return ResultFrame(first, last)


def _learn_lines(results: Sequence[FramedResult], *, is_last: bool) -> Iterator[FrameLine]:
    for _ in range(MAX_FRAME_LINES):
        cut = [(kind, *_cut_line(text, is_last=is_last)) for kind, text in results]
        if not cut or len(cut[0][2]) > MAX_LINE_CHARS:
            return
        words = _split(cut[0][2])[0]
        found = [
            (kind, rest, _split(line)[1]) for kind, rest, line in cut if _split(line)[0] == words
        ]
        if not any(words) or not _is_everywhere(results, [kind for kind, _, _ in found]):
            return
        kinds = [kind for kind, _, _ in found]
        columns = zip(*(figures for _, _, figures in found), strict=True)
        noise = (_always_changes(list(zip(kinds, column, strict=True))) for column in columns)
        yield FrameLine(words, tuple(noise))
        results = [(kind, rest) for kind, rest, _ in found]


def _learn_fields(results: Sequence[FramedResult]) -> frozenset[str]:
    """Return the fields that come with the results of most kinds, with other values each time."""
    if not results or not results[0][1].startswith("{"):
        return frozenset()
    found: dict[str, list[tuple[str, str]]] = {}
    for kind, text in results:
        for name, value in dict(_FIELD.findall(text)).items():
            found.setdefault(name, []).append((kind, value))
    return frozenset(
        name
        for name, values in found.items()
        if _is_everywhere(results, [kind for kind, _ in values]) and _always_changes(values)
    )


def _always_changes(values: Sequence[tuple[str, str]]) -> bool:
    """Return whether a figure differs from the one before, whatever was called.

    A state, such as what is left of an enemy, stays as it is while the agent only looks.
    """
    changes: dict[str, list[bool]] = {}
    for (kind, value), (_, before) in pairwise(values):
        changes.setdefault(kind, []).append(value != before)
    always = sum(sum(found) >= MIN_SHARE * len(found) for found in changes.values())
    return always >= max(MIN_SHARE * len(changes), MIN_KINDS)


def learn_explanations(answered: Sequence[AnsweredCall]) -> frozenset[str]:
    """Return the arguments that say why a call is made, of the calls of a run, the latest first.

    Tools of most kinds take them, they are sentences, mostly others each time, and calls that are
    equal without them have equal results: what is searched for is none.
    """
    kinds: list[FramedResult] = [(kind_of_call(call), "") for call, _ in answered]
    found: dict[str, list[tuple[str, str]]] = {}
    for (call, _), (kind, _) in zip(answered, kinds, strict=True):
        for name, value in _sentences(call):
            found.setdefault(name, []).append((kind, value))
    names = frozenset(
        name
        for name, values in found.items()
        if _is_everywhere(kinds, [kind for kind, _ in values])
        and len({value for _, value in values}) >= MIN_DISTINCT_SHARE * len(values)
    )
    return names if names and not _decide_results(names, answered) else frozenset()


def _decide_results(names: frozenset[str], answered: Sequence[AnsweredCall]) -> bool:
    """Return whether calls that are equal without these arguments mostly have other results."""
    frame = ResultFrame(explanations=names)
    results: dict[tuple[str, str], str] = {}
    equal = different = 0
    for call, result in answered:
        shown = frame.without_explanations(call)
        start = _FIGURE.sub("#", result[:MAX_LINE_CHARS])
        before = results.setdefault((shown.name, shown.arguments), start)
        if before is not start:
            equal, different = equal + (before == start), different + (before != start)
    return different > equal


def explained_alike(calls: Iterator[ToolCall]) -> bool:
    """Return whether the latest calls share an argument with a sentence: a cheap test."""
    newest = next(calls, None)
    if newest is None or _OPERANDS.issuperset(_FOUR_WORDS.findall(newest.arguments)):
        return False
    names = {name for name, _ in _sentences(newest)}
    for _ in range(MIN_RESULTS - 1):
        call = next(calls, None)
        names &= {name for name, _ in _sentences(call)} if call is not None else set()
        if not names:
            return False
    return True


_OPERANDS = frozenset(
    "command cmd query q question text content contents message prompt code input task title body"
    " new_string old_string new_str old_str patch diff instruction instructions".split()
)
"""Arguments that say what a call is about, whatever they sound like."""


def _sentences(call: ToolCall) -> list[tuple[str, str]]:
    """Return the arguments of a call that are sentences, beside others."""
    values = decode_or_none(call.arguments)
    if not isinstance(values, dict) or len(values) < 2:
        return []
    return [
        (name, value)
        for name, value in values.items()
        if type(value) is str and name not in _OPERANDS and _is_sentence(value)
    ]


def _is_sentence(text: str) -> bool:
    """Return whether a text is some words in a line, as a person would write them."""
    if "\n" in text or len(text) > 40 * MAX_SENTENCE_WORDS:
        return False
    words = text.split()
    if not MIN_SENTENCE_WORDS <= len(words) <= MAX_SENTENCE_WORDS or not words[0][0].isalpha():
        return False
    return all(map(_SENTENCE_WORD.fullmatch, words))


def _is_everywhere(results: Sequence[FramedResult], found: Sequence[str]) -> bool:
    """Return whether most results have a line, and those of most kinds of calls."""
    kinds = set(found)
    return len(found) >= max(MIN_SHARE * len(results), MIN_RESULTS) and len(kinds) >= max(
        MIN_SHARE * len({kind for kind, _ in results}), MIN_KINDS
    )


def encoded_ends(text: str) -> bytes:
    """Return both ends of a text as JSON would have them, for `may_have_frame`."""
    if len(text) > START_CHARS + END_CHARS:
        text = text[:START_CHARS] + text[-END_CHARS:]
    return b'"%b"' % text.replace('"', '\\"').replace("\n", "\\n").encode("utf-8", "replace")


def may_have_frame(messages: Iterator[bytes]) -> bool:
    """Return whether the latest messages, encoded, all end or all begin alike: a cheap test."""
    newest = next(messages, b"")
    if _OBJECT in newest[:START_CHARS]:
        return _may_share_fields(newest, messages)
    last, first = _last_shape(newest), _first_shape(newest)
    count = 1
    while (last or first) and count < MIN_RESULTS:
        message = next(messages, b"")
        last = last if last and _last_shape(message) == last else b""
        first = first if first and _first_shape(message) == first else b""
        count += 1
    return bool(last or first)


_OBJECT = b'"{\\"'
_RAW_FIELD = re.compile(rb'\\"([\w.-]{1,40})\\" ?: ?(-?\d[\w.+-]*|\\"[\w.:+-]{1,64}\\")(?=[,}])')


def _may_share_fields(newest: bytes, messages: Iterator[bytes]) -> bool:
    """Return whether the latest messages, with JSON, all have a field with other values."""
    fields = dict(_RAW_FIELD.findall(newest))
    for _ in range(MIN_RESULTS - 1):
        others = dict(_RAW_FIELD.findall(next(messages, b"")))
        fields = {name: value for name, value in fields.items() if others.get(name, value) != value}
        if not fields:
            return False
    return True


def _last_shape(message: bytes) -> bytes:
    """Return the last line with figures, and those after it, figures aside; empty without any."""
    end = len(message)
    least = max(0, end - END_CHARS)
    shape = b""
    for _ in range(MAX_FRAME_LINES):
        start = message.rfind(b"\\n", least, end)
        if start < 0:
            break
        found = _STRING_END.match(message, start + 2, end)
        end = start
        if found is not None and found[0].strip():
            line, figures = _RAW_FIGURE.subn(b"#", _ESCAPE.sub(b"?", found[0]))
            shape = line.strip() + b"\n" + shape
            if figures:
                return shape
    return b""


def _first_shape(message: bytes) -> bytes:
    """Return the first line of a message's text, figures aside; empty where it has no other."""
    end = message.find(b"\\n", 0, START_CHARS)
    start = message.rfind(b'"', 0, max(end, 0))
    while start > 0 and message[start - 1 : start] == b"\\":
        start = message.rfind(b'"', 0, start)
    return _shape(message[start + 1 : end]) if end >= 0 else b""


def _shape(line: bytes) -> bytes:
    shape, figures = _RAW_FIGURE.subn(b"#", _ESCAPE.sub(b"?", line))
    return shape.strip() if figures else b""
