"""Scenarios of several agents: two that talk, one that delegates, one that is started afresh."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from bench.loops.form import Done, Frame, Json, Tool, Use
from bench.loops.reply import answer
from bench.loops.scenario import Scenario, Step
from bench.loops.tales.frameworks import HARNESSES
from bench.loops.tales.noise import Noise
from bench.loops.tales.projects import Project, look_around, pick_project, source
from bench.loops.tales.stage import path_of
from bench.loops.tales.tale import Round, Tale, read
from bench.loops.tales.wire import Got, answered, request, returned, told

Made = tuple[list[Step], int]


class Line:
    """Sends the requests of one or more agents of a harness, one after the other."""

    def __init__(self, rng: Random, harness: str) -> None:
        self.rng, self.noise = rng, Noise(rng)
        self.harness = HARNESSES[harness]
        self.steps: list[Step] = []
        self.at = 0.0
        self.session = self.noise.uuid()

    def frame(self, system: str, tale: Tale | None = None) -> Frame:
        whole = self.harness.frame(tale or Tale("", ()), self.noise, self.session)
        return replace(whole, system=system or whole.system)

    def send(self, frame: Frame, messages: list[Json], done: Done, **headers: str) -> None:
        takes = round(self.rng.uniform(2.0, 12.0), 2)
        self.steps.append(
            Step(
                round(self.at, 2),
                takes,
                request(self.harness.dialect, frame, messages),
                answer(self.harness.dialect, frame, done),
                path_of(self.harness),
                {**self.harness.headers(self.session), **headers},
            )
        )
        self.at += takes + self.rng.uniform(0.2, 1.5)


PLACES = ("cellar", "attic", "stairs", "yard", "kitchen", "roof", "hall", "lift", "laundry", "shed")


def _exchange(rng: Random, number: int) -> str:
    place, cost = PLACES[number % len(PLACES)], rng.randrange(200, 9000)
    return rng.choice(
        (
            f"For the {place} I count {cost} euros; that is {rng.randrange(2, 30)} days of work.",
            f"The {place} needs {rng.randrange(3, 80)} square metres of board. I would wait until "
            f"week {rng.randrange(2, 50)}.",
            f"You forgot the {place}: its doors are {rng.randrange(60, 110)} cm wide. Add {cost}.",
            f"Agreed on the {place}, if the price stays under {cost}.",
        )
    )


THANKS = (
    "Thank you so much for your kind words! It was a pleasure to work with you on this.",
    "You're very welcome! Thank you too, it was a pleasure to work with you as well.",
    "Thank you! I'm glad that we could finish this together. Have a wonderful day!",
    "Thanks again! Have a wonderful day too, and do not hesitate to reach out.",
)


def _talk(line: Line, lines: Sequence[str]) -> list[Step]:
    """Two agents speak in turn; each sees the other's words as those of a user."""
    names = ("surveyor", "builder")
    task = "Plan the renovation of the house together, and agree on a budget."
    said: list[tuple[str, str]] = []
    for number, text in enumerate(lines):
        me = names[number % 2]
        frame = line.frame(f"You are the {me} of a team of two. Speak with your colleague.")
        seen = told(line.harness.dialect, task)
        for who, words in said:
            role = "assistant" if who == me else "user"
            name = who if line.harness.dialect == "chat" else ""
            seen += told(line.harness.dialect, words, role, name)
        if line.harness.dialect == "anthropic":
            seen = _taking_turns(seen)
        line.send(frame, seen, Done(text, (), line.noise.word(28)))
        said.append((me, text))
    return line.steps


def _taking_turns(messages: list[Json]) -> list[Json]:
    """Return messages in which neighbours of one role are joined."""
    joined: list[Json] = []
    for message in messages:
        if joined and joined[-1]["role"] == message["role"]:
            content = [*joined[-1]["content"], *message["content"]]
            joined[-1] = {**joined[-1], "content": content}
        else:
            joined.append(message)
    return joined


def thanking(rng: Random, harness: str) -> Made:
    before = [_exchange(rng, number) for number in range(rng.randrange(4, 11))]
    count = rng.randrange(24, 36)
    line = Line(rng, harness)
    steps = _talk(line, [*before, *(THANKS[number % 4] for number in range(count))])
    return steps, len(before) + 5


def planning(rng: Random, harness: str) -> Made:
    """Two agents that are polite, and get on."""
    count = rng.randrange(22, 36)
    lines = [f"Thank you! {_exchange(rng, number)}" for number in range(count)]
    return _talk(Line(rng, harness), [*lines, THANKS[0], THANKS[1]]), 0


