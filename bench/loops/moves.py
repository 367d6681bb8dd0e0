"""Forms of scenarios, and what agents do in them: honest work with tools, or the same again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from random import Random

from bench.loops import words
from bench.loops.scenario import Scenario, Step
from bench.loops.speech import Agent, Tool

Run = tuple[Sequence[Step], int]
"""The steps of a scenario, and the first that repeats (of no meaning for an honest one)."""


@dataclass(frozen=True, slots=True)
class Form:
    """One scenario for any seed."""

    kind: str
    is_loop: bool
    name: str
    make: Callable[[Random], Run]
    harness: str = ""

    def scenario(self, seed: int) -> Scenario:
        """Return the scenario with the texts, lengths and times of this seed."""
        name = f"{self.kind}/{'loop' if self.is_loop else 'twin'}/{self.name}"
        steps, begins = self.make(Random(f"{seed}/{name}"))
        return Scenario(
            name, self.kind, self.is_loop, steps, self.harness, begins if self.is_loop else 0
        )


@dataclass(frozen=True, slots=True)
class Move:
    """A tool call with what the model says to it, and its result."""

    text: str
    tool: str
    arguments: dict[str, str]
    result: str


CODE_TOOLS = (
    Tool("read_file", "Read a file of the project.", ("path",)),
    Tool("search", "Search the project for a text.", ("query", "path")),
    Tool("edit_file", "Replace a text in a file.", ("path", "old", "new")),
    Tool("run_tests", "Run the tests of a file.", ("target",)),
    Tool("submit", "Report that the task is done.", ("summary",)),
)


def work(rng: Random, count: int) -> list[Move]:
    """Return honest moves: every call or its result is new; failing tests become fewer."""
    paths = iter(words.files(rng, count))
    failing = count + rng.randint(1, 9)
    target = words.file(rng)
    moves = []
    for _ in range(count):
        kind = rng.choice(("read", "read", "search", "edit", "test"))
        path = next(paths)
        if kind == "read":
            move = Move(
                rng.choice(("", f"Let me look at {path}.", "Now the next file.")),
                "read_file",
                {"path": path},
                words.code(rng),
            )
        elif kind == "search":
            query = words.fill(rng, "{verb}_{noun}")
            found = "\n".join(
                f"{hit}:{rng.randrange(9, 400)}: {query}({words.fill(rng, '{noun}')})"
                for hit in words.files(rng, rng.randint(1, 8))
            )
            move = Move("", "search", {"query": query, "path": path}, found)
        elif kind == "edit":
            old, new = words.fill(rng, "{noun}.{verb}({few})"), words.fill(rng, "{noun}.{verb}()")
            arguments = {"path": path, "old": old, "new": new}
            move = Move(f"I replace the call in {path}.", "edit_file", arguments, "Done.")
        else:
            failing -= 1
            result = f"{failing} failed, {rng.randrange(20, 400)} passed\n{words.error(rng)}"
            move = Move("Running the tests.", "run_tests", {"target": target}, result)
        moves.append(move)
    return moves


def circle(rng: Random, count: int, period: int) -> list[Move]:
    """Return moves of an agent that is stuck: the same calls with the same results, in turn."""
    path = words.file(rng)
    old, new = words.fill(rng, "{noun}.{verb}({few})"), words.fill(rng, "{noun}.{verb}()")
    edit = {"path": path, "old": old, "new": new}
    moves = [
        Move("", "run_tests", {"target": path}, f"1 failed\n{words.error(rng)}"),
        Move(f"Let me look at {path}.", "read_file", {"path": path}, words.code(rng)),
        Move("I replace the call.", "edit_file", edit, "Error: `old` was not found."),
    ]
    return list(islice(cycle(moves[:period]), count))


def reword(rng: Random, moves: Iterable[Move]) -> list[Move]:
    """Return the same moves, each announced in other words."""
    return [replace(move, text=words.stall(rng, "the file")) for move in moves]


def perform(agent: Agent, moves: Iterable[Move]) -> None:
    """Let an agent make these moves."""
    for move in moves:
        agent.use(move.text, move.tool, move.arguments, move.result)


def place(steps: Sequence[Step], step: Step) -> int:
    """Return the index of this very step."""
    return next(index for index, other in enumerate(steps) if other is step)


def session(rng: Random) -> str:
    """Return the id of a session: a UUID."""
    digits = "".join(rng.choices("0123456789abcdef", k=30))
    return f"{digits[:8]}-{digits[8:12]}-4{digits[12:15]}-a{digits[15:18]}-{digits[18:]}"


def built(forms: Iterable[Form], seed: int) -> Iterator[Scenario]:
    """Yield the scenario of each form."""
    for form in forms:
        yield form.scenario(seed)
