"""Loops across compactions, and honest runs like them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from bench.loops import harness as by
from bench.loops import story
from bench.loops.fleet import fleet
from bench.loops.form import Done, Entry, Frame, Item, Say
from bench.loops.harness import Harness, Run, tools_for
from bench.loops.scenario import Scenario
from bench.loops.world import CLOCK, TOOK, Act, Round, World

Segments = list[list[Round]]
Tell = Callable[[World, int, int], Segments]
"""Makes so many segments of so many rounds."""


# what happens in each segment


def _plan(world: World, *, done: int = 0) -> Act:
    marks = [("completed" if i < done else "pending", world.sentence(6)) for i in range(5)]
    return Act("plan", {"todos": [{"content": text, "status": state} for state, text in marks]}, "")


def look(world: World, count: int) -> list[Act]:
    """Return the acts with which an agent finds its way back: the plan, files, searches."""
    plan = world.read(f"{world.root}/PLAN.md", world.page())
    checked = f"{world.rng.randint(3, 90)} checks, 2 warnings, at {CLOCK} in {TOOK}s"
    check = partial(world.run, "make check", f"{world.sentence()}\n{checked}")
    others: list[Callable[[], Act]] = [world.read, check, world.read, world.grep, world.listing]
    return [plan, *(others[i % len(others)]() for i in range(count - 1))]


def rounds_of(world: World, acts: Sequence[Act]) -> list[Round]:
    """Return a round for each act."""
    return [Round(world.say("get back on track", "review where we are"), [act]) for act in acts]


def reread(world: World, count: int, size: int) -> Segments:
    """The same reads in each segment, and a plan in new words; then nothing."""
    acts = look(world, size - 1 if size > 2 else size)
    return [rounds_of(world, [*acts, _plan(world)] if size > 2 else acts) for _ in range(count)]


def reread_same_plan(world: World, count: int, size: int) -> Segments:
    """The same reads and the same plan in each segment."""
    acts = look(world, size)
    if size > 2:
        acts[-1] = _plan(world)
    return [rounds_of(world, acts) for _ in range(count)]


def same_failure(world: World, count: int, size: int) -> Segments:
    """One failing test in each segment, after the same reads in any order; no change."""
    failing = world.run(world.test_command(), world.failure(), 1)
    acts = look(world, max(size - 1, 1))
    segments = []
    for _ in range(count):
        head = acts[:1] + world.rng.sample(acts[1:], len(acts) - 1)
        segments.append(rounds_of(world, [*head, failing][-size:]))
    return segments


def stale_edit(world: World, count: int, size: int) -> Segments:
    """One change in each segment that was made long ago, and so fails."""
    error = "Error: the text to replace was not found in the file."
    change = replace(world.edit(), result=error)
    acts = [*look(world, max(size - 1, 1)), change][-size:]
    return [rounds_of(world, acts) for _ in range(count)]


def reread_then_edit(every: int) -> Tell:
    """The same reads in each segment, then, in every so many, a new change."""

    def tell(world: World, count: int, size: int) -> Segments:
        acts, path, test = look(world, max(size - 2, 1)), world.file(), world.test_command()
        segments = []
        for index in range(count):
            work = [_plan(world)]
            if index % every == 0:
                work = [world.edit(path), world.run(test, world.failure(), 1)]
            segments.append(rounds_of(world, [*acts, *work]))
        return segments

    return tell


def ticked_plan(world: World, count: int, size: int) -> Segments:
    """The plan is read in each segment, and has one more entry ticked; then new work."""
    path = f"{world.root}/PLAN.md"
    todos, segments = [world.sentence() for _ in range(count + 2)], []
    for index in range(count):
        text = "\n".join(f"- [{'x' if n < index else ' '}] {t}" for n, t in enumerate(todos))
        fresh = [world.edit(), *(story.look_around(world) for _ in range(size - 1))]
        segments.append(
            rounds_of(world, [world.read(path, text), *fresh][:size] if size > 1 else fresh)
        )
    return segments


def cut(tell: Callable[[World, int], list[Round]]) -> Tell:
    """Cut a story without segments into some."""

    def cut_up(world: World, count: int, size: int) -> Segments:
        rounds = tell(world, count * size)
        return [rounds[i : i + size] for i in range(0, len(rounds), size)]

    return cut_up


def tickets(world: World, count: int, size: int) -> Segments:
    """A new ticket in each segment, with some calls that are equal in all."""
    policy = Act("get_policy", {"topic": "refunds"}, world.prose(5))
    shifts = Act("get_opening_hours", {}, json.dumps({"mon-fri": "9-17", "sat": "10-14"}))
    segments = []
    for _ in range(count):
        ticket = f"TCK-{world.rng.randrange(10**6)}"
        told = json.dumps({"id": ticket, "text": world.prose(2), "customer": world.new_name()})
        acts = [
            Act("get_ticket", {"id": ticket}, told),
            policy,
            Act("get_orders", {"customer": world.new_name()}, world.prose(2)),
            shifts,
            Act("reply", {"id": ticket, "text": world.prose(2)}, '{"sent": true}'),
        ]
        acts = [*acts[: max(size - 1, 1)], acts[-1]]
        segments.append([Round(world.say("handle the ticket"), [act]) for act in acts])
    return segments


# compactions


def _summary(run: Run, task: str) -> str:
    """Return a summary of a run: what it looked at, never twice in the same words."""
    world = run.world
    looked_at = {
        str(value)
        for entry in _tail(run, 6)
        if isinstance(entry, Done)
        for use in entry.uses
        for name, value in use.args.items()
        if "path" in name or name in ("filePath", "command", "url")
    }
    names = world.rng.sample(sorted(looked_at), min(3, len(looked_at)))
    parts = [
        f"1. Request: {task.split('.')[0]}.",
        f"2. {world.rng.choice(['State', 'Progress so far', 'Where we are'])}: {world.prose(2)}",
        f"3. {world.rng.choice(['Looked at', 'Of interest', 'Seen'])}: {'; '.join(names)}",
        f"4. {world.rng.choice(['Next step', 'To do next', 'Pending'])}: {world.prose(2)}",
    ]
    return "\n".join(parts)


@dataclass(frozen=True, slots=True)
class Compaction:
    """How a harness replaces a history by a summary, and asks for one."""

    question: str
    rebuild: Callable[[Run, str, str], list[Entry]]
    """The new history from the run, the task and the summary."""
    system: str | None = None
    """The system prompt of the request for a summary; None is the agent's own."""
    is_quoted: bool = False
    """Whether the request has the history as one quoted text."""

    def ask(self, run: Run, summary: str) -> None:
        frame: Frame = run.without_tools(run.system if self.system is None else self.system)
        entries: list[Entry] = [*run.history, Say("user", self.question)]
        if self.is_quoted:
            quoted = "\n".join(_quote(entry) for entry in run.history)
            entries = [Say("user", f"{self.question}\n\n<messages>\n{quoted}\n</messages>")]
        run.send(entries, run.perform(Round(summary)), frame=frame)


