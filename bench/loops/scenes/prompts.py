"""Prompts that application code sends: again and again, or as it should."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

from bench.loops.scenes.cast import Plot
from bench.loops.scenes.run import Run, Turn
from bench.loops.scenes.scene import more
from bench.loops.scenes.world import CITIES, NOUNS, PROJECTS, clock, hexes, person, uuid


def _alone(
    prompts: list[str],
    answers: list[str],
    begins: int | None = None,
    gap: float = 1.0,
    difficulty: str = "medium",
    **extra: object,
) -> Run:
    """Return a run of requests that have one prompt each."""
    turns = [
        Turn(said, reply=following, wait=gap, takes=2.5)
        for said, following in zip(answers, [*prompts[1:], "-"], strict=True)
    ]
    return Run(prompts[0], turns, begins, "", difficulty, view="alone", extra=extra)


def _letter(rng: Random) -> tuple[str, dict[str, str]]:
    """Return a letter, and what is to be found in it."""
    who, noun, city = person(rng), rng.choice(NOUNS), rng.choice(CITIES)
    amount = str(rng.randint(10, 500))
    text = (
        f"Dear team, my {noun} {rng.randint(1000, 9999)} from {city} did not arrive. "
        f"I paid {amount} euros. Regards, {who}"
    )
    return text, {"name": who, "city": city, "amount": amount, "topic": noun}


_EXTRACT = (
    "Extract name, city and amount from the letter as JSON. Answer with JSON only.\n\nLetter:\n"
)


def invalid(rng: Random) -> list[Run]:
    """The answer is rejected for the same error each time; or soon accepted, for many letters."""
    number, style = rng.randint(30, 120), rng.randrange(3)
    error = f"Expecting value: line 1 column {number} (char {number - 1})"

    def again(at: int, letter: str, broken: str) -> str:
        head = (f"[request {at + 1}, {clock(5 * at)}] ", "", f"request {uuid(rng)}\n")[style]
        tail = f"\n\nYour last answer was not valid JSON: {error}\nIt was:\n{broken}\nTry again."
        return head + _EXTRACT + letter + (tail if broken else "")

    def break_(fields: dict[str, str]) -> str:
        return f'{{"name": "{fields["name"]}", "city": , "amount": {fields["amount"]}}}'

    letter, fields = _letter(rng)
    broken, count = break_(fields), more(rng) + 3
    asked = [again(at, letter, broken if at else "") for at in range(count)]
    loop = _alone(asked, [broken] * count, 2)
    prompts: list[str] = []
    answers: list[str] = []
    for _ in range(rng.randint(14, 30)):
        letter, fields = _letter(rng)
        failures = rng.choice((0, 0, 0, 1, 2))
        for at in range(failures + 1):
            prompts.append(again(len(prompts), letter, break_(fields) if at else ""))
            answers.append(break_(fields) if at < failures else json.dumps(fields))
    return [loop, _alone(prompts, answers)]


def rejected(rng: Random) -> list[Run]:
    """A chat in which a validator says the same; or in which each remark is another one."""
    letter, found = _letter(rng)
    said = json.dumps({"name": found["name"], "amount": found["amount"]})
    remark = (
        "1 validation error for Letter\ncity\n  Field required [type=missing]\n\n"
        "Fix the errors and try again."
    )
    answers = [Turn(said, reply=remark, takes=2) for _ in range(more(rng) + 2)]
    system = "You extract data. A letter has many fields; leave none out."
    loop = Run(_EXTRACT + letter, answers, 2, system, "easy")
    values = {**found, "currency": "EUR", "country": "unknown", "phone": "unknown", "mood": "angry"}
    known: dict[str, str] = {}
    turns = []
    for field in rng.sample(sorted(values), len(values)):
        text = json.dumps(dict(known))
        turns.append(Turn(text, reply=remark.replace("city", field), takes=2))
        known[field] = values[field]
    turns.append(Turn(json.dumps(known)))
    return [loop, Run(_EXTRACT + letter, turns, None, system)]


def stamped(rng: Random) -> list[Run]:
    """One job is sent again under a new stamp; or new jobs with the same words around them."""
    project = rng.choice(PROJECTS)
    form = rng.choice(
        ("[run {n} at {t}] {q}", "{q}\n\n(trace {u})", "Job {u}, queued {t}\n{q}", "{t} | {q}")
    )

    def prompt(at: int, question: str) -> str:
        return form.format(n=at + 1, t=clock(40 * at), u=uuid(rng), q=question)

    question = (
        f"Write the release notes of {project} from the commits: {', '.join(rng.sample(NOUNS, 4))}."
    )
    answers = [
        f"{intro} {project} gains {rng.choice(NOUNS)}s."
        for intro in ("Release notes:", "What is new:", "Notes.", "In this release,")
    ]
    count = more(rng) + 2
    loop = _alone(
        [prompt(at, question) for at in range(count)],
        [rng.choice(answers) for _ in range(count)],
        1,
        rng.choice((1, 5, 20)),
    )
    questions = [
        f"Write the release notes of {name} from the commits: {', '.join(rng.sample(NOUNS, 4))}."
        for name in PROJECTS
        for _ in range(3)
    ]
    honest = _alone(
        [prompt(at, one) for at, one in enumerate(questions)],
        [f"Release notes: more {one[:-1].split()[-1]}s." for one in questions],
    )
    return [loop, honest]


def same_prompt(rng: Random) -> list[Run]:
    """The very same prompt, one after the other; or sampled, or on schedule, or from visitors."""
    noun, city = rng.choice(NOUNS), rng.choice(CITIES)
    question = f"Write a slogan for a {noun} shop in {city}. At most eight words."
    slogans = [
        f"{a} {noun}s {b} in {city}."
        for a in ("Fine", "Good", "Honest", "Quick", "Old")
        for b in ("for you", "made here", "since 1912", "day and night")
    ]
    count = more(rng) + 1
    loop = _alone([question] * count, [slogans[0]] * count, 1, 2, "easy", temperature=0)
    number = rng.randint(8, 16)
    drawn = _alone(
        [question] * number, rng.sample(slogans, number), None, 0, "hard", temperature=1.0
    )
    samples = Run(
        drawn.task,
        drawn.turns,
        None,
        "",
        "hard",
        view="alone",
        apart=0.05,
        extra={"temperature": 1.0},
    )
    hourly = f"Summarise what the monitoring of the last hour says. Use “{noun}-metrics”."
    schedule = _alone(
        [hourly] * 26,
        [f"Hour {at}: {rng.randint(0, 9)} warnings." for at in range(26)],
        None,
        3600,
        "hard",
    )
    return [loop, samples, schedule]


def batch(rng: Random) -> list[Run]:
    """An item of a queue that is never taken off; or item after item."""
    labels = ("complaint", "question", "praise")
    ask = f"Classify the letter as one of {', '.join(labels)}. Answer with one word.\n\n"
    head = rng.choice(("message {u}, delivery {n}\n", "delivery {n}, {t}\n", ""))

    def prompt(at: int, letter: str) -> str:
        return head.format(u=hexes(rng, 16), n=at + 1, t=clock(3 * at)) + ask + letter

    letter, count = _letter(rng)[0], more(rng) + 1
    loop = _alone([prompt(at, letter) for at in range(count)], ["complaint"] * count, 1)
    many = rng.randint(30, 70)
    honest = _alone(
        [prompt(at, _letter(rng)[0]) for at in range(many)],
        [rng.choice(labels) for _ in range(many)],
    )
    return [loop, honest]


def improve(rng: Random) -> list[Run]:
    """A text is fed back to be improved, and stays as it is; or it grows from round to round."""
    noun, project = rng.choice(NOUNS), rng.choice(PROJECTS)
    ask = "Improve the text. Keep what is good. Answer with the text only.\n\nText:\n"
    text = f"{project.title()} helps you with {noun}s. It is small, quick and free."
    count = more(rng) + 2
    loop = _alone([ask + text] * count, [text] * count, 1, 1, "easy")
    prompts, answers = [], []
    for other in rng.sample(NOUNS, 11):
        prompts.append(ask + text)
        text = text.replace("It is", f"It knows {other}s. It is")
        answers.append(text)
    return [loop, _alone(prompts, answers)]


_ASK = "[[ ## question ## ]]\n{question}\n\n[[ ## trajectory ## ]]\n{steps}\n\n"
_ASK += "Respond with the corresponding output fields, starting with the field "
_ASK += "`[[ ## next_thought ## ]]`, then `[[ ## next_tool_name ## ]]`, then "
_ASK += "`[[ ## next_tool_args ## ]]`, and then ending with the marker for `[[ ## completed ## ]]`."
_STEP = "[[ ## thought_{n} ## ]]\n{thought}\n\n[[ ## tool_name_{n} ## ]]\nsearch\n\n"
_STEP += "[[ ## tool_args_{n} ## ]]\n{args}\n\n[[ ## observation_{n} ## ]]\n{seen}\n\n"
_NEXT = "[[ ## next_thought ## ]]\n{thought}\n\n[[ ## next_tool_name ## ]]\nsearch\n\n"
_NEXT += "[[ ## next_tool_args ## ]]\n{args}\n\n[[ ## completed ## ]]"


def trajectory(rng: Random) -> list[Run]:
    """The whole run is written into one prompt: the same step again and again; or new steps."""
    noun, city = rng.choice(NOUNS), rng.choice(CITIES)

    def told(question: str, steps: list[tuple[str, str, str]], begins: int | None) -> Run:
        prompts: list[str] = []
        answers: list[str] = []
        so_far = ""
        for at, (thought, query, seen) in enumerate(steps):
            args = json.dumps({"query": query}, ensure_ascii=False)
            prompts.append(_ASK.format(question=question, steps=so_far))
            answers.append(_NEXT.format(thought=thought, args=args))
            so_far += _STEP.format(n=at, thought=thought, args=args, seen=seen)
        return replace(_alone(prompts, answers, begins), system=_FIELDS)

    thoughts = (
        "I should search for the makers.",
        "Let me search once more.",
        "I need a source.",
        "The search may give better results now.",
        "I'll look for makers.",
    )
    query = f"best {noun} {city}"
    same = [(rng.choice(thoughts), query, "no results") for _ in range(more(rng) + 2)]
    found = [
        (rng.choice(thoughts), f"best {noun} {other}", f"{person(rng)}, {rng.randint(3, 9)} votes")
        for other in rng.sample(CITIES, 10)
    ]
    loop = told(f"Who makes the best {noun}s in {city}?", same, 2)
    return [loop, told(f"Who makes the best {noun}s in each of our ten cities?", found, None)]


_FIELDS = (
    "Your input fields are: `question` (str), `trajectory` (str). Your output fields are: "
    "`next_thought` (str), `next_tool_name` (one of search, finish), `next_tool_args` (dict)."
)


def carry_on(rng: Random) -> list[Run]:
    """An application says `continue`, and the same text comes; or the next chapter."""
    noun, who = rng.choice(NOUNS), person(rng)
    wanted = f"Write a story about {who} and a lost {noun}, in chapters."
    said = f"The end. {who} found the {noun} and went home. This concludes the story."
    ends = (said, f"{said} I hope you liked it.", f"As I said, {who} found the {noun}. The end.")
    words = rng.choice(("continue", "Please continue.", "Go on until the story is complete."))
    chapters = [
        f"Chapter {at + 1}. In {city}, {who} asked {person(rng)} about the {noun}. "
        f"“Try the {other},” was the answer."
        for at, (city, other) in enumerate(zip(CITIES, NOUNS, strict=False))
    ]
    start = [Turn(one, reply=words) for one in chapters[: rng.randint(2, 5)]]
    loop = start + [Turn(rng.choice(ends), reply=words) for _ in range(more(rng) + 2)]
    runs = [Run(wanted, loop, len(start) + 2, difficulty="medium")]
    honest = [Turn(one, reply=words) for one in chapters]
    return [*runs, Run(wanted, [*honest, Turn(said)], difficulty="hard")]


def visitors(rng: Random) -> list[Run]:
    """One page asks without end for one visitor; or many visitors ask alike."""
    city, number = rng.choice(CITIES), rng.randint(9, 11)
    asks = (
        "What are your opening hours?",
        "When do you open?",
        "Are you open on Sunday?",
        "Do you deliver?",
        f"Where in {city} are you?",
        "What are your opening hours?",
        "opening hours",
        "Hello",
        "Do you have gift cards?",
        "When do you close today?",
        "Hi! When are you open?",
    )
    prefix = (
        f"You answer visitors of a shop in {city}, open from {number} to 18, closed on Sunday.\n\n"
    )

    def prompt(visitor: int, question: str) -> str:
        return f"{prefix}Visitor {visitor} asks: {question}"

    said = [
        f"We are open from {number} to 18.",
        f"From {number} until six.",
        f"{number} to 18, not on Sunday.",
    ]
    visitor, count = rng.randint(10_000, 99_999), more(rng) + 2
    loop = _alone([prompt(visitor, asks[0])] * count, [said[0]] * count, 1, 3)
    people = [
        prompt(rng.randint(10_000, 99_999), rng.choice(asks)) for _ in range(rng.randint(20, 40))
    ]
    return [loop, _alone(people, [rng.choice(said) for _ in people], None, 240, "hard")]


_ALL = "app_chat app_messages app_gemini app_responses"
PLOTS = (
    Plot("invalid", invalid, f"{_ALL} app_named"),
    Plot("rejected", rejected, "app_chat app_gemini app_messages"),
    Plot("stamped", stamped, f"{_ALL} app_named n8n"),
    Plot("same_prompt", same_prompt, _ALL),
    Plot("batch", batch, _ALL),
    Plot("improve", improve, "app_chat app_messages app_named"),
    Plot("trajectory", trajectory, "dspy app_gemini app_messages"),
    Plot("carry_on", carry_on, "app_chat app_responses/kept app_gemini"),
    Plot("visitors", visitors, "app_messages app_chat"),
)
