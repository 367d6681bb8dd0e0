"""Scenarios of single prompts: one that is retried for ever, and many that only look like it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from bench.loops.form import GEMINI, Done, Frame
from bench.loops.reply import answer
from bench.loops.scenario import Scenario, Step
from bench.loops.tales.noise import Noise
from bench.loops.tales.wire import PATHS, request, told

MODELS = {
    "chat": "gpt-4.1-mini",
    "anthropic": "claude-haiku-4-5",
    "responses": "gpt-5-mini",
    "gemini": "gemini-2.5-pro",
}


class Desk:
    """Sends prompts one after the other, and keeps the time."""

    def __init__(self, rng: Random, dialect: str, system: str) -> None:
        self.rng, self.dialect, self.noise = rng, dialect, Noise(rng)
        self.frame = Frame(MODELS[dialect], system, (), {})
        self.steps: list[Step] = []
        self.at = 0.0

    def ask(self, prompt: str, reply: str, pause: float = 0.0, session: str = "") -> None:
        """Send a prompt after the one before it was answered, and a pause."""
        takes = round(self.rng.uniform(2.0, 9.0), 2)
        self.send(prompt, reply, self.at, takes, session)
        self.at += takes + self.rng.uniform(0.1, 0.9) + pause

    def send(self, prompt: str, reply: str, at: float, takes: float, session: str = "") -> None:
        done = Done(reply, (), self.noise.word(28))
        self.steps.append(
            Step(
                round(at, 2),
                takes,
                request(self.dialect, self.frame, told(self.dialect, prompt)),
                answer(self.dialect, self.frame, done),
                GEMINI if self.dialect == "gemini" else PATHS[self.dialect],
                {"X-Session-Id": session} if session else {},
            )
        )


EXTRACT = "You extract fields from letters. Answer with JSON only: sender, date, amount, reason."
TOWNS = ("Aalen", "Bruck", "Celje", "Dax", "Evora", "Faro", "Gijon", "Hamar", "Ilok", "Jihlava",
         "Kotor", "Luleå", "Mdina", "Nafplio", "Oulu", "Pecs", "Ronda", "Split")  # fmt: skip


GOODS = ("lamp oil", "slate", "barrels", "wool", "salt", "tiles", "copper wire", "seed potatoes",
         "paper", "hops", "window glass", "rope", "lime", "candles", "cork", "felt")  # fmt: skip
REASONS = (
    "the second half is still open", "you took back less than was agreed", "the ship was late",
    "our clerk forgot the toll", "the price rose in spring", "it was weighed wrongly",
    "the first bill never reached you", "storage had to be paid", "two crates were found later",
    "your agent signed for it", "the exchange rate fell", "a discount was given in error",
)  # fmt: skip


def letter(rng: Random) -> str:
    """Return a letter that has never been written before."""
    town, other = rng.sample(TOWNS, 2)
    return (
        f"Letter from {town}, {rng.randrange(1, 29)} October 2026.\nWe ask you to pay "
        f"{rng.randrange(40, 9000)} euros for {rng.randrange(2, 60)} crates of {rng.choice(GOODS)} "
        f"which you received in {other} on the {rng.randrange(1, 29)}th, because "
        f"{rng.choice(REASONS)}. Also, {rng.choice(REASONS)}. Our sign is "
        f"{rng.randrange(10**5)}/{town[:2]}."
    )


def _extracted(rng: Random) -> str:
    return json.dumps({"sender": rng.choice(TOWNS), "amount": rng.randrange(9000)})


def _letters_before(desk: Desk) -> None:
    for _ in range(desk.rng.randrange(2, 10)):
        desk.ask(f"Extract the fields.\n\n{letter(desk.rng)}", _extracted(desk.rng))


REFUSALS = (
    "Here are the fields that you asked for:\n- sender: unclear\n- amount: unclear",
    "Sure! The letter names a sender, a date and an amount.",
)


def same_prompt(rng: Random, dialect: str) -> tuple[list[Step], int]:
    """A prompt whose answer is never accepted is sent again as it is."""
    desk = Desk(rng, dialect, EXTRACT)
    _letters_before(desk)
    begins = len(desk.steps) + 1
    prompt = f"Extract the fields.\n\n{letter(rng)}"
    for number in range(rng.randrange(26, 40)):
        desk.ask(prompt, REFUSALS[number % 2])
    return desk.steps, begins


def stamped_prompt(rng: Random, dialect: str) -> tuple[list[Step], int]:
    """The same with the time and the number of the attempt around it."""
    desk = Desk(rng, dialect, EXTRACT)
    _letters_before(desk)
    begins = len(desk.steps) + 1
    text = letter(rng)
    for number in range(1, rng.randrange(27, 40)):
        head = f"[{desk.noise.stamp()}] job {desk.noise.hex(8)}, attempt {number}"
        desk.ask(f"{head}\nExtract the fields.\n\n{text}\n\n(attempt {number})", REFUSALS[0])
    return desk.steps, begins


def growing_prompt(rng: Random, dialect: str) -> tuple[list[Step], int]:
    """The prompt grows by the error of each attempt, which is always the same."""
    desk = Desk(rng, dialect, EXTRACT)
    _letters_before(desk)
    begins = len(desk.steps) + 2
    prompt = f"Extract the fields.\n\n{letter(rng)}"
    for number in range(1, rng.randrange(27, 38)):
        reply = REFUSALS[number % 2]
        desk.ask(prompt, reply)
        prompt += (
            f"\n\nAttempt {number} failed after {desk.noise.seconds()} s: the answer is not valid "
            "JSON: Expecting value: line 1 column 1 (char 0). Please answer with JSON only."
        )
    return desk.steps, begins


def last_error_prompt(rng: Random, dialect: str) -> tuple[list[Step], int]:
    """The prompt has only the latest answer and its error, each time."""
    desk = Desk(rng, dialect, EXTRACT)
    _letters_before(desk)
    begins = len(desk.steps) + 3
    text = letter(rng)
    after = ""
    for number in range(rng.randrange(27, 38)):
        desk.ask(f"Extract the fields.\n\n{text}{after}", REFUSALS[number % 2])
        after = (
            f"\n\nYour last answer was:\n{REFUSALS[number % 2]}\nIt was rejected "
            f"(trace {desk.noise.hex(12)}): 1 validation error for Letter: amount is required."
        )
    return desk.steps, begins


def batch(rng: Random, dialect: str) -> tuple[list[Step], int]:
    """One instruction for many letters."""
    desk = Desk(rng, dialect, EXTRACT)
    for _ in range(rng.randrange(26, 45)):
        desk.ask(f"Extract the fields.\n\n{letter(rng)}", _extracted(rng))
    return desk.steps, 0


def reviews(rng: Random, dialect: str) -> tuple[list[Step], int]:
    """Many letters that are checked one by one, with nearly always the same verdict."""
    desk = Desk(rng, dialect, "You check letters before they are sent. Answer OK or NOT OK.")
    for number in range(rng.randrange(24, 40)):
        verdict = "NOT OK" if number % 11 == 10 else "OK"
        desk.ask(f"Is this letter fit to be sent?\n\n{letter(rng)}", verdict)
    return desk.steps, 0


def few_retries(rng: Random, dialect: str) -> tuple[list[Step], int]:
    """Each letter may take some attempts, with its error in the prompt; all get through."""
    desk = Desk(rng, dialect, EXTRACT)
    for number in range(14):
        prompt = f"Extract the fields.\n\n{letter(rng)}"
        for attempt in range((0, 1, 0, 4)[number % 4]):
            desk.ask(prompt, REFUSALS[attempt % 2])
            prompt += (
                f"\n\nAttempt {attempt + 1} failed: the answer is not valid JSON: Expecting value. "
                "Please answer with JSON only."
            )
        desk.ask(prompt, _extracted(rng))
    return desk.steps, 0


def questions(rng: Random, dialect: str) -> tuple[list[Step], int]:
    """Questions of an evaluation about one long text."""
    text = "\n\n".join(letter(rng) for _ in range(12))
    desk = Desk(rng, dialect, "Answer from the text only, in one word.")
    asked = [
        f"{what} {where}?"
        for what in ("How many crates went to", "What was the sum from", "Which sign has")
        for where in TOWNS
    ]
    for question in rng.sample(asked, rng.randrange(30, 45)):
        desk.ask(f"{text}\n\nQuestion: {question}", str(rng.randrange(900)))
    return desk.steps, 0


def watch(rng: Random, dialect: str) -> tuple[list[Step], int]:
    """A timer that asks every few minutes for a word on the latest readings."""
    desk = Desk(rng, dialect, "You watch a greenhouse. Say OK, or what to do, in one sentence.")
    heat = 19.0
    for _ in range(rng.randrange(24, 40)):
        heat += rng.uniform(-0.6, 0.7)
        reading = f"{desk.noise.stamp(300)}: {heat:.1f} °C, {rng.randrange(50, 80)} % humidity"
        desk.ask(f"Latest reading:\n{reading}\nWhat now?", "OK" if heat < 21 else "Open vent 2.",
                 pause=rng.uniform(280, 310))  # fmt: skip
    return desk.steps, 0


def heartbeat(rng: Random, dialect: str) -> tuple[list[Step], int]:
    """A timer that asks the same every quarter of an hour: so it is meant to be."""
    desk = Desk(rng, dialect, "You look after a calendar. Say ALL QUIET if nothing is due.")
    for number in range(rng.randrange(20, 34)):
        reply = (
            "ALL QUIET" if number % 5 else f"Call {rng.choice(TOWNS)} at {rng.randrange(9, 17)}."
        )
        desk.ask("Periodic check: is anything due in the next hour?", reply, pause=900)
    return desk.steps, 0


def samples(rng: Random, dialect: str) -> tuple[list[Step], int]:
    """Eight answers at once to each of some questions, for a vote."""
    desk = Desk(rng, dialect, "Think step by step, then give the number after ####.")
    for _ in range(5):
        a, b, town = rng.randrange(12, 90), rng.randrange(3, 12), rng.choice(TOWNS)
        prompt = f"A ferry to {town} carries {a} cars on each of {b} trips. How many are that?"
        slowest = 0.0
        for number in range(8):
            takes = round(rng.uniform(3, 12), 2)
            slowest = max(slowest, takes)
            reply = f"{a} times {b}, in my way number {rng.randrange(99)}. #### {a * b}"
            desk.send(prompt, reply, desk.at + 0.04 * number, takes)
        desk.at += slowest + rng.uniform(0.5, 2)
    return desk.steps, 0


def visitors(rng: Random, dialect: str) -> tuple[list[Step], int]:
    """Many visitors of a site ask the same, each in a session of their own."""
    desk = Desk(rng, dialect, "You answer visitors of the Kelp Museum. It is open from 10 to 17.")
    asked = ("When are you open?", "What does it cost?", "When are you open?")
    for _ in range(rng.randrange(28, 48)):
        question = asked[0] if rng.random() < 0.7 else rng.choice(asked)
        desk.at += rng.uniform(0.5, 25)
        reply = "We are open from 10 to 17." if "open" in question else "It costs 9 euros."
        desk.send(question, reply, desk.at, round(rng.uniform(2, 5), 2), desk.noise.uuid())
    return desk.steps, 0


def refinement(rng: Random, dialect: str) -> tuple[list[Step], int]:
    """A prompt that grows by what was wrong each time, which is each time something else."""
    desk = Desk(rng, dialect, "Write the timetable as JSON.")
    prompt = f"The timetable of the ferry from {rng.choice(TOWNS)}."
    wrong = ("misses {t}", "has {t} twice", "gives {t} a time of night", "lists {t} too early",
             "forgets the pier of {t}", "has no price for {t}")  # fmt: skip
    for number in range(rng.randrange(16, 24)):
        desk.ask(prompt, json.dumps({t: rng.randrange(24) for t in rng.sample(TOWNS, 4)}))
        fault = wrong[number % 6].format(t=TOWNS[(number * 5) % len(TOWNS)])
        prompt += f"\n\nAttempt {number + 1}: score {40 + 2 * number}. It still {fault}."
    return desk.steps, 0


Maker = Callable[[Random, str], tuple[list[Step], int]]


@dataclass(frozen=True, slots=True)
class Series:
    """A scenario of prompts in one dialect."""

    kind: str
    make: Maker
    dialects: str
    is_loop: bool = False
    difficulty: str = "medium"


ALL = (
    Series("retried-prompt", same_prompt, "chat anthropic gemini", True, "easy"),
    Series("retried-prompt", batch, "chat anthropic", difficulty="easy"),
    Series("retried-prompt", reviews, "anthropic responses"),
    Series("retried-prompt", samples, "chat gemini", difficulty="hard"),
    Series("retried-prompt", visitors, "chat anthropic", difficulty="hard"),
    Series("retried-prompt", heartbeat, "chat", difficulty="hard"),
    Series("stamped-prompt", stamped_prompt, "chat anthropic responses", True, "hard"),
    Series("stamped-prompt", watch, "chat anthropic responses", difficulty="hard"),
    Series("growing-prompt", growing_prompt, "chat anthropic", True, "hard"),
    Series("growing-prompt", last_error_prompt, "chat responses", True),
    Series("growing-prompt", few_retries, "chat anthropic", difficulty="hard"),
    Series("growing-prompt", questions, "chat gemini"),
    Series("growing-prompt", refinement, "chat responses", difficulty="hard"),
)


def made(seed: int) -> list[Scenario]:
    """Return all scenarios of this module."""
    found = []
    for series in ALL:
        label = "loop" if series.is_loop else "fine"
        for dialect in series.dialects.split():
            story = series.make.__name__.replace("_", "-")
            name = f"{series.kind}/{story}/{dialect}/{label}"
            steps, begins = series.make(Random(f"{seed}/{name}"), dialect)
            found.append(
                Scenario(name, series.kind, series.is_loop, steps, f"{dialect}-pipeline", begins,
                         "prompt", series.difficulty)
            )  # fmt: skip
    return found
