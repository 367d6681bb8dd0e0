"""What a detector inside an agent sees: its turns, whatever its requests show of them.

Most detectors are part of an agent: they see each tool call and its result as it happens, and
know which agent they are in. A `Trail` gives them that. It takes the turns from answers and
requests, and tells the agents of a scenario apart.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from itertools import pairwise
from typing import Any, TypeVar

from bench.loops.answer import Said, read_answer
from bench.loops.scenario import Step
from bench.loops.written import last_observation, read_written, without_surroundings
from looptrap.dialect.body import read_body
from looptrap.dialect.model import Message, ToolResult

AT_ONCE_S = 6.0
"""Who goes on this soon after an answer, with a new history, has compacted it."""

SAME_PROMPT_CHARS = 100
"""Prompts that are a whole history each, and begin alike for so long, are of one agent."""

CALL_BEGINS = re.compile(r"```|^<\w+>|^Action:|\[\[ ## next_tool_name", re.MULTILINE)
"""Where a text ends and the call begins that is written in it."""

ERROR = re.compile(r"\W*(error|traceback)\b", re.IGNORECASE)
"""How the result of a tool begins that failed, where the dialect has no mark for it."""

SESSION_HEADERS = re.compile(r"session|conversation|thread|trace", re.IGNORECASE)
HISTORIES = ("messages", "input", "contents")
SESSION_FIELDS = ("prompt_cache_key", "user", "safety_identifier", "session_id", "metadata")


@dataclass(frozen=True, slots=True)
class Use:
    """One call of a tool, with its result (None if it is not known)."""

    tool: str
    arguments: str
    """Canonical JSON."""
    result: str | None = None
    is_error: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """The tool with its arguments: what is the same in an equal call."""
        return self.tool, self.arguments


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer of the model: its text, its calls with their results, and what a user said."""

    text: str
    uses: tuple[Use, ...] = ()
    heard: str = ""
    """What a user said after it."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A request in neutral form."""

    messages: Sequence[Message]
    chain: str
    system: str
    session: str
    entries: int
    """How many entries the history has, also those that are no messages."""

    @property
    def last(self) -> int:
        """The place of the assistant's last message; -1 if there is none."""
        places = range(len(self.messages) - 1, -1, -1)
        return next((i for i in places if self.messages[i].role == "assistant"), -1)


Read = TypeVar("Read")
MAX_READINGS = 1000


def _shared(read: Callable[[Step], Read]) -> Callable[[Step], Read]:
    """Return a function that reads a step once, however many detectors are asked about it."""
    known: dict[int, tuple[Step, Read]] = {}

    @wraps(read)
    def reading(step: Step) -> Read:
        found = known.get(id(step))
        if found is None or found[0] is not step:
            if len(known) >= MAX_READINGS:
                known.clear()
            found = known[id(step)] = step, read(step)
        return found[1]

    return reading


@_shared
def read_step(step: Step) -> Reading:
    """Read a request."""
    call = read_body(json.dumps(step.body).encode(), step.path)
    # Dialects keep a system prompt outside the messages, or among them.
    told = [step.body.get(name) for name in ("system", "instructions", "systemInstruction")]
    told += [message.text for message in call.messages if message.role == "system"]
    messages = [message for message in call.messages if message.role != "system"]
    system = json.dumps([one for one in told if one])
    entries = next((len(step.body[name]) for name in HISTORIES if name in step.body), 0)
    return Reading(messages, call.chain, system, _session(step), entries)


_read_answer = _shared(read_answer)


def _session(step: Step) -> str:
    """Return all by which a request names its session or user; empty if it names none."""
    named: dict[str, Any] = {
        name.lower(): text for name, text in step.headers.items() if SESSION_HEADERS.search(name)
    }
    named |= {name: step.body[name] for name in SESSION_FIELDS if step.body.get(name)}
    return json.dumps(named, sort_keys=True) if named else ""


@dataclass(slots=True)
class _Agent:
    """One agent of a scenario, as far as it is known."""

    number: int
    caller: str
    first: Reading
    previous: Reading
    said: Said | None = None
    """The latest answer, until the next request shows what came of it."""
    answered_at: float | None = None
    """When it was answered; None while a call is under way."""
    chain: str = ""
    """The last answer, or the conversation, by which the provider's history is continued."""
    has_tool_turns: bool = False
    has_calls: bool = False
    """Whether it calls tools by the API; else its texts may have calls."""
    heard: set[str] = field(default_factory=set)

    def is_continued_by(self, reading: Reading) -> bool:
        """Return whether a request shows the latest answer, or all of the request before."""
        if reading.chain and self.chain:
            return reading.chain == self.chain
        if reading.last < 0:
            return False
        if self.said is not None and (self.said.text or self.said.calls):
            return _is_same(reading.messages[reading.last], self.said)
        before = self.previous.messages
        return len(reading.messages) > len(before) and reading.messages[: len(before)] == before


def _is_equal(first: Reading, reading: Reading) -> bool:
    return (first.entries, first.messages) == (reading.entries, reading.messages)


def _is_same(message: Message, said: Said) -> bool:
    """Return whether a message is an answer, or goes on with what was observed after it."""
    text, told = message.text.strip(), said.text.strip()
    if said.calls:
        # Some harnesses merge all rounds into one message.
        return message.calls[-len(said.calls) :] == said.calls and text.endswith(told)
    is_text = text == told or (told and text.startswith(f"{told}\nObservation:"))
    return bool(is_text) and not message.calls


