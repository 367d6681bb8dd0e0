"""The trajectory: the rounds of an agent since the last user message."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from sys import maxsize

from msgspec import Raw

from looptrap.detect.asked_repetition import NOT_ASKED, AskedRepetition, asked_repetition
from looptrap.detect.call_kind import kind_of_call
from looptrap.detect.call_spelling import holds_query, without_explanation
from looptrap.detect.canonical import join, stands_twice
from looptrap.detect.edit_chat import EditChat
from looptrap.detect.harness import (
    FINAL_MARK,
    ComesAfterPause,
    HasGrown,
    TurnStarts,
    is_final,
)
from looptrap.detect.harness_text import is_harness_text, without_tagged
from looptrap.detect.merged_turn import MIN_REPEATS, rounds_of
from looptrap.detect.page_history import PageStep, may_have_pages, page_step
from looptrap.detect.remembered_round import RememberedRound, RoundRecord, Trait
from looptrap.detect.result_frame import (
    MAX_RESULTS,
    AnsweredCall,
    ResultFrame,
    explained_alike,
    learn_explanations,
    learn_frame,
    may_have_frame,
)
from looptrap.detect.round import MAX_ID_SLACK_BYTES, NUDGE_MARK, Reader, Round, cached_field
from looptrap.detect.stale_talk import count_stale_turns, may_be_stale
from looptrap.detect.text_history import (
    TextStep,
    may_have_steps,
    steps_in_answer,
    steps_in_prompt,
)
from looptrap.dialect.content import canonical
from looptrap.dialect.model import Call, Message, ToolCall, ToolResult

MAX_INJECTED_CHARS = 40
_INJECTED = re.compile(
    r"\W*(?:please\s+)?(?:continue|go on|go ahead|proceed|keep going|carry on|next(?: step)?"
    r"|resume)(?:\s+please)?\W*",
    re.IGNORECASE,
)
"""What a harness sends to make the model continue."""

MESSAGES_A_ROUND = 2
"""At least: the assistant's message, and a result."""

MAX_SEARCHED_MESSAGES = 44
"""Latest messages that are searched for a call before they are decoded."""

MIN_NEEDLE_CHARS, MAX_NEEDLE_CHARS = 4, 24
"""Characters of a call to search for: fewer prove nothing, more make the search no faster."""

MAX_ASKED_MESSAGES = 120
"""Latest messages that are searched for what a person asked."""

MAX_SAYING_MESSAGES = 17
"""Latest messages that are searched for what the agent says now."""

_PLAIN_PIECE = re.compile(r"[A-Za-z0-9 _.:=,-]{12,24}")

_PLAIN = re.compile(r"[A-Za-z0-9 _.:=,-]+")
"""What JSON never escapes, however deeply it is nested."""
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_.:=-]+")

MAX_IDS = 8
"""Latest results of a turn by which it is known to have grown."""

_NUDGE = NUDGE_MARK.encode()
_OBSERVED = b"bservation"
MAX_NUDGE_BYTES = 4_000
"""Most bytes of a nudge."""


