"""Stories of programs and persons that send prompts: one over and over, or many that differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from bench.loops.form import Done, Entry, Say, Tool
from bench.loops.held_out.office import PEOPLE, THINGS, TOPICS
from bench.loops.held_out.run import (
    Act,
    Harness,
    Label,
    Plot,
    Teller,
    Told,
    Turn,
    clock,
    hexes,
    scenario,
    uuid,
)
from bench.loops.scenario import Scenario

SCRIPT = Harness(
    "Script (OpenAI SDK)",
    "chat",
    "gpt-4.1-mini",
    "Return JSON with the fields name, price and unit.",
    (),
    extra=lambda _rng: {"response_format": {"type": "json_object"}},
    headers=lambda _rng: {"user-agent": "OpenAI/Python 2.8.1"},
)
PIPELINE = Harness(
    "Pipeline (Anthropic SDK)",
    "anthropic",
    "claude-haiku-4-5",
    "Return only JSON with the fields name, price and unit.",
    (),
    headers=lambda _rng: {"user-agent": "Anthropic/Python 0.75.0"},
)
WORKFLOW = Harness(
    "Workflow (Responses)",
    "responses",
    "gpt-5-nano",
    "Return JSON with the fields name, price and unit.",
    (),
    extra=lambda _rng: {"store": False},
)
NOTEBOOK = Harness(
    "Notebook (Gemini)",
    "gemini",
    "gemini-2.5-flash",
    "Return JSON with the fields name, price and unit.",
    (),
)
INSTRUCTOR = Harness(
    "Instructor",
    "chat",
    "gpt-4o",
    "Extract the order.",
    [Tool("Order", "Correctly extracted `Order`", ("name", "price", "unit"))],
    extra=lambda _rng: {"tool_choice": {"type": "function", "function": {"name": "Order"}}},
)
CHAT_UI = Harness(
    "Chat window",
    "chat",
    "gpt-5.1",
    "You are a helpful assistant.",
    (),
    stream=True,
    extra=lambda rng: {"user": f"user-{hexes(rng, 8)}"},
    headers=lambda rng: {"x-session-id": uuid(rng)},
)


WRITER = replace(
    SCRIPT, system="You write short and friendly texts.", extra=lambda _rng: {"temperature": 1.0}
)
POET = replace(PIPELINE, system="You write short and friendly texts.")
GUARD = replace(WRITER, system="You watch the gates and pumps of a water works.")
WARDEN = replace(NOTEBOOK, system=GUARD.system)
APP_UI = replace(
    PIPELINE,
    name="Chat window",
    system="You are the assistant of a shop.",
    stream=True,
    extra=lambda rng: {"metadata": {"user_id": uuid(rng)}},
    headers=lambda rng: {"x-session-id": uuid(rng)},
)


def _offer(word: str, thing: str) -> str:
    return f"Offer of the {word} market: a {thing}, as good as new, price on request. Extract it."


def _ask(teller: Teller, text: str, said: str, wait: float = 0.0) -> None:
    entries: list[Entry] = [Say("user", text)]
    done = Done(said, (), hexes(teller.rng, 30))
    teller.send(entries, done, teller.frame, shown=[text], wait=wait)


def _answer(rng: Random, thing: str) -> str:
    return f'{{"name": "{thing}", "price": {rng.randint(3, 90)}, "unit": "EUR"}}'


BROKEN = "Here is the JSON you asked for: {name: "


def retried(harness: Harness, rng: Random, style: str) -> list[Told]:
    """One prompt tried again, with a number, a time, or the last error; or other prompts."""
    teller = Teller(harness, rng)
    how = {
        "Script (OpenAI SDK)": "plain",
        "Pipeline (Anthropic SDK)": "number",
        "Workflow (Responses)": "time",
        "Notebook (Gemini)": "error",
    }[harness.name]

    def ask(text: str, attempt: int, said: str) -> None:
        if how == "number":
            text = f"[attempt {attempt} of 100, request {uuid(rng)}]\n{text}"
        elif how == "time":
            text = f"Current time: 2026-11-02 {clock(rng, teller.at)}\n{text}"
        elif how == "error" and attempt > 1:
            where = rng.randint(30, 40)
            error = f"json.JSONDecodeError: Expecting property name: line 1 column {where}"
            text = f"{text}\n\nYour last answer was not valid:\n{error}\nTry again."
        _ask(teller, text, said, rng.uniform(0.2, 2.0))

    begin = rng.randint(3, 9)
    for number in range(begin):
        ask(_offer(TOPICS[number], THINGS[number]), 1, _answer(rng, THINGS[number]))
    stuck = _offer(TOPICS[13], THINGS[11])
    if style == "loop":
        for number in range(rng.randint(27, 40)):
            ask(stuck, number + 1, BROKEN)
        return teller.told
    if style == "recovers":
        for number in range(4):
            said = BROKEN if number < 3 else _answer(rng, THINGS[11])
            ask(stuck, number + 1, said)
    for number in range(rng.randint(14, 26)):
        topic, thing = TOPICS[(number + begin) % 13], THINGS[(number * 5 + 2) % 12]
        ask(_offer(f"{topic} {PEOPLE[number % 15]}", thing), 1, _answer(rng, thing))
    return teller.told


def repair(harness: Harness, rng: Random, style: str) -> list[Told]:
    """An answer that breaks the same rule after each correction; or another rule, and none."""
    teller = Teller(harness, rng)

    def wrong(field: str, rule: str, known: int) -> Turn:
        told = f"Validation Error found:\n1 validation error for Order\n{field}\n  {rule}\nFix it."
        args = {f"{thing}_price": f"{rng.randint(5, 50)}" for thing in wanted[:known]}
        return Turn("", [Act("Order", {"name": PEOPLE[2], **args}, told)])

    wanted = rng.sample((*THINGS, *TOPICS), 17)
    text = f"{PEOPLE[2].title()} orders as last time: {', '.join(wanted)}."
    steps = [wrong(f"{thing}_price", "Field required", at) for at, thing in enumerate(wanted)]
    known = rng.randint(2, 5)

    def stuck() -> Turn:
        return wrong(f"{wanted[known]}_price", "Input should be a valid number", known)

    if style == "loop":
        return teller.tell(Plot(text, steps[:known] + [stuck() for _ in range(30)]))
    turns = steps[:known] + [stuck() for _ in range(4 if style == "recovers" else 1)]
    return teller.tell(Plot(text, [*turns, *steps[known:], Turn("The order is complete.")]))


def timer(harness: Harness, rng: Random, style: str) -> list[Told]:
    """A check by a program: without rest and with the same, or every quarter of an hour."""
    teller = Teller(harness, rng)

    def look(word: str, wait: float) -> None:
        text = f"Report of {clock(rng, teller.at)}: {word}. Is anything wrong?"
        _ask(teller, text, f"The report on {word} is fine.", wait)

    for number in range(rng.randint(3, 6)):
        look(f"gate {TOPICS[number]} open, pump {THINGS[number]} on", 900.0)
    if style == "loop":
        for _ in range(rng.randint(27, 38)):
            look("no data received, sensor offline", rng.uniform(0.5, 2.0))
        return teller.told
    for number in range(rng.randint(18, 28)):
        quiet = style == "recovers" and number % 5
        word = f"gate {TOPICS[number % 14]} shut by {PEOPLE[number % 15]}, pump off"
        look("all quiet, nothing to report" if quiet else word, 900.0 + rng.uniform(0, 5))
    return teller.told


def at_once(rng: Random, harness: Harness) -> list[Told]:
    """Return several samples of each prompt, sent at the same time."""
    told: list[Told] = []
    start = 0.0
    for number in range(4):
        text = f"Write a riddle whose solution is {THINGS[number + 2]}."
        for sample in range(7):
            teller = Teller(harness, rng, start=start + 0.05 * sample)
            _ask(teller, text, f"It waits for the {TOPICS[sample]} and never sleeps.")
            told += teller.told
        start += 40.0
    return told


def many_users(rng: Random, harness: Harness) -> list[Told]:
    """Return short talks of many persons, who all begin with the same words."""
    told: list[Told] = []
    for number, person in enumerate(rng.sample(PEOPLE, 12)):
        start = number * rng.uniform(6, 12)
        caller = f"session-{hexes(rng, 6)}" if harness is CHAT_UI else "team"
        teller = Teller(harness, rng, start=start, caller=caller)
        asks = f"My name is {person.title()}; my {THINGS[number]} is broken."
        turns = [
            Turn("Hello! How can I help?", says=asks, wait=rng.uniform(12, 50)),
            Turn(f"I am sorry about the {THINGS[number]}. Please send a picture."),
        ]
        told += teller.tell(Plot("Hi, I need help with an order", turns))
    return told


def person(rng: Random, harness: Harness) -> list[Told]:
    """Return the prompts of a person who asks again after reading, and then for other things."""
    teller = Teller(harness, rng)
    for number in range(8):
        text = f"Write a toast for {PEOPLE[number].title()}, who loves the {TOPICS[number]}."
        for time in range(rng.randint(2, 4)):
            said = f"To {PEOPLE[number].title()}, and to the {THINGS[time]}!"
            _ask(teller, text, said, rng.uniform(14, 90))
    return teller.told


Story = Callable[[Harness, Random, str], list[Told]]
Other = Callable[[Random, Harness], list[Told]]
TABLE: Sequence[tuple[str, Story, Sequence[Harness]]] = (
    ("retried prompt", retried, (SCRIPT, PIPELINE, WORKFLOW, NOTEBOOK)),
    ("repair", repair, (INSTRUCTOR, INSTRUCTOR)),
    ("timer", timer, (GUARD, WARDEN)),
)
OTHERS: Sequence[tuple[str, Other, Sequence[Harness]]] = (
    ("samples", at_once, (WRITER, POET)),
    ("users", many_users, (CHAT_UI, APP_UI)),
    ("person", person, (CHAT_UI, APP_UI)),
)


def scenarios(seed: int) -> list[Scenario]:
    """Return the runs of programs and persons that send prompts."""
    made: list[Scenario] = []
    for kind, story, harnesses in TABLE:
        shows = "whole" if kind == "repair" else "prompt"
        for number, harness in enumerate(harnesses):
            for style in ("loop", "moves", "recovers"):
                name = f"{kind.replace(' ', '-')}/{number}-{style}"
                rng = Random(f"{seed}/{name}")
                hard = "easy" if number == 0 and style != "recovers" else "medium"
                label = Label(name, kind, style == "loop", shows, hard)
                made.append(scenario(label, harness.name, story(harness, rng, style)))
    for what, tell, harnesses in OTHERS:
        for number, harness in enumerate(harnesses):
            name = f"retried-prompt/{what}-{number}"
            rng = Random(f"{seed}/{name}")
            label = Label(name, "retried prompt", is_loop=False, shows="prompt", difficulty="hard")
            made.append(scenario(label, harness.name, tell(rng, harness)))
    return made