def _goes_on(before: Reading, reading: Reading) -> bool:
    """Return whether two prompts without answers are of one history, written in one message."""
    if before.last >= 0 or reading.last >= 0 or not before.messages or not reading.messages:
        return False
    size = SAME_PROMPT_CHARS
    begins = before.messages[0].text[:size]
    return len(begins) == size and reading.messages[0].text.startswith(begins)


@dataclass(slots=True)
class Trail:
    """The agents of one scenario."""

    agents: list[_Agent] = field(default_factory=list)
    _senders: dict[int, _Agent] = field(default_factory=dict)

    def follow(self, step: Step) -> tuple[int, list[Turn]]:
        """Return which agent sends a request, and its turns that were not known yet."""
        reading = read_step(step)
        agent = self._find(step, reading)
        if agent is None:
            agent = _Agent(len(self.agents), step.caller, reading, reading)
            self.agents.append(agent)
            turns = _turns(reading.messages, agent)
        elif agent.said is not None and (agent.said.text or agent.said.calls):
            turns = [_turn_of(agent, reading)]
        else:
            turns = _turns(reading.messages[len(agent.previous.messages) :], agent)
        agent.previous, agent.said, agent.answered_at = reading, None, None
        agent.has_tool_turns = agent.has_tool_turns or any(turn.uses for turn in turns)
        agent.chain = reading.chain or agent.chain
        self._senders[id(step)] = agent
        return agent.number, turns

    def answered(self, step: Step, at: float) -> None:
        """Note the answer to a request."""
        agent = self._senders.pop(id(step))
        agent.said, agent.answered_at = _read_answer(step), at
        conversation = step.body.get("conversation")
        if agent.said.id and not conversation:
            agent.chain = agent.said.id
        elif conversation:
            agent.chain = conversation if isinstance(conversation, str) else conversation["id"]

    def _find(self, step: Step, reading: Reading) -> _Agent | None:
        own = [agent for agent in reversed(self.agents) if agent.caller == step.caller]
        for agent in own:
            if agent.is_continued_by(reading):
                return agent
        if reading.chain:
            return None
        idle = [
            agent
            for agent in own
            if agent.answered_at is not None and agent.first.system == reading.system
        ]
        for agent in idle:
            if agent.has_tool_turns and _is_equal(agent.first, reading):
                return None  # the same beginning again: it was started anew
        for agent in idle:
            if agent.has_tool_turns and _goes_on(agent.previous, reading):
                return agent
        shown = "\n".join(message.text for message in reading.messages)
        for agent in idle:
            told = agent.said.text.strip() if agent.said is not None else ""
            if len(told) > 40 and told in shown:
                return agent
        for agent in idle:
            is_same_session = agent.first.session == reading.session
            if is_same_session and (reading.session or not agent.has_tool_turns):
                return agent
        soon = [agent for agent in idle if step.at - (agent.answered_at or 0.0) < AT_ONCE_S]
        return max(soon, key=lambda agent: agent.answered_at or 0.0, default=None)


def _turn_of(agent: _Agent, reading: Reading) -> Turn:
    """Return the turn of the latest answer, with what the next request shows of its results."""
    assert agent.said is not None
    said, place = agent.said, reading.last
    is_shown = place >= 0 and _is_same(reading.messages[place], said)
    after = reading.messages[place + 1 :] if is_shown or reading.chain else []
    message = Message("assistant", said.text, said.calls)
    if is_shown and not said.calls:
        message = reading.messages[place]  # it may go on with what was observed
    elif not is_shown and not reading.chain and not said.calls and not agent.has_calls:
        after = reading.messages[-1:]  # another prompt, without a history or with all in one text
    turn = _turn(message, after, agent)
    if is_shown and turn.heard in agent.heard:
        return replace(turn, heard="")  # no user says the same again, but harnesses do
    agent.heard.add(turn.heard)
    return turn


def _turns(messages: Sequence[Message], agent: _Agent) -> list[Turn]:
    """Return the turns of a history."""
    places = [i for i, message in enumerate(messages) if message.role == "assistant"]
    return [
        _turn(messages[place], messages[place + 1 : end], agent)
        for place, end in pairwise([*places, len(messages)])
    ]


def _turn(message: Message, after: Iterable[Message], agent: _Agent) -> Turn:
    """Return an assistant's message with the results and texts that came after it."""
    after = list(after)
    agent.has_calls = agent.has_calls or bool(message.calls)
    told = "\n".join(one.text for one in after if one.role == "user" and one.text)
    heard = without_surroundings(told)
    if not agent.has_calls and (written := read_written(message.text)):
        result = last_observation(heard) or last_observation(message.text) or heard or None
        is_error = bool(result and ERROR.match(result))
        uses = tuple(Use(*call, result, is_error) for call in written)
        return Turn(CALL_BEGINS.split(message.text, 1)[0].strip(), uses)
    results = [result for one in (message, *after) for result in one.results]
    uses = []
    for call in message.calls:
        result = _result_of(call.id, call.name, results)
        if result is None:
            uses.append(Use(call.name, call.arguments))
        else:
            results.remove(result)
            is_error = result.is_error or bool(ERROR.match(result.text))
            uses.append(Use(call.name, call.arguments, result.text, is_error))
    return Turn(message.text, tuple(uses), heard)


def _result_of(id: str, name: str, results: Iterable[ToolResult]) -> ToolResult | None:
    """Return the result of a call; where calls have no ids, the first of the same tool."""
    for result in results:
        if result.call_id == id if id else result.name in (name, ""):
            return result
    return None
