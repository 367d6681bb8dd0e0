"""Turns runs into scenarios: each plot in several forms, with all or a part of the history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from bench.loops.scenario import Scenario, Step
from bench.loops.scenes.client import CLIENTS, Client
from bench.loops.scenes.run import Run, Turn
from bench.loops.scenes.wire import Asked, Note, Setting, answer, body, path
from bench.loops.scenes.world import hexes, uuid


@dataclass(frozen=True, slots=True)
class Plot:
    """A story that is told once in each of these forms: `form` or `form/view`."""

    kind: str
    runs: Callable[[Random], Sequence[Run]]
    forms: str


def scenarios_of(plots: Iterable[Plot], seed: int) -> list[Scenario]:
    """Return the scenarios of all plots: loops and their twins from the same draw."""
    return [
        scenario
        for plot in plots
        for number, form in enumerate(plot.forms.split())
        for scenario in _told(plot, form, number, seed)
    ]


def _told(plot: Plot, form: str, number: int, seed: int) -> Iterator[Scenario]:
    client_name, _, view = form.partition("/")
    rng = Random(f"{seed} {plot.kind} {number}")
    for place, run in enumerate(plot.runs(rng)):
        part = "loop" if run.begins is not None else "honest"
        own = run.view or view or "whole"
        name = f"{plot.kind}-{client_name}-{own}-{number}-{part}-{place}"
        steps = steps_of(run, CLIENTS[client_name], own, Random(f"{seed} {name}"))
        yield Scenario(
            name,
            plot.kind,
            run.begins is not None,
            steps,
            client_name,
            run.begins or 0,
            "prompt" if own == "alone" else own,
            run.difficulty,
        )


def steps_of(run: Run, client: Client, view: str, rng: Random) -> list[Step]:
    """Return the requests of a run in the form of a client."""
    session = uuid(rng)
    headers = client.headers(rng, session)
    opening = Note("user", run.task) if run.task else None
    setting = Setting(
        client.dialect,
        client.model,
        "\n\n".join(text for text in (client.system, run.system) if text),
        _tools(run, client),
        client.stream,
        {**client.extra(rng, session), **run.extra},
    )
    told: list[list[Note]] = []
    blanks: list[list[Note]] = []
    steps: list[Step] = []
    at, previous = 0.0, ""
    pace = rng.choice((1, 1, 1, 1, 1, 1, 12))
    for turn in run.turns:
        notes = _shown([opening] if opening else [], told, blanks, view, run)
        kept = view == "kept" and previous
        if kept:
            notes = told[-1][1:]
        spoken, block = _block(turn, client, rng, at)
        id = {"chat": "chatcmpl-", "messages": "msg_", "responses": "resp_", "gemini": ""}[
            client.dialect
        ] + hexes(rng, 24)
        if turn.system:
            setting = replace(setting, system=turn.system)
        made = body(setting, notes, previous if kept else "")
        said = b"" if turn.lost else answer(setting, spoken, id)
        takes = turn.takes * pace * rng.uniform(0.7, 1.4)
        steps.append(Step(round(at, 3), round(takes, 3), made, said, path(setting), headers))
        if run.apart is not None:
            at += run.apart * rng.uniform(0.98, 1.02)
        else:
            worked = sum(act.took for act in turn.acts)
            at += takes + worked + turn.wait * rng.uniform(0.7, 1.3) + 0.05
        if not turn.lost:
            told.append(block)
            blanks.append([_elide(note, client) for note in block])
            previous = id
    return steps


def _tools(run: Run, client: Client) -> Sequence[tuple[str, tuple[str, ...]]]:
    if client.written is not None:
        return ()
    found: dict[str, dict[str, None]] = {}
    for act in (act for turn in run.turns for act in turn.acts):
        name, args = client.calls(act)
        found.setdefault(name, {}).update(dict.fromkeys(args))
    return tuple((name, tuple(found[name])) for name in sorted(found))


def _block(turn: Turn, client: Client, rng: Random, at: float) -> tuple[Note, list[Note]]:
    """Return the answer of a turn, and all that the history has of the turn."""
    asked = [client.calls(act) for act in turn.acts]
    results = [client.result(act, rng, at) for act in turn.acts]
    if client.reminds and results and rng.random() < 0.17:
        results[-1] += client.reminds
    if client.written is not None:
        said = client.thinks + turn.say if turn.say else ""
        said += "".join(client.written(name, args) for name, args in asked)
        notes = [spoken := Note("agent", said.strip())]
        if client.observes:
            notes = [spoken.with_text(spoken.text + "".join(results))]
        else:
            notes += [Note("user", text) for text in results]
    else:
        calls = tuple(Asked(_call_id(client, rng), name, args) for name, args in asked)
        notes = [spoken := Note("agent", turn.say, calls, name=turn.speaker)]
        notes += [
            Note("tool", text, (), call.id, call.name, act.image, bool(act.code))
            for act, call, text in zip(turn.acts, calls, results, strict=True)
        ]
    reply = client.idle if turn.reply == "idle" else turn.reply
    if reply:
        notes.append(Note("user", reply, name=turn.says_as))
    return spoken, notes


def _call_id(client: Client, rng: Random) -> str:
    return ("toolu_01" if client.dialect == "messages" else "call_") + hexes(rng, 20)


def _shown(
    opening: list[Note], told: list[list[Note]], blanks: list[list[Note]], view: str, run: Run
) -> list[Note]:
    """Return what a request has of the history; `blanks` are its turns without results."""
    match view:
        case "alone" if told:
            return told[-1][-1:]
        case "trimmed":
            told = told[-(run.every or 6) :]
        case "elided":
            old = max(0, len(told) - (run.every or 5))
            told = blanks[:old] + told[old:]
        case "compacted":
            every = run.every or 12
            cuts = len(told) // every
            if cuts:
                summary = run.summaries[min(cuts, len(run.summaries)) - 1]
                opening = [Note("user", f"{_CONTINUED}\n\n{summary}\n\nThe task: {run.task}")]
                told = told[cuts * every :]
    return opening + [note for block in told for note in block]


def _elide(note: Note, client: Client) -> Note:
    is_result = note.who == "tool" or (client.written is not None and note.who == "user")
    return note.with_text(client.elided) if is_result else note


_CONTINUED = (
    "This session is being continued from a previous conversation that ran out of context. "
    "The conversation is summarized below:"
)
