"""The staging of a case: its tale as the requests that its harness would send."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from bench.loops.form import Done, Frame, Json
from bench.loops.reply import answer
from bench.loops.scenario import Scenario, Step
from bench.loops.tales.frameworks import HARNESSES, Mastra
from bench.loops.tales.harness import Harness, Turn
from bench.loops.tales.noise import Noise
from bench.loops.tales.tale import Case, Round, Tale
from bench.loops.tales.texters import Dspy
from bench.loops.tales.wire import PATHS, request, told

SUMMARISE = (
    "Write a summary of this conversation for yourself: what was asked, what was done, what was "
    "found out, and what is to be done next. Answer with text only, and use no tools."
)


def path_of(harness: Harness) -> str:
    """Return the path to which a harness sends its requests."""
    if harness.dialect == "gemini":
        return f"/v1beta/models/{harness.model}:generateContent"
    return PATHS[harness.dialect]


def stage(case: Case, name: str, seed: int) -> Scenario:
    """Return the scenario of a case."""
    rng = Random(f"{seed}/{name}")
    tale = case.tell(rng)
    staging = _Staging(HARNESSES[case.harness], tale, case, rng)
    staging.run()
    begins = tale.begins
    return Scenario(
        name,
        case.kind,
        case.is_loop,
        staging.steps,
        case.harness,
        0 if begins is None else staging.step_of[begins],
        "prompt" if isinstance(staging.harness, Dspy) else case.shows,
        case.difficulty,
    )


class _Staging:
    """Writes the requests of one run, one after the other."""

    def __init__(self, harness: Harness, tale: Tale, case: Case, rng: Random) -> None:
        self.harness, self.tale, self.case, self.rng = harness, tale, case, rng
        self.noise = Noise(rng)
        self.session = self.noise.uuid()
        self.headers = harness.headers(self.session)
        self.frame = harness.frame(tale, self.noise, self.session)
        self.opening = harness.opening(tale, self.noise)
        self.head = told(harness.dialect, self.opening)
        self.turns: list[Turn] = []
        self.since = 0
        """The first turn that the history still has."""
        self.steps: list[Step] = []
        self.step_of: list[int] = []
        """The step of each round."""
        self.at = 0.0

    def run(self) -> None:
        for number, round_ in enumerate(self.tale.rounds):
            if self._is_full():
                self._compact(number)
            turn = self.harness.perform(self.frame, round_, self.noise)
            self.step_of.append(len(self.steps))
            if round_.speaker:
                system = self.tale.personas[round_.speaker]
                self.frame = replace(self.frame, system=system)
            self._send(self._view(), turn.done)
            self.turns.append(turn)
            self.at += sum(deed.seconds for deed in round_.deeds) + round_.pause

    def _is_full(self) -> bool:
        every = self.case.options.get("every", 9)
        return self.case.shows == "compacted" and len(self.turns) - self.since >= every

    def _compact(self, number: int) -> None:
        """Let the model write a summary, which then stands for all that came before."""
        summary = summarise(self.tale, self.tale.rounds[:number])
        dialect = self.harness.dialect
        asked = [*self._view(), *told(dialect, SUMMARISE)]
        if dialect == "anthropic":
            asked = _joined(asked)
        self._send(asked, Done(summary, (), self.noise.word(28)))
        text = (
            "This session is continued from one that ran out of context. Its summary:\n\n"
            f"{summary}\n\nGo on from here without asking the user anything."
        )
        self.head = told(dialect, f"{self.opening}\n\n{text}")
        self.since = len(self.turns)

    def _view(self) -> list[Json]:
        """Return what the next request shows of the run."""
        harness, options = self.harness, self.case.options
        turns: Sequence[Turn] = self.turns[self.since :]
        if self.case.shows == "kept" and turns:
            return list(turns[-1].back)
        if self.case.shows == "trimmed":
            turns = turns[-options.get("last", 6) :]
        whole = options.get("whole", 3) if self.case.shows == "elided" else len(turns)
        shown: list[Json] = []
        for place, turn in enumerate(turns):
            is_whole = place >= len(turns) - whole
            shown += [*turn.answer, *(turn.back if is_whole else turn.elided)]
        if isinstance(harness, Dspy):
            return harness.gather(self.opening, shown)
        if isinstance(harness, Mastra):
            shown = harness.merge(shown)
        return [*self.head, *shown]

    def _send(self, messages: list[Json], done: Done) -> None:
        frame = self._frame_now()
        takes = round(self.rng.uniform(2.0, 14.0), 2)
        self.steps.append(
            Step(
                round(self.at, 2),
                takes,
                request(self.harness.dialect, frame, messages),
                answer(self.harness.dialect, frame, done),
                path_of(self.harness),
                self.headers,
            )
        )
        self.at += takes + self.rng.uniform(0.05, 0.5)

    def _frame_now(self) -> Frame:
        if self.case.shows != "kept" or not self.turns:
            return self.frame
        before = f"resp_{self.turns[-1].done.id}"
        return replace(self.frame, extra={**self.frame.extra, "previous_response_id": before})


def _joined(messages: list[Json]) -> list[Json]:
    """Return messages whose last two, both of the user, are one."""
    *before, last, asked = messages
    if last["role"] != "user":
        return messages
    return [*before, {"role": "user", "content": [*last["content"], *asked["content"]]}]


def summarise(tale: Tale, rounds: Sequence[Round]) -> str:
    """Return a summary: each thing that was noted, once, in its order."""
    notes = list(dict.fromkeys(round_.note for round_ in rounds if round_.note))
    done = "\n".join(f"- {note}" for note in notes[-14:]) or "- Looked around in the project."
    last = next((round_.said for round_ in reversed(rounds) if round_.said), "Go on.")
    return (
        f"1. What was asked: {tale.task.splitlines()[0]}\n2. What was done and found:\n{done}\n"
        f"3. Last words before this summary: {last}\n4. Next: go on with the open point."
    )