def _quote(entry: Entry) -> str:
    if isinstance(entry, Done):
        return "\n".join([f"AI: {entry.text}", *(f"Tool: {use.result}" for use in entry.uses)])
    return f"Human: {entry.text}" if isinstance(entry, Say) else ""


def _tail(run: Run, rounds: int) -> Sequence[Entry]:
    return [entry for entry in run.history if isinstance(entry, Done)][-rounds:]


def _claude_rebuild(run: Run, _task: str, summary: str) -> list[Entry]:
    said = (
        "This session is being continued from a previous conversation that ran out of context. "
        f"The conversation is summarized below:\n{summary}\n\n"
        "Please continue from where we left it off without further questions."
    )
    return [*run.preface, Say("user", said)]


def _codex_rebuild(run: Run, task: str, summary: str) -> list[Entry]:
    said = (
        "Another language model started to solve this problem and produced a summary of its "
        f"thinking process. Build on it:\n{summary}"
    )
    return [*run.preface, Say("user", task), Say("user", said)]


def _sealed_rebuild(run: Run, task: str, _summary: str) -> list[Entry]:
    sealed = f"gAAAAAB{run.world.hex(400)}"
    fields = {"type": "compaction", "encrypted_content": sealed}
    return [*run.preface, Say("user", task), Item(fields)]