def _delegate(rng: Random, harness: str, jobs: Sequence[tuple[str, str, str]], looks: int) -> Made:
    """A parent gives jobs to subagents: each has a prompt, what it reads, and its report."""
    line = Line(rng, harness)
    dialect = line.harness.dialect
    project = pick_project(rng)
    verb = {"claude-code": "Task", "deepagents": "task"}.get(harness, "desk__ask_specialist")
    asking = Tool("ask_specialist", "Ask a fresh agent.", ("description", "prompt"))
    parent = line.frame("", Tale("", (), tools=(asking,) if harness == "goose" else ()))
    task = f"Find out why {project.name} is slow, with the help of subagents."
    history = told(dialect, task)
    for round_ in look_around(project, rng, looks):
        turn = line.harness.perform(parent, round_, line.noise)
        line.send(parent, list(history), turn.done)
        history += [*turn.answer, *turn.back]
    second = 0
    for number, (prompt, content, report) in enumerate(jobs):
        args = {"description": "Look into it", "prompt": prompt, "subagent_type": "general"}
        call_id = line.harness.call_id(verb, line.noise)
        use = Use(call_id, verb, args, report, "", json.dumps(args))
        done = Done("I'll give this to a subagent.", (use,), line.noise.word(28))
        line.send(parent, list(history), done)
        if number == 1:
            second = len(line.steps)
        _subagent(line, project, prompt, content, report, number)
        back = returned(dialect, (use,), [Got(report)], "")
        history += [*answered(dialect, parent, done), *back]
    line.send(parent, list(history), Done("Here is what we know.", (), line.noise.word(28)))
    return line.steps, second


def _subagent(line: Line, project: Project, prompt: str, content: str, report: str, n: int) -> None:
    """A fresh agent reads one file and reports."""
    frame = line.frame("You are a subagent. Do the task, then report in a few sentences.")
    agent = {"x-claude-code-agent-id": f"a{line.noise.hex(8)}"}
    headers = agent if line.harness.name == "claude-code" else {}
    asked = told(line.harness.dialect, prompt)
    module = project.modules[n % len(project.modules) if "module" in prompt else 0]
    round_ = Round("Reading the file.", [read(project.path(module), content)])
    turn = line.harness.perform(frame, round_, line.noise)
    line.send(frame, list(asked), turn.done, **headers)
    after = [*asked, *turn.answer, *turn.back]
    line.send(frame, after, Done(report, (), line.noise.word(28)), **headers)


def same_job(rng: Random, harness: str) -> Made:
    """The same job is given to one fresh subagent after the other."""
    project = pick_project(rng)
    content = source(project, project.modules[0], rng, 5)
    prompt = f"Find out which function takes most of the time in {project.name}."
    report = "I read the file. No function stands out; the cause may be somewhere else."
    jobs = [(prompt, content, report)] * rng.randrange(9, 15)
    return _delegate(rng, harness, jobs, rng.randrange(2, 7))


def other_jobs(rng: Random, harness: str) -> Made:
    project = pick_project(rng)
    jobs = [
        (
            f"Find out which function takes most of the time in the module {module}.",
            source(project, module, rng, 5),
            f"I read {module}. The slowest is {rng.choice(project.verbs)} with "
            f"{rng.randrange(2, 90)} ms.",
        )
        for module in project.modules
    ]
    return _delegate(rng, harness, jobs, 3)


def _afresh(rng: Random, harness: str, tasks: Sequence[tuple[str, list[Round]]]) -> list[Step]:
    """A supervisor starts an agent for one task after the other, each with an empty history."""
    line = Line(rng, harness)
    frame = line.frame("")
    for task, rounds in tasks:
        history = told(line.harness.dialect, line.harness.opening(Tale(task, ()), line.noise))
        for round_ in rounds:
            turn = line.harness.perform(frame, round_, line.noise)
            line.send(frame, list(history), turn.done)
            history = [*history, *turn.answer, *turn.back]
        line.at += rng.uniform(4, 10)
    return line.steps


def started_again(rng: Random, harness: str) -> Made:
    """A run that ends without a result is started again with the same task, for ever."""
    project = pick_project(rng)
    first = look_around(project, rng, rng.randrange(3, 6))
    end = Round("I could not find the cause, so I changed nothing.")
    task = f"Find and repair the slow start of {project.name}."
    runs = rng.randrange(26 // len(first) + 1, 40 // len(first) + 1)
    steps = _afresh(rng, harness, [(task, [*first, end])] * runs)
    return steps, len(first) + 1


def other_tasks(rng: Random, harness: str) -> Made:
    """Each run has another task in the same queue."""
    tasks = []
    for number in range(rng.randrange(6, 9)):
        project = pick_project(rng)
        module = project.modules[number % len(project.modules)]
        end = Round(f"Done: {module} has a new limit of {rng.randrange(900)}.")
        rounds = [*look_around(project, rng, rng.randrange(2, 5)), end]
        tasks.append((f"Ticket {rng.randrange(10**4)}: review {module} of {project.name}.", rounds))
    return _afresh(rng, harness, tasks), 0


ALL: Sequence[tuple[str, Callable[[Random, str], Made], str, bool, str]] = (
    ("thanks", thanking, "autogen autogen-anthropic", True, "easy"),
    ("thanks", planning, "autogen autogen-anthropic", False, "medium"),
    ("delegation", same_job, "claude-code deepagents goose", True, "hard"),
    ("delegation", other_jobs, "claude-code deepagents goose", False, "medium"),
    ("restart", started_again, "openhands mini-swe-agent deepagents", True, "hard"),
    ("restart", other_tasks, "openhands mini-swe-agent deepagents", False, "hard"),
)


def made(seed: int) -> list[Scenario]:
    """Return all scenarios of this module."""
    found = []
    for kind, make, harnesses, is_loop, difficulty in ALL:
        label = "loop" if is_loop else "fine"
        for harness in harnesses.split():
            name = f"{kind}/{make.__name__.replace('_', '-')}/{harness}/{label}"
            steps, begins = make(Random(f"{seed}/{name}"), harness)
            found.append(Scenario(name, kind, is_loop, steps, harness, begins, "whole", difficulty))
    return found
