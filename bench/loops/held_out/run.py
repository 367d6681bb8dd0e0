"""A run: turns of an agent, told as the requests that its harness would send."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from bench.loops.form import (
    BODIES,
    PATHS,
    Done,
    Entry,
    Frame,
    Json,
    Say,
    Tool,
    Use,
    output_item,
    share_messages,
)
from bench.loops.reply import answer
from bench.loops.scenario import Scenario, Step

WORD = string.ascii_letters + string.digits
SUMMARISE = (
    "Write a summary of this conversation for an agent that will go on with the work and has "
    "nothing else: the task, what was found, files that were touched, and the next step."
)
GO_ON = "The conversation so far was summarised to save room. Summary:\n\n"
CLEARED = "[Old tool result content cleared]"

_VARYING = re.compile(r"0x[0-9a-f]+|\b(?=[0-9a-f]*\d)[0-9a-f]{4,}\b|\d+")


@dataclass(frozen=True, slots=True)
class Act:
    """One use of a tool as a story tells it."""

    name: str
    args: Mapping[str, Any]
    result: str
    free_text: str = ""
    image: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """What the model says and does in one answer, and what comes after it."""

    text: str = ""
    acts: Sequence[Act] = ()
    says: str = ""
    """What a person or the harness says then."""
    wait: float = 0.0
    """Seconds until the next request; 0 stands for the time that a program takes."""
    system: str = ""
    """The instructions of the agent that gives this answer, if there are several."""


Flat = Callable[[str, Sequence[Use]], tuple[str, str]]
"""Writes a turn as plain text: that of the model, and that of the user message after it."""


@dataclass(frozen=True, slots=True)
class Harness:
    """What an agent or framework sends with each request."""

    name: str
    form: str
    model: str
    system: str
    tools: Sequence[Tool]
    stream: bool = False
    thinks: bool = False
    has_item_ids: bool = False
    flat: Flat | None = None
    extra: Callable[[Random], Json] = field(default=lambda _rng: {})
    headers: Callable[[Random], dict[str, str]] = field(default=lambda _rng: {})

    def frame(self, rng: Random) -> Frame:
        """Return what stays the same in all requests of a run."""
        return Frame(
            self.model,
            self.system,
            self.tools,
            self.extra(rng),
            stream=self.stream,
            thinks=self.thinks,
            has_item_ids=self.has_item_ids,
        )


@dataclass(frozen=True, slots=True)
class Plot:
    """A story before it is told: the task, and the turns of the agent."""

    task: str
    turns: Sequence[Turn]
    summary: Callable[[int], str] | None = None
    """What a compaction before turn n writes."""
    calls_count: bool = False
    """Whether a call that was not made before is new, though its result is not."""


@dataclass(frozen=True, slots=True)
class Label:
    """What a scenario is called and said to be."""

    name: str
    kind: str
    is_loop: bool
    shows: str = "whole"
    difficulty: str = "medium"


@dataclass(frozen=True, slots=True)
class Told:
    """A step, and what it shows that the steps before it of the same run did not."""

    step: Step
    shown: Sequence[str] = ()


def masked(text: str) -> str:
    """Return a text without digits and hexadecimal ids, which differ from time to time."""
    return _VARYING.sub("#", text)


def code(rng: Random, length: int) -> str:
    """Return a random id of letters and digits."""
    return "".join(rng.choices(WORD, k=length))


def hexes(rng: Random, length: int) -> str:
    """Return random hexadecimal digits; the first is one of ten, so that none is a word."""
    return rng.choice("0123456789") + "".join(rng.choices("0123456789abcdef", k=length - 1))


def uuid(rng: Random) -> str:
    """Return a random id in the form of a UUID."""
    return "-".join(hexes(rng, size) for size in (8, 4, 4, 4, 12))


def clock(rng: Random, at: float) -> str:
    """Return a time of day some seconds after the run began."""
    second = int(at) + 9 * 3600
    return f"{second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}.{rng.randint(0, 999)}"


class Teller:
    """Tells the turns of one agent as steps."""

    def __init__(self, harness: Harness, rng: Random, *, start: float = 0.0, caller: str = ""):
        self.harness, self.rng = harness, rng
        self.frame = harness.frame(rng)
        self.headers = {"content-type": "application/json", **harness.headers(rng)}
        self.caller = caller or "team"
        self.at = start
        self.told: list[Told] = []
        self._before: Json = {}

    def done(self, turn: Turn) -> Done:
        """Return a turn with the ids that the provider gives."""
        prefix = "toolu_01" if self.harness.form == "anthropic" else "call_"
        uses = [
            Use(
                prefix + code(self.rng, 22),
                act.name,
                act.args,
                act.result,
                act.free_text,
                json.dumps(dict(act.args)),
                act.image,
            )
            for act in turn.acts
        ]
        return Done(turn.text, uses, hexes(self.rng, 30))

    def send(self, entries: Iterable[Entry], done: Done, frame: Frame, **more: Any) -> None:
        """Send a request with these entries, and get this round as its answer."""
        harness = self.harness
        flat = harness.flat
        if flat is not None:
            entries = [one for entry in entries for one in flatten(entry, flat)]
            said = flat(done.text, [replace(use, result="") for use in done.uses])[0]
            done = Done(said, (), done.id)
        body = BODIES[harness.form](frame, entries)
        share_messages(body, self._before)
        self._before = body
        takes = round(self.rng.uniform(2.0, 14.0) + 0.002 * len(done.text), 2)
        reply = answer(harness.form, frame, done)
        path = PATHS[harness.form]
        step = Step(round(self.at, 2), takes, body, reply, path, self.headers, self.caller)
        self.told.append(Told(step, more.get("shown", ())))
        self.at += takes + (more.get("wait") or self.rng.uniform(0.05, 1.6))

    def tell(self, plot: Plot, shows: str = "whole") -> list[Told]:
        """Send a request for each turn, showing of the turns before what the harness shows."""
        keep = self.rng.randint(4, 6)
        every = self.rng.randint(7, 8)
        opening: list[Entry] = [Say("user", plot.task)]
        past: list[tuple[Turn, Done]] = []
        for number, turn in enumerate(plot.turns):
            if shows == "compacted" and number and number % every == 0:
                assert plot.summary is not None
                summary = plot.summary(number)
                asked = [*opening, *entries_of(past), Say("user", SUMMARISE)]
                written = Done(summary, (), hexes(self.rng, 30))
                self.send(asked, written, replace(self.frame, tools=()), shown=news(past))
                opening, past = [Say("user", f"{GO_ON}{plot.task}\n\n{summary}")], []
            done = self.done(turn)
            frame = replace(self.frame, system=turn.system) if turn.system else self.frame
            if shows == "kept":
                frame = replace(frame, extra={**frame.extra, "store": True})
            if shows == "kept" and past:
                last = past[-1][1]
                back = {**frame.extra, "previous_response_id": f"resp_{last.id}"}
                frame = replace(frame, extra=back)
                self._keep(past[-1], done, frame, turn)
            else:
                if shows == "trimmed":
                    entries = [*opening, *entries_of(past[-keep:])]
                elif shows == "elided":
                    old = [(one, _cleared(made)) for one, made in past[:-keep]]
                    entries = [*opening, *entries_of([*old, *past[-keep:]])]
                else:
                    entries = [*opening, *entries_of(past)]
                shown = news(past)
                if plot.calls_count and past:
                    shown += [str(act.args) for act in past[-1][0].acts]
                self.send(entries, done, frame, shown=shown, wait=turn.wait)
            past.append((turn, done))
        return self.told

    def _keep(self, last: tuple[Turn, Done], done: Done, frame: Frame, turn: Turn) -> None:
        """Send only what is new: the provider keeps the rest."""
        entries: list[Entry] = [Say("user", last[0].says)] if last[0].says else []
        before = len(self.told)
        self.send(entries, done, frame, shown=news([last]), wait=turn.wait)
        told = self.told[before]
        body = dict(told.step.body)
        body["input"] = [*(output_item(use) for use in last[1].uses), *body["input"]]
        self.told[before] = replace(told, step=replace(told.step, body=body))


def entries_of(past: Iterable[tuple[Turn, Done]]) -> list[Entry]:
    """Return turns as the entries of a history."""
    entries: list[Entry] = []
    for turn, done in past:
        entries.append(done)
        if turn.says:
            entries.append(Say("user", turn.says))
    return entries


def news(past: Sequence[tuple[Turn, Done]]) -> list[str]:
    """Return what the last turn brought."""
    if not past:
        return []
    turn = past[-1][0]
    shown = [act.result + act.image for act in turn.acts]
    return [*shown, turn.says] if turn.says else shown


def _cleared(done: Done) -> Done:
    return replace(done, uses=[replace(use, result=CLEARED, image="") for use in done.uses])


def flatten(entry: Entry, flat: Flat) -> list[Entry]:
    """Return an entry as messages of plain text."""
    if not isinstance(entry, Done):
        return [entry]
    said, heard = flat(entry.text, entry.uses)
    messages: list[Entry] = [Say("assistant", said)]
    return [*messages, Say("user", heard)] if heard else messages


def first_stale(told: Sequence[Told]) -> int:
    """Return the first step from which on nothing new is shown."""
    seen: set[str] = set()
    last = 0
    for index, one in enumerate(told):
        fresh = {masked(text) for text in one.shown} - seen
        if fresh:
            last = index
        seen |= fresh
    return last + 1


def scenario(label: Label, harness: str, told: Sequence[Told]) -> Scenario:
    """Return a scenario of these steps in the order of their times."""
    ordered = sorted(told, key=lambda one: one.step.at)
    return Scenario(
        label.name,
        label.kind,
        label.is_loop,
        [one.step for one in ordered],
        harness,
        first_stale(ordered) if label.is_loop else 0,
        label.shows,
        label.difficulty,
    )


def single(label: Label, harness: Harness, plot: Plot, rng: Random) -> Scenario:
    """Return the scenario of one agent."""
    return scenario(label, harness.name, Teller(harness, rng).tell(plot, label.shows))


def anywhere(story: Callable[[Random, str], Plot]) -> Callable[[Harness, Random, str], Plot]:
    """Return a story that is the same in each harness."""
    return lambda _harness, rng, style: story(rng, style)