class Trajectory:
    """The rounds since the last user message, decoded from the latest back, as needed."""

    def __init__(
        self,
        call: Call,
        limit: int = maxsize,
        exempt: frozenset[str] = frozenset(),
        comes_after_pause: ComesAfterPause | None = None,
        has_grown: HasGrown | None = None,
    ) -> None:
        """Read at most the latest `limit` rounds, and none that call only `exempt` tools.

        When the latest round calls only such tools, there are no rounds. A message that comes
        back begins a turn only if it comes after a pause. A turn that has grown since the request
        before is read as several.
        """
        self._call = call
        self.starts = TurnStarts(call, may_begin_turn, comes_after_pause)
        self.starts.has_grown = has_grown
        self.starts.has_other_form = isinstance(call, EditChat)
        self._unread = _backwards(call, self.starts)
        self._rounds: list[Round] = []
        if limit < maxsize:
            self._unread = islice(self._unread, limit)
        if exempt:
            self._unread = _without(exempt, self._unread)

    @cached_field
    def newest(self) -> Round | None:
        """The latest round, if any. Most signals need no other."""
        latest = self.latest(1)
        return latest[0] if latest else None

    @cached_field
    def is_new_call(self) -> bool:
        """Whether the latest call was certainly not made before.

        The longest plain piece of its arguments would stand in the earlier messages: searching for
        it costs far less than decoding them.
        """
        if self.newest is None:
            return True
        arguments = without_explanation(self.newest.arguments)
        # The words of a query may come again in another order.
        pattern = _PLAIN_WORD if holds_query(arguments) else _PLAIN
        longest = max(pattern.findall(arguments), key=len, default="")
        needle = longest[:MAX_NEEDLE_CHARS].encode()
        if len(needle) < MIN_NEEDLE_CHARS:
            return False
        # After the round there may be more than its result: what a harness says.
        after = self.starts.newest_place + MESSAGES_A_ROUND
        searched = self._call.raws[max(0, after - MAX_SEARCHED_MESSAGES) :]
        return not stands_twice(needle, b"".join(searched))

    @cached_field
    def has_news(self) -> bool:
        """Whether the latest call is new and brought something, as most do."""
        newest = self.newest
        if newest is None or not newest.calls or newest.failure is not None or newest.is_empty:
            return False
        return self.is_new_call

    def may_have_come_before(self, messages: int) -> bool:
        """Return, by sizes and a piece, whether the last message may be among so many before it."""
        raws = self._call.raws
        size = len(raws[-1])
        least, most = size - MAX_ID_SLACK_BYTES, size + MAX_ID_SLACK_BYTES
        alike = [raw for raw in raws[-messages - 1 : -1] if least <= len(raw) <= most]
        if not alike:
            return False
        piece = bytes(raws[-1])[size // 2 : size // 2 + MAX_NEEDLE_CHARS]
        return any(piece in bytes(raw) for raw in alike)

    def may_have_said(self, text: str, messages: int = MAX_SAYING_MESSAGES) -> bool:
        """Return whether a latest text, of the agent or a tool, may stand in messages before, too.

        A plain piece of it is searched for, without decoding them.
        """
        found = _PLAIN_PIECE.search(text)
        if found is None:
            return True
        searched = self._call.raws[-messages:]
        return stands_twice(found[0].encode(), b"".join(searched))

    @cached_field
    def stale_turns(self) -> int:
        """How many of the latest turns of the conversation said nothing new, on any side."""
        return count_stale_turns(self._call) if may_be_stale(self._call) else 0

    @cached_field
    def asked(self) -> AskedRepetition:
        """How often the person who began the turn asked for the same; read from the request."""
        for message in islice(self._call.backwards(), MAX_ASKED_MESSAGES):
            if begins_turn(message):
                return asked_repetition(without_tagged(message.text))
        return NOT_ASKED

    _frame: ResultFrame | None = None
    _is_frame_known = False

    restarts = 0
    """Runs in a row that began like this one and ended alike."""
    stale_segments = 0
    """Compactions in a row after which nothing new came, this one included."""

    def count_calls(self, exact_rounds: int) -> tuple[int, int]:
        """Return the tool calls and the rounds since the last user message.

        Only in the latest `exact_rounds` are several calls of one round counted.
        """
        rounds = self.latest(maxsize)
        count = sum(len(round_.calls) for round_ in rounds[:exact_rounds])
        return count + len(rounds[exact_rounds:]), len(rounds)

    @property
    def length(self) -> int:
        """The number of messages in the whole history."""
        return len(self._call.raws)

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools that the request offers."""
        return self._call.tools

    def latest(self, limit: int) -> list[Round]:
        """Return up to `limit` rounds, the latest first."""
        if len(self._rounds) < limit:
            self._read(limit)
        return self._rounds[:limit]

    def _read(self, limit: int) -> None:
        if not self._is_frame_known:
            self._is_frame_known = True
            if may_have_frame(self._latest_ends()):
                self._learn_frame()
            if explained_alike(self._latest_calls()):
                self._learn_explanations()
        while len(self._rounds) < limit:
            found = next(self._unread, None)
            if found is None:
                break
            found.frame = self._frame
            self._rounds.append(found)

    def _latest_ends(self) -> Iterator[bytes]:
        for found in self._unread:
            self._rounds.append(found)
            yield found.latest_result_ends

    def _latest_calls(self) -> Iterator[ToolCall]:
        for round_ in self._rounds:
            yield from round_.assistant_message.calls
        for found in self._unread:
            self._rounds.append(found)
            found.frame = self._frame
            yield from found.assistant_message.calls

    def _learn_explanations(self) -> None:
        """Learn in which arguments of its calls the agent says why it makes them."""
        self._read(MAX_RESULTS)
        if explanations := learn_explanations(list(self._answered())):
            self._use((self._frame or ResultFrame())._replace(explanations=explanations))

    def _answered(self) -> Iterator[AnsweredCall]:
        """Yield the calls of the latest rounds with their results, as they were written."""
        for round_ in self._rounds:
            calls, results = round_.assistant_message.calls, round_.framed_results()
            for call, result in zip(calls, results, strict=True):
                if result is not None:
                    yield call, result.text

    def _use(self, frame: ResultFrame) -> None:
        self._frame = frame
        for round_ in self._rounds:
            round_.frame = frame
            # What was read while rounds were found is read anew.
            for name in ("calls", "results"):
                round_.__dict__.pop(name, None)

    def _learn_frame(self) -> None:
        """Learn what the harness writes around the results of this run."""
        self._read(MAX_RESULTS)
        answered = [(kind_of_call(call), text) for call, text in self._answered()]
        frame = learn_frame(answered)
        if frame is not None:
            self._use(frame)

    def latest_while(self, holds: Callable[[Round], bool], limit: int) -> list[Round]:
        """Return the latest rounds in a row for which something holds; read no more than needed."""
        count = 0
        while count < limit and len(rounds := self.latest(count + 1)) > count:
            if not holds(rounds[count]):
                break
            count += 1
        return self._rounds[:count]

    def latest_of_all_turns(self, limit: int) -> list[Round]:
        """Return up to `limit` rounds, the latest first, whatever a user said between them."""
        whole = Trajectory(self._call, limit)
        whole.starts.are_ignored = True
        return whole.latest(limit)

    def latest_across_compactions(self, limit: int) -> Sequence[Round]:
        """Return up to `limit` rounds, the latest first; those before a compaction, if known."""
        return self.latest(limit)

    def since_change(self, limit: int) -> list[Round]:
        """Return up to `limit` rounds since the last progress, the latest first.

        Progress is a new call that changes something, or a new result of an earlier call. The
        latest round itself is always included.
        """
        rounds = self.latest(limit)
        for age, round_ in enumerate(rounds[1:], 1):
            if round_.signature == rounds[0].signature:
                continue
            others = (other for other in rounds if other is not round_)
            is_new_call = all(other.signature != round_.signature for other in others)
            if round_.made_change if is_new_call else has_new_result(round_, rounds[age + 1 :]):
                return rounds[:age]
        return rounds

    def fingerprint_content(self, with_texts: list[str]) -> bytes:
        """Return what identifies this history: its latest calls, and these texts."""
        calls = self.newest.signature_texts if self.newest is not None else []
        return join([*with_texts, *calls])


class RunTrajectory(Trajectory):
    """The rounds of a run that were remembered, of which the request shows only the latest."""

    def __init__(
        self, call: Call, records: Sequence[RoundRecord], tools: Mapping[bytes, frozenset[str]]
    ) -> None:
        """Take the records of a run, the oldest first, and sets of tool names by their digests."""
        super().__init__(call)
        self.records = records
        rounds = [RememberedRound(record, tools) for record in records]
        self.all_rounds = rounds[::-1]
        """Those before the latest compaction too, the latest first."""
        latest = records[-1]
        if latest.segment and not latest.traits & Trait.NEWS:
            self.stale_segments = latest.stale_segments + 1
        self._unread = iter(())
        self._is_frame_known = True
        begins = next((age for age, one in enumerate(self.all_rounds) if one.begins_segment), None)
        self._rounds = list(self.all_rounds[: None if begins is None else begins + 1])

    def latest_of_all_turns(self, limit: int) -> list[Round]:
        """Return those that are remembered: they end where a user spoke."""
        return self.latest(limit)

    def latest_across_compactions(self, limit: int) -> Sequence[Round]:
        """Return up to `limit` rounds, the latest first, those before a compaction too."""
        return self.all_rounds[:limit]

    def count_shown(self, limit: int) -> int:
        """Return how many rounds the request shows itself, at most `limit`."""
        if self._call.chain:
            return 0
        shown = Trajectory(self._call)
        count = len(shown.latest(limit))
        return min(count, 1) if shown.starts.has_pages else count

    def rounds_before_compaction(self) -> int:
        """Return how many rounds came between the latest two compactions, as far as is known."""
        segment = self.records[-1].segment
        before = sum(record.segment == segment - 1 for record in self.records)
        return before or len(self._rounds)

    @cached_field
    def is_new_call(self) -> bool:
        """Whether the latest call was not made before."""
        latest, *others = self._rounds
        return all(other.signature != latest.signature for other in others)

    def may_have_come_before(self, messages: int) -> bool:  # noqa: ARG002 - records are compared
        """Return whether the latest result may be one of those before: always."""
        return True

    @property
    def length(self) -> int:
        """The number of messages in the run, at least."""
        return MESSAGES_A_ROUND * self.records[-1].total_calls

    def count_calls(self, exact_rounds: int) -> tuple[int, int]:  # noqa: ARG002 - all are exact
        """Return the tool calls of the run, and the rounds that are remembered."""
        return self.records[-1].total_calls, len(self._rounds)


def since_other_result(rounds: list[Round]) -> list[Round]:
    """Return the rounds since the latest call had another result, which was new: a state that
    changes, such as alerts that come and go, is progress. Another failure is none.
    """
    latest = rounds[0]
    for age, round_ in enumerate(rounds[1:], 1):
        if (
            round_.signature == latest.signature
            and (latest.failure is None or round_.failure is None)
            and not round_.repeats(latest)
            and has_new_result(round_, rounds[age + 1 :])
        ):
            return rounds[:age]
    return rounds


def has_new_result(round_: Round, before: Sequence[Round]) -> bool:
    """Return whether a call was made before, and never with this result."""
    same_calls = [earlier for earlier in before if earlier.signature == round_.signature]
    return bool(same_calls) and not any(round_.has_same_result(earlier) for earlier in same_calls)


FIRST_MESSAGES = 3
"""Messages of a request in which no run can be in a loop yet."""


def is_fresh(call: Call) -> bool:
    """Return whether the last message is a person's: then there are no rounds yet."""
    last = call.tail(1)
    if not last or not may_begin_turn(last[0]):
        return False
    text = last[0].text
    if may_have_steps(text) and steps_in_prompt(text):
        return False
    if may_have_pages(text) and page_step(text) is not None:
        return False
    is_first = len(call.raws) <= FIRST_MESSAGES and not call.chain
    return is_first or not is_harness_text(text)


def _is_long(raw: Raw) -> bool:
    """Return whether a message is longer than what a harness or a nudge says."""
    size = memoryview(raw).nbytes
    return size > MAX_NUDGE_BYTES or (size > 4 * MAX_INJECTED_CHARS and _NUDGE not in bytes(raw))


def _backwards(call: Call, starts: TurnStarts) -> Iterator[Round]:
    """Return the rounds from the latest back; tool messages stay raw where that is possible."""
    if call.peek is not None and call.read is not None:
        return _peeking(call, call.peek, call.read, starts)
    return _reading(call, starts)


def _reading(call: Call, starts: TurnStarts) -> Iterator[Round]:
    answers: list[Message] = []
    last = len(call.raws) - 1
    for index, message in call.placed_backwards():
        if index == last and message.role == "user":
            rounds = _prompt_rounds(call, message, starts)
            if rounds is not None:
                yield from rounds
                return
        if message.results:
            answers.append(message)
        if starts.is_start(index, message):
            return
        if message.role == "user" and is_observation(message.text):
            answers.append(text_as_result(message))
        if message.role == "assistant":
            is_ours = not answers and message.text.startswith(FINAL_MARK)
            if not starts.read_answer(index, is_ours):
                continue
            if not answers and not message.calls and may_have_steps(message.text):
                yield from _answer_rounds(call, message)
            else:
                turn = Round(_assistant_message(call, message, answers), answers)
                yield from _split(turn, starts, index) if len(message.calls) > 1 else (turn,)
            answers = []


def _without(exempt: frozenset[str], rounds: Iterator[Round]) -> Iterator[Round]:
    """Yield the rounds that call other tools too; none if the latest one does not."""
    for age, round_ in enumerate(rounds):
        if not round_.calls or not round_.names <= exempt:
            yield round_
        elif not age:
            return


def _peeking(
    call: Call, peek: Callable[[Raw], str], read: Reader, starts: TurnStarts
) -> Iterator[Round]:
    answers: list[Raw | Message] = []
    known: list[Message] = []
    # The last messages were decoded to count the prompt, and are not decoded again.
    already_read = call.decoded_tail
    place = len(call.raws)
    last = place - 1
    is_newest = True
    unread = place - len(already_read)
    for raw in reversed(call.raws):
        place -= 1
        message = already_read[place - unread] if place >= unread else None
        role = peek(raw) if message is None else message.role
        if role == "tool":
            if message is not None and len(known) == len(answers):
                known.append(message)
            answers.append(raw)
        elif role == "assistant":
            if not answers:
                if not starts.read_answer(place, is_final(raw)):
                    continue
                is_newest = False
                if _OBSERVED in bytes(raw):
                    yield from _answer_rounds(call, message or read(raw))
                    continue
            elif is_newest:
                is_newest, starts.newest_place = False, place
            is_read = bool(answers) and isinstance(answers[0], Message)
            message_or_raw = (
                _assistant_message(call, message or read(raw), answers)
                if is_read
                else message or raw
            )
            turn = Round(message_or_raw, answers, read, known)
            if len(answers) > 1:
                yield from _split(turn, starts, place)
            else:
                yield turn
            answers, known = [], []
        elif role == "user":
            if place == last:
                message = message or read(raw)
                rounds = _prompt_rounds(call, message, starts)
                if rounds is not None:
                    yield from rounds
                    return
            is_long = _is_long(raw) and not may_be_observation(memoryview(raw))
            if is_long and not starts.may_continue(place):
                return
            message = message or read(raw)
            if starts.is_start(place, message):
                return
            if is_observation(message.text):
                answers.append(text_as_result(message))


def _split(turn: Round, starts: TurnStarts, place: int) -> Sequence[Round]:
    """Return the rounds of a turn with several results, and note if it was merged."""
    is_newest, has_grown = place == starts.newest_place, starts.has_grown
    is_grown = is_newest and has_grown is not None and has_grown(turn.latest_ids(MAX_IDS))
    if not is_grown and turn.result_count <= MIN_REPEATS and len(turn.calls) <= MIN_REPEATS:
        return (turn,)
    if not starts.may_be_merged:
        return (turn,)
    rounds = rounds_of(turn, is_certain=is_grown)
    starts.has_other_form = starts.has_other_form or len(rounds) > 1
    return rounds


def _prompt_rounds(call: Call, message: Message, starts: TurnStarts) -> Iterator[Round] | None:
    """Return the rounds of the last message, a user's, if it is a history in text."""
    if message.results:
        return None
    if may_have_pages(message.text) and (step := page_step(message.text)) is not None:
        starts.has_pages = True
        return _page_rounds(call, step)
    if not may_have_steps(message.text):
        return None
    steps = steps_in_prompt(message.text)
    starts.has_other_form = starts.has_other_form or bool(steps)
    return _text_rounds(call, steps) if steps else None


def _answer_rounds(call: Call, message: Message) -> Iterator[Round]:
    """Return the rounds of an assistant's message to which a harness added the results."""
    steps = () if message.calls else steps_in_answer(message.text)
    return _text_rounds(call, steps) if steps else iter((Round(message, ()),))


def _text_rounds(call: Call, steps: Sequence[TextStep]) -> Iterator[Round]:
    offered = call.tools
    for step in steps:
        # A request that offers tools would not know another one.
        is_named = not offered or step.tool in offered
        called, observed = step.messages(is_named=is_named, name=TEXT_TOOL_NAME)
        yield Round(called, (observed,))


def _page_rounds(call: Call, step: PageStep) -> Iterator[Round]:
    """Yield the latest round of a browser agent, and the one before, whose page is not shown."""
    name = TEXT_TOOL_NAME if call.tools else step.tool or TEXT_TOOL_NAME
    for action, page, id_ in ((step.action, step.page, step.id), ("", "", step.id_before)):
        if not id_:
            return
        called = Message("assistant", "", (ToolCall("", name, action),))
        round_ = Round(called, (Message("tool", "", (), (ToolResult("", page, name=name),)),))
        round_.random_id = id_
        # Words on a page do not say what came of an action. Another one may lead on: who goes back
        # to a list after each item of it makes progress.
        round_.failure, round_.is_empty, round_.made_change = None, False, True
        round_.is_poll = "wait" in step.tool.lower()
        yield round_


def _assistant_message(call: Call, message: Message, answers: Sequence[Message | Raw]) -> Message:
    """Return the assistant's message; where a harness answered in text, as a tool call."""
    if not answers or message.calls:
        return message
    called = text_as_call(message)
    # A request that offers tools would not know one that is called in text.
    is_unknown = called.calls[0].name != TEXT_TOOL_NAME and bool(call.tools)
    return text_as_call(message, is_named=False) if is_unknown else called


def begins_turn(message: Message) -> bool:
    """Return whether a person wrote a message, by all that the message itself tells."""
    return may_begin_turn(message) and not is_harness_text(message.text)


def may_begin_turn(message: Message) -> bool:
    """Return whether a message is a user's, and neither "continue" nor a nudge nor a result."""
    if message.role != "user" or message.results or message.text.startswith(NUDGE_MARK):
        return False
    if len(message.text) <= MAX_INJECTED_CHARS and _INJECTED.fullmatch(message.text) is not None:
        return False
    return not is_observation(message.text)


# Agents that call tools in plain text: the model writes an action, its harness answers as a user.
# How such an answer begins or ends shows that no person wrote it. The message before it is then a
# tool call, and the answer its result.

TEXT_TOOL_NAME = "(in text)"
"""The name of a tool that is called in plain text."""

MAX_PREFIX_BYTES = 240

_OBSERVATION_START = re.compile(
    r"""\W{0,3}(?:
      observation s?\b
    | execution\ (?:result|output)s?\b
    | (?:command|tool|code|function|script|terminal)\ (?:output|result|response)s?\b
    | (?:output|results?)\ of\ (?:the\ )?(?:tool|command|action|function|code)\b
    | old\ environment\ output\b | (?:old|earlier|previous)\ (?:tool\ )?(?:output|result)s?\b
    | returncode> | output>
    | tool_(?:result|response|output)\b
    | call\ id:
    | \w+(?:\ for\ [^\]\n]{0,160})?\]\ result:
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_MARKUP_CHARS = " \n\t*#<[("
_OBSERVATION_WORDS = (
    *("observation", "execution", "command", "tool", "code", "function", "script", "terminal"),
    *("output", "result", "returncode", "call id", "old ", "earlier ", "previous "),
)
"""First words of such an answer: a cheap test before the pattern."""

_SHELL_PROMPT = re.compile(r"(?:bash-?|shell|root@\S{1,40})[\d.]*[#$]\s*\Z")
"""A shell prompt."""

_RAW_OBSERVATION = re.compile(
    rb"observation|execution (?:result|output)|(?:output|result|response)s?[ :\\]|returncode>"
    rb"|output>|tool_(?:result|response|output)|call id:|\] result:|[#$]\s*\W{0,4}\Z",
    re.IGNORECASE,
)
_FENCED = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)
_CALL_ID = re.compile(
    r"""(['"])id\1:\ ?(['"])[^'"]{1,80}\2,\ ?(?=(['"])type\3:\ ?(['"])function\4)""", re.VERBOSE
)
"""The id of a call written in the API's form: it differs each time."""
_ELEMENT = re.compile(r"^<([a-z][a-z0-9_]{1,40})>", re.MULTILINE)
_FIELD = re.compile(r"<([a-z][a-z0-9_]{1,40})>([^<]*)</\1>")
MAX_ELEMENTS = 8
"""Elements at line starts of which the first that is closed is the action."""
_ACTION = re.compile(r"^\W{0,3}action\b.*", re.IGNORECASE | re.MULTILINE | re.DOTALL)


def may_be_observation(raw: memoryview) -> bool:
    """Return, without decoding a message, whether it may be an observation."""
    return _RAW_OBSERVATION.search(bytes(raw[:MAX_PREFIX_BYTES]) + bytes(raw[-40:])) is not None


def is_observation(text: str) -> bool:
    """Return whether a user's message is a harness's answer to an action in text."""
    # For most messages, which persons write, this test is enough.
    start = text[:24].lstrip(_MARKUP_CHARS).lower()
    may_begin = start.startswith(_OBSERVATION_WORDS) or text[:1] == "["
    if may_begin and _OBSERVATION_START.match(text) is not None:
        return True
    return text[-3:].rstrip()[-1:] in ("#", "$") and _SHELL_PROMPT.search(text[-60:]) is not None


def text_as_call(message: Message, *, is_named: bool = True) -> Message:
    """Return the assistant's text as a tool call: only the action, where it can be recognised."""
    text, name = message.text, TEXT_TOOL_NAME
    blocks = _FENCED.findall(text)
    if blocks:
        action = "\n".join(blocks)
    elif (found := _ACTION.search(text)) is not None:
        action = found[0]
    elif (element := _element_in(text)) is not None:
        tag, action = element
        name = tag if is_named else name
    else:
        action = text
    action = _CALL_ID.sub("", action.strip())
    return Message("assistant", text, (ToolCall(TEXT_TOOL_NAME, name, action),))


def _element_in(text: str) -> tuple[str, str] | None:
    """Return the tag and the content of an action that is written as XML; None if there is none."""
    for tag in islice(_ELEMENT.finditer(text), MAX_ELEMENTS):
        end = text.rfind(f"</{tag[1]}>")
        if end > tag.start() and tag[1] != "thinking":
            content = text[tag.end() : end]
            fields = dict(_FIELD.findall(content))
            is_all = len(fields) == content.count("</") and not _FIELD.sub("", content).strip()
            return tag[1], canonical(fields) if is_all else content
    return None


def text_as_result(message: Message) -> Message:
    """Return the harness's answer as the result of that call."""
    text = without_tagged(message.text)
    return Message("tool", "", (), (ToolResult(TEXT_TOOL_NAME, text, name=TEXT_TOOL_NAME),))
