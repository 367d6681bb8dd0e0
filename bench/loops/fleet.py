"""Honest agents side by side: one prompt, one project, many equal calls, but each its own task."""

from __future__ import annotations

import random
from collections.abc import Callable

from bench.loops import story
from bench.loops.harness import Harness, Run
from bench.loops.scenario import Scenario
from bench.loops.world import Round, World

AGENTS = 6


def fleet(
    kind: str,
    seed: int,
    number: int,
    harness: Harness,
    play: Callable[[Run, list[Round]], None],
    *,
    is_named: bool = False,
) -> Scenario:
    """Return agents that begin with the same looks at a project, and then do work of their own."""
    name = f"{kind}-fleet{number}-{harness.name}-twin1"
    world = World(random.Random(f"{seed}/{name}"))
    looks = [world.listing(), *(world.read() for _ in range(3)), world.grep()]
    test, system, steps = world.test_command(), "", []
    for _ in range(AGENTS):
        run = Run(harness, world, is_noisy=number % 2 == 1, is_named=is_named, system=system)
        system, run.clock = run.system, world.rng.uniform(0, 25)
        run.begin(world.task())
        seen = world.rng.sample(looks, world.rng.randint(3, 5))
        own = [world.edit(), world.run(test, world.failure(), 1), world.edit()]
        acts = [*seen, *own, world.run(test, world.passing())]
        rounds = [Round(world.say("look around", "do this"), [act]) for act in acts]
        play(run, rounds + story.closing(world))
        steps += run.steps
    steps.sort(key=lambda step: step.at)
    return Scenario(name, kind, False, steps, harness.name)