def _gemini_rebuild(run: Run, _task: str, summary: str) -> list[Entry]:
    goal, _, rest = summary.partition("\n")
    snapshot = (
        f"<state_snapshot>\n<overall_goal>{goal}</overall_goal>\n"
        f"<key_knowledge>{rest}</key_knowledge>\n</state_snapshot>"
    )
    thanks = Say("assistant", "Got it. Thanks for the additional context!")
    return [*run.preface, Say("user", snapshot), thanks, Say("user", "Please continue.")]


def _opencode_rebuild(_run: Run, _task: str, summary: str) -> list[Entry]:
    return [
        Say("user", "What did we do so far?"),
        Say("assistant", summary),
        Say("user", "Continue if you have next steps"),
    ]


def _langchain_rebuild(run: Run, _task: str, summary: str) -> list[Entry]:
    said = f"Here is a summary of the conversation to date:\n\n{summary}"
    return [Say("user", said), *_tail(run, 2)]


def _openhands_rebuild(run: Run, task: str, summary: str) -> list[Entry]:
    return [Say("user", task), Say("user", f"<SUMMARY>\n{summary}\n</SUMMARY>"), *_tail(run, 2)]


_CLAUDE = Compaction(
    "Your task is to create a detailed summary of the conversation so far.",
    _claude_rebuild,
    system="You are a helpful AI assistant tasked with summarizing conversations.",
)
_CODEX = Compaction(
    "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary.", _codex_rebuild
)
_SEALED = replace(_CODEX, rebuild=_sealed_rebuild)
_GEMINI = Compaction(
    "First, reason in your scratchpad. Then, generate the <state_snapshot>.",
    _gemini_rebuild,
    system="You summarize the history of a chat into a <state_snapshot>.",
)
_OPENCODE = Compaction(
    "Provide a detailed prompt for continuing our conversation above.", _opencode_rebuild
)
_LANGCHAIN = Compaction(
    "Extract the most important context from the history below.",
    _langchain_rebuild,
    system="",
    is_quoted=True,
)
_OPENHANDS = Compaction(
    "Summarize the state of this agent for its own later use.",
    _openhands_rebuild,
    system="",
    is_quoted=True,
)


@dataclass(frozen=True, slots=True)
class Case:
    """A loop over segments, and honest runs like it, in the form of one harness."""

    harness: Harness
    compaction: Compaction
    loop: Tell
    twins: Sequence[Tell]
    size: int
    width: int = 1
    """How many calls each answer has."""
    asks: bool = False
    """Whether the request for a summary goes the same way as all others."""
    is_named: bool = True


