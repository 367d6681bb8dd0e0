"""Agents that ask a guard before each call, and show it as much of their history as they please."""

import re
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any, NamedTuple

from bench.loops.speech import CHAT, Dialect, Tool, Turn, Use, token

from looptrap import Guard
from looptrap.detect.signals.signal import Evidence
from looptrap.dialect.model import Outcome
from looptrap.errors import LoopDetectedError

START = 1_800_000_000.0
PACE_S = 20.0
"""Seconds from one request to the next: too slow for rules that count equal requests in a row."""

SYSTEM = "You are an engineer. Work on the repository with your tools until the task is done."
TASK = "Make the tests of the parser pass, please, and say what was wrong with it."
SUMMARY = (
    "This session is being continued from a previous conversation that ran out of context. The"
    " conversation is summarized below. The parser still fails; read it again and repair it."
)
TOOLS = tuple(
    Tool(name, f"{name} something", ("path",))
    for name in ("read_file", "run_tests", "search", "edit_file", "bash")
)


class Move(NamedTuple):
    """A tool call, and its result."""

    tool: str
    path: str
    result: str


READ = Move("read_file", "src/parser.py", "def parse(text):\n    return text.split()")
FAIL = Move("run_tests", "tests/test_parser.py", "1 failed, 40 passed\nKeyError: 'end of line'")
EDIT = Move("edit_file", "src/parser.py", "Error: the text to replace was not found in the file")

Round = tuple[Turn, Turn]
"""What the assistant said, and the results."""

View = Callable[[Sequence[Round]], Sequence[Round]]


def whole(rounds: Sequence[Round]) -> Sequence[Round]:
    """Show everything."""
    return rounds


def trimmed(count: int) -> View:
    """Show the latest rounds only."""
    return lambda rounds: rounds[-count:]


def elided(count: int) -> View:
    """Show the results of the latest rounds only."""

    def view(rounds: Sequence[Round]) -> Sequence[Round]:
        old, new = rounds[:-count], rounds[-count:]
        return [*map(_cleared, old), *new]

    return view


def _cleared(round_: Round) -> Round:
    said, got = round_
    return said, Turn("user", results=tuple((use, "[cleared]") for use, _ in got.results))


class Agent:
    """One agent at work: each move answers the request before, and makes the next one."""

    def __init__(
        self,
        guard: Guard,
        dialect: Dialect = CHAT,
        *,
        view: View = whole,
        caller: str = "team",
        session: str = "",
        seed: object = 0,
        ids: str = "random",
        kept: str = "",
        task: str = TASK,
        system: str = SYSTEM,
        start: float = START,
        pace: float = PACE_S,
    ) -> None:
        """`ids` are `random`, `numbered` (`call_0`, `call_1`, …) or `fixed` (`call_0`).

        With `kept` ("response" or "conversation") the provider keeps the history.
        """
        self.guard, self.dialect, self.view = guard, dialect, view
        self.caller, self.session, self.ids, self.kept = caller, session, ids, kept
        self.system, self.now, self.pace = system, start, pace
        self.random = Random(str(seed))
        self.name = token(self.random, 24)
        self.opening: list[Turn] = [Turn("user", task)]
        self.rounds: list[Round] = []
        self.fields: dict[str, Any] = {"conversation": "conv_1"} if kept == "conversation" else {}
        self.made = 0
        self.ticket: Any = None
        self.why: Sequence[Evidence] = ()
        """The evidence of the latest verdict."""

    def body(self) -> dict[str, Any]:
        """Return the body of the next request."""
        shown = [turn for round_ in self.view(self.rounds) for turn in round_]
        turns = [*self.opening, *shown]
        if self.kept and self.rounds:
            turns = turns[-1:]
        body = self.dialect.body(self.system, turns, TOOLS)
        return body | self.fields | self.dialect.asks_stream

    def ask(self) -> str:
        """Send the next request; return what the guard says to it."""
        self.now += self.pace
        options = {"caller": self.caller, "session": self.session, "path": self.dialect.path}
        try:
            self.ticket = self.guard.check(self.body(), **options, now=self.now)
        except LoopDetectedError as refusal:
            self.ticket, self.why = None, refusal.evidence
            return f"block {refusal.rule}"
        verdict = self.ticket.verdict
        self.why = verdict.evidence
        action = verdict.action.value
        return action if action == "allow" else f"{action} {verdict.rule}"

    def answer(self, *moves: Move) -> None:
        """Let the provider answer the latest request with calls, and perform them."""
        turn = self.turn_of(*moves)
        if self.ticket is not None:
            answer = self.written(turn)
            self.guard.conclude(self.ticket, Outcome(200), now=self.now + 1, answer=answer)
            self.ticket = None
        self.perform(turn, *moves)

    def turn_of(self, *moves: Move) -> Turn:
        """Return what the assistant says to make these calls."""
        uses = [Use(move.tool, {"path": move.path}, self._id(at)) for at, move in enumerate(moves)]
        return Turn("assistant", "", tuple(uses))

    def written(self, turn: Turn) -> bytes:
        """Return the provider's answer to the latest request."""
        answer = self.dialect.answer(self.body(), turn, f"{self.name}{self.made}", 0.0)
        if self.kept == "conversation":
            named = rb'\g<0>,"conversation":{"id":"conv_1"}'
            answer = re.sub(rb'"object": ?"response"', named, answer)
        return answer

    def perform(self, turn: Turn, *moves: Move) -> None:
        """Perform the calls of an answer."""
        if self.kept == "response":
            self.fields["previous_response_id"] = f"resp_{self.name}{self.made}"
        pairs = zip(turn.uses, moves, strict=True)
        results = tuple((use, move.result) for use, move in pairs)
        self.rounds.append((turn, Turn("user", results=results)))
        self.made += 1

    def do(self, *moves: Move) -> str:
        """Make calls together, and ask for the next answer; return what the guard says."""
        if not self.rounds and self.ticket is None:
            self.ask()
        self.answer(*moves)
        return self.ask()

    def play(self, moves: Iterable[Move]) -> list[str]:
        """Make one call after another; return what the guard says after each."""
        return [self.do(move) for move in moves]

    def compact(self, summary: str = SUMMARY) -> str:
        """Replace the history by a summary, and ask; return what the guard says."""
        self.opening, self.rounds = [Turn("user", summary)], []
        return self.ask()

    def hear(self, text: str) -> str:
        """Answer a person, who says something else; return what the guard says."""
        shown = [turn for round_ in self.view(self.rounds) for turn in round_]
        self.opening = [*self.opening, *shown, Turn("assistant", "Done."), Turn("user", text)]
        self.rounds = []
        return self.ask()

    def say(self, text: str) -> None:
        """Answer a person, who says something else to a provider that keeps the history."""
        self.answer()
        self.rounds[-1] = (self.rounds[-1][0], Turn("user", text))
        self.ask()

    def _id(self, place: int) -> str:
        match self.ids:
            case "random":
                return self.dialect.call_id(self.random)
            case "numbered":
                return f"call_{self.made}_{place}"
            case _:
                return f"call_{place}"


def first_block(said: Sequence[str]) -> int | None:
    """Return how many rounds there were when a call was first refused."""
    return next((at + 1 for at, one in enumerate(said) if one.startswith("block")), None)
