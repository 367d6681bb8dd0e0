"""Agents that are started anew and fail the same way, and honest runs like them."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass

from bench.loops import harness as by
from bench.loops.harness import Harness
from bench.loops.scenario import Scenario, Step
from bench.loops.segment import look, new_run, rounds_of
from bench.loops.world import Act, Round, World


def _attempt(world: World, size: int) -> tuple[list[Act], Act]:
    return look(world, size), world.run(world.test_command(), world.failure(), 1)


def _give_up(world: World) -> Round:
    return Round(f"I could not complete this. {world.sentence()}")


@dataclass(frozen=True, slots=True)
class Restarted:
    """An agent that is started again and again with the same first message."""

    harness: Harness
    has_new_sessions: bool = True
    is_shuffled: bool = False
    """Whether each start goes another way to the same failure."""
    gives_up: bool = True
    """Whether it says so in the end; else it is ended from outside."""


def scenarios(seed: int = 0) -> list[Scenario]:
    """Return the scenarios of the kind `restarts`."""
    cases = [
        Restarted(by.CLAUDE_CODE),
        Restarted(by.CLAUDE_CODE, has_new_sessions=False, gives_up=False),
        Restarted(by.CODEX, is_shuffled=True),
        Restarted(by.GEMINI_CLI, gives_up=False),
        Restarted(by.LANGCHAIN),
        Restarted(by.MINI_SWE, gives_up=False),
        Restarted(by.OPENHANDS, has_new_sessions=False),
        Restarted(by.OPENCODE, is_shuffled=True),
        Restarted(by.AGENTS_SDK, gives_up=False),
    ]
    found = [_restart(seed, number, case) for number, case in enumerate(cases)]
    for number, harness in enumerate([by.MINI_SWE, by.OPENHANDS, by.CODEX, by.LANGCHAIN_CLAUDE]):
        found.append(_pass_at_k(seed, number, harness, is_parallel=number % 2 == 1))
    for number, harness in enumerate([by.LANGCHAIN, by.ADK, by.CLAUDE_CODE, by.AGENTS_SDK]):
        found.append(_cron(seed, number, harness))
    for number, harness in enumerate([by.CLAUDE_CODE, by.CODEX, by.OPENCODE_CLAUDE]):
        found.append(_commits(seed, number, harness))
    for number, harness in enumerate([by.LANGCHAIN, by.GEMINI_CLI]):
        found.append(_resumed(seed, number, harness))
    return found


def _restart(seed: int, number: int, case: Restarted) -> Scenario:
    name = f"restarts-{number:02}-{case.harness.name}-loop"
    world = World(random.Random(f"{seed}/{name}"))
    looks, failing = _attempt(world, world.rng.randint(2, 5))
    run = new_run(case.harness, world, [], number)
    task, begins = world.task(), 0
    for start in range(max(8, -(-world.rng.randint(32, 60) // (len(looks) + 1)))):
        if start and case.has_new_sessions:
            run.open_session()
        run.begin(task)
        acts = world.rng.sample(looks, len(looks)) if case.is_shuffled else looks
        end = [_give_up(world)] if case.gives_up else []
        run.follow([*rounds_of(world, [*acts, failing]), *end])
        begins = begins or len(run.steps)
        run.clock += world.rng.uniform(5, 60)
    return Scenario(name, "restarts", True, run.steps, case.harness.name, begins)


def _pass_at_k(seed: int, number: int, harness: Harness, *, is_parallel: bool) -> Scenario:
    """Return attempts at one task for an evaluation: each goes its own way, many succeed."""
    name = f"restarts-eval{number}-{harness.name}-twin1"
    world = World(random.Random(f"{seed}/{name}"))
    run = new_run(harness, world, [], number)
    task, looked = world.task(), [world.listing(), world.read()]
    steps: list[Step] = []
    test, path, failure = world.test_command(), world.file(), world.failure()
    for _ in range(8):
        run.open_session()
        run.begin(task)
        if is_parallel:
            run.clock = world.rng.uniform(0, 30)
        acts = [*looked[: world.rng.randint(1, 2)], world.grep(), world.edit(path)]
        is_solved = world.rng.random() < 0.6
        seen = world.run(test, world.passing() if is_solved else failure, int(not is_solved))
        run.follow([*rounds_of(world, [*acts, seen]), Round(f"Done. {world.sentence()}")])
        steps += run.steps
        run.steps = []
    steps.sort(key=lambda step: step.at)
    return Scenario(name, "restarts", False, steps, harness.name)


def _cron(seed: int, number: int, harness: Harness) -> Scenario:
    """Return a job that asks the same every ten minutes, and finds nothing."""
    name = f"restarts-cron{number}-{harness.name}-twin1"
    world = World(random.Random(f"{seed}/{name}"))
    alerts = Act("list_alerts", {"state": "open"}, json.dumps({"alerts": []}))
    health = world.run("systemctl --failed", "0 loaded units listed.")
    acts = [alerts] if number % 2 else [alerts, health]
    run = new_run(harness, world, [[Round("", acts)]], number)
    task = f"Look for open alerts of {world.name} and report what is new. {world.prose(1)}"
    for start in range(world.rng.randint(10, 20)):
        run.clock = start * 600.0
        run.open_session()
        run.begin(task)
        run.follow([*rounds_of(world, acts), Round("Nothing to report.")])
    return Scenario(name, "restarts", False, run.steps, harness.name)


def _commits(seed: int, number: int, harness: Harness) -> Scenario:
    """Return one reviewer that runs on each commit: the same words, another change."""
    name = f"restarts-ci{number}-{harness.name}-twin1"
    world = World(random.Random(f"{seed}/{name}"))
    run = new_run(harness, world, [], number)
    rules = world.read(f"{world.root}/CONTRIBUTING.md", world.page())
    for _ in range(world.rng.randint(7, 12)):
        run.open_session()
        commit, path = world.hex(40), world.file()
        diff = world.edit(path).args
        shown = world.run("git show --stat HEAD", f"commit {commit}\n\n    {world.sentence()}")
        run.begin(f"Review commit {commit} of {world.name}:\n-{diff['old']}\n+{diff['new']}")
        test = world.run("make test", world.passing())
        acts = [rules, shown, world.read(path), test]
        run.follow([*rounds_of(world, acts), Round(f"LGTM. {world.sentence()}")])
        run.clock += world.rng.uniform(60, 900)
    return Scenario(name, "restarts", False, run.steps, harness.name)


def _resumed(seed: int, number: int, harness: Harness) -> Scenario:
    """Return a migration whose agent is started anew when it ends, and finds less to do."""
    name = f"restarts-resumed{number}-{harness.name}-twin1"
    world = World(random.Random(f"{seed}/{name}"))
    run = new_run(harness, world, [], number)
    task, guide = world.task(), world.read(f"{world.root}/MIGRATION.md", world.page())
    todo = [world.file() for _ in range(world.rng.randint(9, 12))]
    while todo:
        run.open_session()
        run.begin(task)
        left = world.run("./list-unmigrated.sh", "\n".join(todo))
        path = todo.pop(0)
        acts = [guide, left, world.read(path), world.edit(path)]
        run.follow([*rounds_of(world, acts), Round(f"Migrated {path}.")])
        run.clock += world.rng.uniform(5, 40)
    return Scenario(name, "restarts", False, run.steps, harness.name)
