"""Loops across requests, and honest runs like them: cut, elided and kept histories.

`segment` has the compacted histories, `restart` the agents that are started anew.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from bench.loops import harness as by
from bench.loops import restart, segment, story
from bench.loops.fleet import fleet
from bench.loops.form import Done, Entry, Item, Say, output_item
from bench.loops.harness import Harness, Run, View, tools_for
from bench.loops.label import label
from bench.loops.scenario import Scenario
from bench.loops.world import Round, World

KINDS = ("trimmed", "elided", "compacted", "kept", "restarts")

SESSION_LIMIT = "session limit"
"""A mode: each round is a run of its own, and only the last items of the session are sent."""
CONVERSATION = "conversation"
"""A mode: the provider keeps the history under a name, and not by the last answer."""

Tell = Callable[[World, int], list[Round]]


def scenarios(seed: int = 0) -> list[Scenario]:
    """Return the loops and honest runs of all kinds; other seeds draw other texts and lengths."""
    found = [
        *_trimmed(seed),
        *_elided(seed),
        *_kept(seed),
        *segment.scenarios(seed),
        *restart.scenarios(seed),
    ]
    return label(found)


@dataclass(frozen=True, slots=True)
class Case:
    """One loop, and the honest runs that look like it, in the form of one harness."""

    harness: Harness
    loop: Callable[..., story.Loop]
    twins: Sequence[Tell]
    size: int = 0
    """How many rounds, or results, are kept."""
    keeps_first: bool = True
    placeholder: str = ""
    batch: int = 1
    """How many results are elided at once."""
    mode: str = ""
    wording: str = "new"
    width: int = 1
    """How many calls each answer has."""


def _cycle(size: int) -> tuple[Callable[..., story.Loop], Tell]:
    return story.cycle(size), story.cycle_with_edit(size)


_TWO, _TWO_HONEST = _cycle(2)
_THREE, _THREE_HONEST = _cycle(3)
_FOUR, _FOUR_HONEST = _cycle(4)
_FIVE, _FIVE_HONEST = _cycle(5)


def _tell(
    kind: str, seed: int, cases: Sequence[Case], play: Callable[[Run, list[Round], Case], None]
) -> list[Scenario]:
    """Return the scenarios of a kind: `play` sends the rounds as the case says."""
    found = []
    for number, case in enumerate(cases):
        for which in range(1 + len(case.twins)):
            name = f"{kind}-{number:02}-{case.harness.name}-{f'twin{which}' if which else 'loop'}"
            world = World(random.Random(f"{seed}/{name}"))
            rounds, begins = _honest(world, case, which - 1) if which else _loop(world, case)
            tools = tools_for(rounds)
            run = Run(case.harness, world, is_noisy=number % 2 == 1, other_tools=tools)
            run.begin(world.task())
            play(run, rounds, case)
            begins = begins * len(run.steps) // len(rounds)
            found.append(Scenario(name, kind, not which, run.steps, case.harness.name, begins))
    return found


def _loop(world: World, case: Case) -> story.Loop:
    count, lead = world.rng.randint(30, 110), world.rng.randint(1, 12)
    if case.mode == SESSION_LIMIT:
        count, lead = max(15, count // 2), lead // 2
    rounds, begins = case.loop(world, count * case.width, wording=case.wording, lead=lead)
    return story.widen(rounds, case.width), -(-begins // case.width)


def _honest(world: World, case: Case, which: int) -> story.Loop:
    count = world.rng.randint(20, 55) * case.width // (2 if case.mode == SESSION_LIMIT else 1)
    lead = world.rng.randint(1, 6)
    rounds = story.opening(world, lead) + case.twins[which](world, count - lead)
    return story.widen(rounds, case.width) + story.closing(world), 0


# trimmed: only the last rounds are sent


def _window(size: int, keeps_first: bool, first: int) -> View:
    def view(history: Sequence[Entry]) -> Sequence[Entry]:
        head, rounds = history[:first], history[first:]
        return [*(head if keeps_first else []), *rounds[-size:]] if rounds else head

    return view


def _play_trimmed(run: Run, rounds: list[Round], case: Case) -> None:
    if case.mode == SESSION_LIMIT:
        _play_session_limit(run, rounds, case)
    else:
        run.follow(rounds, _window(case.size, case.keeps_first, len(run.history)))


def _play_session_limit(run: Run, rounds: list[Round], case: Case) -> None:
    """Begin a run for each round, with the last items of the session before its input."""
    said: list[Entry] = []
    for one in rounds:
        asked = Say("user", "Continue with the next step.") if said else run.history[-1]
        kept = [*said[-case.size :], asked]
        done = run.perform(replace(one, text=""))
        summed_up = run.perform(Round(f"{one.text} {run.world.sentence()}"))
        run.send(kept, done)
        run.send([*kept, done], summed_up)
        said += [asked, done, summed_up]


def _trimmed(seed: int) -> list[Scenario]:
    cases = [
        Case(by.LANGCHAIN, story.same_call, [story.watch_build, story.retest, story.serve], 2),
        Case(by.LANGCHAIN, _TWO, [_TWO_HONEST, story.queue], 4, keeps_first=False),
        Case(by.LANGCHAIN_CLAUDE, _THREE, [_THREE_HONEST, story.stubborn_bugs], 6),
        Case(by.LANGCHAIN, _FOUR, [_FOUR_HONEST], 6, keeps_first=False, wording="same"),
        Case(by.PYDANTIC_AI, _FIVE, [_FIVE_HONEST, story.bisect], 6),
        Case(by.AUTOGEN, story.revert, [story.mutation_test], 4, keeps_first=False),
        Case(by.AGENTS_SDK, story.revert, [story.mutation_test, story.progress], 6),
        Case(by.ADK, story.variants, [story.sweep], 2),
        Case(by.LOCAL, story.variants, [story.sweep, story.slow_poll], 2, keeps_first=False),
        Case(by.MINI_SWE, _THREE, [_THREE_HONEST, story.stubborn_bugs], 4),
        Case(by.MINI_SWE, story.same_call, [story.retest], 2, wording="same"),
        Case(by.AGENTS_SDK, story.same_call, [story.retest], 4, mode=SESSION_LIMIT),
        Case(by.ADK, _TWO, [_TWO_HONEST, story.poll], 2, wording="none"),
        Case(by.LANGCHAIN_CLAUDE, story.same_search, [story.research, story.paging], 2),
        Case(by.AUTOGEN, story.same_read, [story.flaky], 2, keeps_first=False, wording="none"),
        Case(by.AGENTS_SDK, _FIVE, [_FIVE_HONEST, story.queue], 4, keeps_first=False),
        Case(by.LANGCHAIN_CLAUDE, _FOUR, [_FOUR_HONEST, story.paging], 4, width=2),
        Case(by.ADK, story.same_error, [story.flaky], 2),
        Case(by.PYDANTIC_AI, story.reworded_search, [story.research], 2),
    ]
    fleets = [
        fleet("trimmed", seed, number, case.harness, partial(_play_trimmed, case=case))
        for number, case in enumerate(cases[:2] + cases[9:10])
    ]
    return _tell("trimmed", seed, cases, _play_trimmed) + fleets


# elided: all calls are sent, but only the last results


def _elide(case: Case) -> View:
    elided: dict[str, Done] = {}

    def without_results(entry: Done) -> Done:
        if entry.id not in elided:
            uses = [
                replace(use, result=case.placeholder.format(lines=use.result.count("\n") + 1))
                for use in entry.uses
            ]
            elided[entry.id] = replace(entry, uses=uses)
        return elided[entry.id]

    def view(history: Sequence[Entry]) -> Sequence[Entry]:
        total = sum(isinstance(entry, Done) for entry in history)
        gone = max(0, total - case.size) // case.batch * case.batch
        sent: list[Entry] = []
        for entry in history:
            if isinstance(entry, Done) and gone > 0:
                gone -= 1
                entry = without_results(entry)
            sent.append(entry)
        return sent

    return view


def _play_elided(run: Run, rounds: list[Round], case: Case) -> None:
    run.follow(rounds, _elide(case))


def _elided(seed: int) -> list[Scenario]:
    old = "Old environment output: ({lines} lines omitted)"
    cleared = "[Old tool result content cleared]"
    short = "[cleared]"
    omitted = "<tool result omitted>"
    masked = "<tool_output_masked>\n{lines} lines\n</tool_output_masked>"
    cases = [
        Case(by.SWE_AGENT, story.same_call, [story.retest, story.watch_build], 5, placeholder=old),
        Case(by.SWE_AGENT, _THREE, [_THREE_HONEST, story.stubborn_bugs], 5, placeholder=old),
        Case(by.CLAUDE_CODE, _TWO, [_TWO_HONEST, story.poll], 3, placeholder=cleared, batch=4),
        Case(
            by.CLAUDE_CODE, story.revert, [story.mutation_test, story.serve], 5, placeholder=cleared
        ),
        Case(by.OPENCODE, _FOUR, [_FOUR_HONEST, story.bisect], 5, placeholder=cleared, batch=6),
        Case(by.OPENCODE_CLAUDE, story.variants, [story.sweep], 3, placeholder=cleared),
        Case(by.LANGCHAIN, story.same_search, [story.paging, story.queue], 3, placeholder=short),
        Case(by.LANGCHAIN_CLAUDE, _FIVE, [_FIVE_HONEST, story.flaky], 3, placeholder=short),
        Case(by.OPENHANDS, _TWO, [_TWO_HONEST, story.slow_poll], 5, placeholder="<MASKED>"),
        Case(by.AGENTS_SDK, story.same_read, [story.poll, story.retest], 1, placeholder=omitted),
        Case(by.ADK, story.revert, [story.mutation_test, story.poll], 1, placeholder=omitted),
        Case(by.GEMINI_CLI, _THREE, [_THREE_HONEST, story.watch_build], 3, placeholder=masked),
        Case(by.MINI_SWE, story.same_call, [story.retest], 1, placeholder=old, wording="same"),
        Case(by.MINI_SWE, story.variants, [story.sweep, story.stubborn_bugs], 3, placeholder=old),
        Case(by.LOCAL, _TWO, [_TWO_HONEST, story.progress], 1, placeholder=omitted),
        Case(by.CLAUDE_CODE, _FOUR, [_FOUR_HONEST], 3, placeholder=cleared, width=2),
        Case(by.ADK, story.same_error, [story.flaky], 1, placeholder=omitted),
        Case(by.OPENCODE, story.reworded_search, [story.research], 3, placeholder=cleared),
    ]
    fleets = [
        fleet("elided", seed, number, case.harness, partial(_play_elided, case=case))
        for number, case in enumerate(cases[:3])
    ]
    return _tell("elided", seed, cases, _play_elided) + fleets


# kept: the provider has the history, a request has only what is new


def _play_kept(run: Run, rounds: list[Round], case: Case) -> None:
    """Send each request with the results of the last answer; every second case streams."""
    fresh: list[Entry] = [*run.history]
    name = f"conv_{run.world.hex(48)}"
    kept: dict[str, Any] = {}
    if case.mode == CONVERSATION:
        kept = {"conversation": name if run.harness.stream else {"id": name}}
    for one in rounds:
        done = run.perform(one)
        frame = replace(run.frame(), extra={**run.extra, "store": True, **kept})
        run.send(fresh, done, frame=frame)
        fresh = [Item(output_item(use)) for use in done.uses]
        fresh = fresh or [Say("user", run.world.sentence())]
        if case.mode != CONVERSATION:
            kept = {"previous_response_id": f"resp_{done.id}"}


def _kept(seed: int) -> list[Scenario]:
    agents = replace(by.AGENTS_SDK, stream=True)
    direct = by.RESPONSES_LOOP
    custom = replace(
        by.CODEX,
        name="responses-custom-tools",
        name_session=lambda _: ({}, {}),
        preface=lambda _: [],
        extra={},
    )
    langchain = replace(by.AGENTS_SDK, name="langchain-responses", model="gpt-4.1")
    cases = [
        Case(agents, story.same_call, [story.watch_build, story.retest]),
        Case(direct, story.same_search, [story.paging, story.poll]),
        Case(direct, _TWO, [_TWO_HONEST], mode=CONVERSATION),
        Case(agents, _THREE, [_THREE_HONEST, story.serve], mode=CONVERSATION, wording="none"),
        Case(custom, story.revert, [story.mutation_test, story.stubborn_bugs]),
        Case(langchain, _FOUR, [_FOUR_HONEST]),
        Case(langchain, story.variants, [story.sweep, story.paging], wording="none"),
        Case(custom, _FIVE, [_FIVE_HONEST, story.bisect]),
        Case(replace(custom, stream=False), _TWO, [_TWO_HONEST, story.watch_build], wording="none"),
        Case(direct, story.same_read, [story.flaky, story.slow_poll], wording="none"),
        Case(agents, _FOUR, [_FOUR_HONEST, story.research], width=2),
        Case(direct, story.same_error, [story.flaky]),
        Case(agents, story.reworded_search, [story.research], mode=CONVERSATION),
    ]
    fleets = [
        fleet("kept", seed, number, case.harness, partial(_play_kept, case=case))
        for number, case in enumerate(cases[:3])
    ]
    return _tell("kept", seed, cases, _play_kept) + fleets