def scenarios(seed: int = 0) -> list[Scenario]:
    """Return the scenarios of the kind `compacted`."""
    new_edit, second_edit = reread_then_edit(1), reread_then_edit(2)
    research, building = cut(story.research), cut(story.watch_build)
    polling, retesting = cut(story.poll), cut(story.retest)
    claude, codex, gemini = by.CLAUDE_CODE, by.CODEX, by.GEMINI_CLI
    sealed = replace(codex, name="codex-remote")
    cases = [
        Case(claude, _CLAUDE, reread, [new_edit, research], 4, asks=True),
        Case(claude, _CLAUDE, same_failure, [second_edit, retesting], 8),
        Case(claude, _CLAUDE, reread_same_plan, [ticked_plan], 1, asks=True, is_named=False),
        Case(codex, _CODEX, reread_same_plan, [new_edit, building], 3, asks=True),
        Case(codex, _CODEX, same_failure, [second_edit, retesting], 15),
        Case(sealed, _SEALED, stale_edit, [new_edit, ticked_plan], 4),
        Case(sealed, _SEALED, reread, [research], 8, is_named=False),
        Case(gemini, _GEMINI, reread, [second_edit, polling], 4, asks=True, is_named=False),
        Case(gemini, _GEMINI, stale_edit, [ticked_plan], 3, is_named=False),
        Case(by.OPENCODE, _OPENCODE, same_failure, [new_edit, building], 4, asks=True),
        Case(by.OPENCODE_CLAUDE, _OPENCODE, reread, [second_edit], 15, is_named=False),
        Case(by.LANGCHAIN, _LANGCHAIN, reread, [new_edit, research], 3, asks=True, is_named=False),
        Case(by.LANGCHAIN_CLAUDE, _LANGCHAIN, same_failure, [retesting], 8, is_named=False),
        Case(by.OPENHANDS, _OPENHANDS, same_failure, [building], 1, asks=True),
        Case(by.OPENHANDS, _OPENHANDS, reread_same_plan, [second_edit, polling], 8),
        Case(claude, _CLAUDE, reread, [new_edit, research], 9, width=3),
    ]
    found = []
    for number, case in enumerate(cases):
        for which, tell in enumerate([case.loop, *case.twins]):
            is_loop = which == 0
            end = "loop" if is_loop else f"twin{which}"
            name = f"compacted-{number:02}-{case.harness.name}-{end}"
            world = World(random.Random(f"{seed}/{name}"))
            steps = case.size / case.width + case.asks
            least, most = (36, 110) if is_loop else (22, 58)
            honest = world.rng.randint(0, 2) if steps < 10 else 0
            count = round(world.rng.randint(least, most) / steps) - honest
            count = max(4 if is_loop else 3, count)
            lead = cut(story.progress)(world, honest, case.size)
            told = lead + tell(world, count, case.size)
            segments = [story.widen(rounds, case.width) for rounds in told]
            run = new_run(case.harness, world, segments, number, is_named=case.is_named)
            _play_compacted(run, segments, case)
            before = segments[: len(lead) + 1]
            begins = sum(len(rounds) + case.asks for rounds in before) if is_loop else 0
            found.append(Scenario(name, "compacted", is_loop, run.steps, case.harness.name, begins))
    for number, case in enumerate([cases[0], cases[7], cases[11]]):
        play = partial(_play_halves, case=case)
        found.append(fleet("compacted", seed, number, case.harness, play))
    return [*found, *_ticket_workers(seed)]


def _play_halves(run: Run, rounds: list[Round], case: Case) -> None:
    half = len(rounds) // 2
    _play_compacted(run, [rounds[:half], rounds[half:]], case)


def new_run(
    harness: Harness, world: World, segments: Segments, number: int, *, is_named: bool = True
) -> Run:
    tools = tools_for(one for segment in segments for one in segment)
    return Run(harness, world, is_noisy=number % 2 == 1, is_named=is_named, other_tools=tools)


def _play_compacted(run: Run, segments: Segments, case: Case) -> None:
    task = run.world.task()
    run.begin(task)
    for index, rounds in enumerate(segments):
        run.follow(rounds)
        if index == len(segments) - 1:
            break
        summary = _summary(run, task)
        if case.asks:
            case.compaction.ask(run, summary)
        run.history = case.compaction.rebuild(run, task, summary)


def _ticket_workers(seed: int) -> list[Scenario]:
    """Return honest workers with one session for all tickets, and no compaction."""
    found = []
    workers = [
        (by.CLAUDE_CODE, True),
        (by.CODEX, False),
        (by.OPENCODE, True),
        (by.LANGCHAIN, False),
        (by.ADK, True),
    ]
    for number, (harness, starts_anew) in enumerate(workers):
        name = f"compacted-worker{number}-{harness.name}-twin1"
        world = World(random.Random(f"{seed}/{name}"))
        segments = tickets(world, world.rng.randint(5, 10), world.rng.randint(3, 5))
        run = new_run(harness, world, segments, number)
        for rounds in segments:
            ask = f"Handle the next ticket: {world.sentence()}"
            if starts_anew or not run.history:
                run.begin(ask)
            else:
                run.history.append(Say("user", ask))
            run.follow([*rounds, Round(f"Done. {world.sentence()}")])
        found.append(Scenario(name, "compacted", False, run.steps, harness.name))
    return found
