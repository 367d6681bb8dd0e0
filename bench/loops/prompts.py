"""Loops of single prompts: slow repeats, retries that grow, samples, sessions of the agent.

`scenarios` returns these, and the conversations of `bench.loops.talk` and `bench.loops.teams`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

from bench.loops import talk, teams, words
from bench.loops.label import label
from bench.loops.moves import CODE_TOOLS, Form, Run, built, circle, perform, reword, session, work
from bench.loops.scenario import Scenario, Step
from bench.loops.speech import (
    ANTHROPIC,
    ANTHROPIC_STREAM,
    CHAT,
    DIALECTS,
    GEMINI,
    RESPONSES,
    STREAMS,
    Agent,
    Dialect,
    Tool,
    merge,
)

SLOW = (12.0, 90.0)
QUICK = (2.0, 10.0)
AT_ONCE = (0.05, 1.5)


def scenarios(seed: int = 0) -> list[Scenario]:
    """Return all loops within prompts and talk, with their honest twins."""
    parts = (slow(), growing(), sampling(), named_by_agent(), talk.forms(), teams.forms())
    return label(scenario for part in parts for scenario in built(part, seed))


def _asked(rng: Random) -> str:
    """Return a prompt of one to forty lines."""
    if rng.random() < 0.3:
        return words.question(rng)
    return f"{words.instruction(rng)}\n\n{words.document(rng, 1, 38)}"


# slow


def slow() -> Iterator[Form]:
    """Yield the same prompt right after each slow answer; and timers, persons, many users."""
    for dialect in DIALECTS:
        yield Form("slow", True, f"again-{dialect.name}", partial(_again, dialect=dialect))
        yield Form(
            "slow", True, f"clock-{dialect.name}", partial(_again, dialect=dialect, style="clock")
        )
        yield Form("slow", False, f"minute-{dialect.name}", partial(_timer, dialect=dialect))
        yield Form("slow", False, f"worker-{dialect.name}", partial(_worker, dialect=dialect))
        yield Form("slow", False, f"users-{dialect.name}", partial(_users, dialect=dialect))
    yield Form("slow", True, "warmer-chat", partial(_again, dialect=CHAT, style="temperature"))
    yield Form("slow", True, "reworded-chat", partial(_again, dialect=CHAT, style="answers"))
    yield Form(
        "slow", True, "reworded-anthropic", partial(_again, dialect=ANTHROPIC, style="answers")
    )
    yield Form("slow", False, "five-minutes-chat", partial(_timer, dialect=CHAT, every=300.0))
    yield Form("slow", False, "five-minutes-gemini", partial(_timer, dialect=GEMINI, every=300.0))
    yield Form("slow", False, "minute-clock-chat", partial(_timer, dialect=CHAT, style="clock"))
    yield Form("slow", False, "users-field-chat", partial(_users, dialect=CHAT, scheme="user"))
    for dialect in STREAMS:
        yield Form("slow", True, f"again-{dialect.name}", partial(_again, dialect=dialect))
        yield Form("slow", False, f"minute-{dialect.name}", partial(_timer, dialect=dialect))
    yield Form("slow", False, "person-chat", partial(_person, dialect=CHAT))
    yield Form("slow", False, "person-anthropic", partial(_person, dialect=ANTHROPIC))
    yield Form("slow", False, "person-slow-chat", partial(_person, dialect=CHAT, pace=(12.0, 40.0)))


def _dated(agent: Agent, style: str, text: str) -> str:
    if style != "clock":
        return text
    minutes = int(agent.now) // 60
    return f"Current time: 2027-01-15 {8 + minutes // 60:02}:{minutes % 60:02}\n\n{text}"


def _again(rng: Random, dialect: Dialect, style: str = "plain") -> Run:
    agent = Agent(rng, dialect, words.system(rng), pace=SLOW, gap=AT_ONCE)
    text, found = _asked(rng), words.findings(rng)
    answer = words.reworded(rng, found)
    for attempt in range(rng.randint(30, 70)):
        agent.forget()
        agent.hear(_dated(agent, style, text))
        if style == "temperature":
            agent.fields["temperature"] = round(0.1 * (attempt % 11), 1)
        agent.say(words.reworded(rng, found) if style == "answers" else answer)
    return agent.steps, 1


def _timer(rng: Random, dialect: Dialect, every: float = 60.0, style: str = "plain") -> Run:
    agent = Agent(rng, dialect, words.system(rng), pace=QUICK)
    text, found = _asked(rng), words.findings(rng)
    for tick in range(rng.randint(30, 60)):
        agent.now = tick * every + rng.uniform(0, 0.4)
        agent.forget()
        agent.hear(_dated(agent, style, text))
        agent.say(words.reworded(rng, found))
    return agent.steps, 0


def _person(rng: Random, dialect: Dialect, pace: tuple[float, float] = QUICK) -> Run:
    agent = Agent(rng, dialect, words.system(rng), pace=pace, gap=(100.0, 900.0))
    text, found = words.question(rng), words.findings(rng)
    for _ in range(rng.randint(20, 30)):
        agent.forget()
        agent.hear(text)
        agent.say(words.reworded(rng, found))
    return agent.steps, 0


def _worker(rng: Random, dialect: Dialect) -> Run:
    """Work off a queue of documents, each right after the slow answer to the one before."""
    agent = Agent(rng, dialect, words.system(rng), pace=SLOW, gap=AT_ONCE)
    asked = words.instruction(rng)
    for _ in range(rng.randint(30, 60)):
        agent.forget()
        agent.hear(f"{asked}\n\n{words.document(rng, 1, 38)}")
        agent.say(words.facts(rng, 1, 4))
    return agent.steps, 0


def _signed(rng: Random, agent: Agent, scheme: str, user: str = "") -> None:
    """Give an agent a new session, in the way of its harness; of this user, where it says so."""
    name = session(rng)
    if scheme == "metadata":
        user = user or _user(rng)
        agent.fields["metadata"] = {"user_id": f"user_{user}_account__session_{name}"}
    elif scheme == "claude-code":
        user_id = {"device_id": user or _user(rng), "account_uuid": "", "session_id": name}
        agent.fields["metadata"] = {"user_id": json.dumps(user_id, separators=(",", ":"))}
        agent.headers["x-claude-code-session-id"] = name
    elif scheme == "user":
        agent.fields["user"] = name
    else:
        agent.headers[scheme] = name


def _user(rng: Random) -> str:
    return "".join(rng.choices("0123456789abcdef", k=64))


GREETINGS = ("Hello! How can I help you today?", "Hi there! What can I do for you?")
SCHEMES = {ANTHROPIC.path: "metadata", RESPONSES.path: "user"}


def _users(
    rng: Random,
    dialect: Dialect,
    a_minute: float = 4.0,
    text: str = "",
    scheme: str = "",
    pace: tuple[float, float] = (3.0, 28.0),
    turns: int = 1,
) -> Run:
    """Let many users, each with a session, ask the same at times of their own."""
    system, found = words.system(rng), words.findings(rng)
    popular = words.question(rng)
    scheme = scheme or SCHEMES.get(dialect.path, "x-session-id")
    users, at = [], 0.0
    for _ in range(rng.randint(20, 60) // turns):
        user = Agent(rng, dialect, system, start=at, pace=pace, gap=(8.0, 60.0))
        _signed(rng, user, scheme)
        user.hear(text or popular)
        if text == "hi":
            user.say(rng.choice(GREETINGS))
        else:
            user.say(words.facts(rng, 1, 4) if text else words.reworded(rng, found))
        for _ in range(turns - 1):
            user.hear(words.question(rng))
            user.say(words.facts(rng, 1, 4))
        users.append(user)
        at += rng.expovariate(a_minute / 60.0)
    return merge(*users), 0


# growing


def growing() -> Iterator[Form]:
    """Yield retries that contain the one before; and prompts that grow by something new."""
    for style, dialects in {
        "failed": (CHAT, ANTHROPIC_STREAM, GEMINI),
        "attempt": (CHAT, RESPONSES),
        "numbered": (CHAT, GEMINI),
        "plead": (CHAT, ANTHROPIC),
        "pasted": (CHAT, RESPONSES),
        "facts": (CHAT, ANTHROPIC),
        "few-shot": (CHAT, GEMINI),
        "debug": (CHAT, ANTHROPIC_STREAM),
        "refine": (RESPONSES,),
    }.items():
        for dialect in dialects:
            is_loop = style in RETRIES
            make = partial(_grown, dialect=dialect, style=style)
            yield Form("growing", is_loop, f"{style}-{dialect.name}", make)
    for dialect in (CHAT, ANTHROPIC, RESPONSES):
        for uses_tool in (False, True):
            style = "reask-tool" if uses_tool else "reask-json"
            for is_loop in (True, False):
                make = partial(_reask, dialect=dialect, uses_tool=uses_tool, is_loop=is_loop)
                yield Form("growing", is_loop, f"{style}-{dialect.name}", make, "Instructor")
    for dialect in (CHAT, GEMINI):
        yield Form("growing", False, f"chunks-{dialect.name}", partial(_chunks, dialect=dialect))
        yield Form("growing", False, f"person-{dialect.name}", partial(_chat, dialect=dialect))
    yield Form("growing", False, "chunks-kept-chat", partial(_chunks, dialect=CHAT, is_kept=True))


RETRIES = ("failed", "attempt", "numbered", "plead", "pasted")
LABELS = ("billing", "delivery", "defect", "other")
PLEAS = (
    "Please answer in the format that I asked for.",
    "This is important. Answer in the right format this time.",
    "I am begging you: only the format above, nothing else.",
    "My job depends on it. Follow the format EXACTLY.",
    "LAST WARNING. Follow the format or you will be switched off.",
    "I will tip $200 for an answer in the right format.",
)


def _grown(rng: Random, dialect: Dialect, style: str) -> Run:
    """Send one prompt that gets longer with each attempt."""
    agent = Agent(rng, dialect, words.system(rng), pace=(12.0, 60.0), gap=AT_ONCE)
    text, failure, program = _asked(rng), words.error(rng), words.code(rng, 8, 20)
    output, complaint = words.invalid_json(rng)
    found = words.findings(rng)
    attempts = rng.randint(30, 50) if style in RETRIES else rng.randint(22, 36)
    for attempt in range(1, attempts + 1):
        agent.forget()
        if style == "failed":
            agent.hear(text)
            agent.say(f"```python\n{program}```")
            text += f"\n\nPrevious attempt failed: {failure}"
        elif style == "attempt":
            agent.hear(text)
            agent.say(words.reworded(rng, found))
            text += f"\n\nThat was not valid. Try again, attempt {attempt + 1}."
        elif style == "numbered":
            agent.hear(f"{text}\n\nAttempt {attempt} of {attempts}.")
            agent.say(words.reworded(rng, found))
        elif style == "plead":
            agent.hear(text)
            agent.say(words.reworded(rng, found))
            text += f"\n\n{PLEAS[min(attempt, len(PLEAS)) - 1]}"
        elif style == "pasted":
            agent.hear(text)
            agent.say(output)
            text += f"\n\nYour last output was:\n{output}\n\nIt is invalid:\n{complaint}"
        elif style == "facts":
            agent.hear(text)
            agent.say(words.facts(rng, 1, 3))
            text += f"\n- {words.fact(rng)}"
        elif style == "few-shot":
            ticket, label = words.facts(rng, 1, 3), rng.choice(LABELS)
            agent.hear(f"{text}\n\nTicket: {ticket}\nAnswer:")
            agent.say(label)
            text += f"\n\nTicket: {ticket}\nAnswer: {label}"
        elif style == "debug":
            agent.hear(text)
            agent.say(f"```python\n{words.code(rng, 8, 20)}```")
            left = f"{attempts - attempt} of {attempts + 3} tests fail"
            text += f"\n\nPrevious attempt failed: {left}\n{words.error(rng)}"
        else:
            summary = words.facts(rng, 2, 5)
            agent.hear(text)
            agent.say(summary)
            text += f"\n\nExisting summary: {summary}\nMore context:\n{words.document(rng, 2, 6)}"
    return agent.steps, 1 if style == "numbered" else 2


def _reask(rng: Random, dialect: Dialect, *, uses_tool: bool, is_loop: bool) -> Run:
    """Ask again with the validator's words; an honest one is mended after one or two."""
    tool = Tool(
        "Order", "Correctly extracted `Order` with all the required parameters.", ("order",)
    )
    tools = (tool,) if uses_tool else ()
    agent = Agent(rng, dialect, "", tools, pace=(12.0, 60.0), gap=AT_ONCE)
    asked, left = words.instruction(rng), rng.randint(30, 50)
    while left > 0:
        agent.forget()
        agent.hear(f"{asked}\n\n{words.document(rng, 1, 30)}")
        output, complaint = words.invalid_json(rng)
        wrong = left if is_loop else rng.choice((0, 0, 1, 2))
        for _ in range(wrong):
            if uses_tool:
                recall = f"Validation Error found:\n{complaint}\n"
                recall += "Recall the function correctly, fix the errors"
                agent.use("", "Order", {"order": output}, recall)
            else:
                agent.say(output)
                agent.hear(
                    "Correct your JSON ONLY RESPONSE, based on the following errors:\n" + complaint
                )
        if not is_loop:
            agent.say(json.dumps({"order": words.fact(rng), "total": rng.randrange(900)}))
        left -= wrong + 1
    return agent.steps, 2


def _chunks(rng: Random, dialect: Dialect, *, is_kept: bool = False) -> Run:
    """Process a long document in parts with the same instructions."""
    agent = Agent(rng, dialect, words.system(rng), pace=(12.0, 60.0), gap=AT_ONCE)
    asked, parts = words.instruction(rng), rng.randint(20, 45)
    for part in range(1, parts + 1):
        if not is_kept:
            agent.forget()
        agent.hear(f"{asked}\n\nPart {part} of {parts}:\n{words.document(rng, 4, 20)}")
        agent.say(words.facts(rng, 1, 3))
    return agent.steps, 0


def _chat(rng: Random, dialect: Dialect) -> Run:
    """Let a person go on with a conversation."""
    agent = Agent(rng, dialect, words.system(rng), pace=(12.0, 60.0), gap=(5.0, 90.0))
    for _ in range(rng.randint(20, 45)):
        agent.hear(words.question(rng))
        agent.say(words.facts(rng, 2, 8))
    return agent.steps, 0


# sampling


def sampling() -> Iterator[Form]:
    """Yield waves of equal requests for one prompt; and for many prompts."""
    for dialect in DIALECTS:
        waves = partial(_waves, dialect=dialect)
        yield Form("sampling", True, f"waves-8-{dialect.name}", waves)
        yield Form("sampling", False, f"best-of-8-{dialect.name}", partial(waves, is_loop=False))
        yield Form(
            "sampling",
            False,
            f"best-of-16-{dialect.name}",
            partial(waves, size=16, waves=3, is_loop=False),
        )
    for dialect in (CHAT, ANTHROPIC):
        waves = partial(_waves, dialect=dialect)
        yield Form("sampling", True, f"at-once-40-{dialect.name}", partial(waves, size=40, waves=1))
        workers = partial(_workers, dialect=dialect)
        yield Form("sampling", True, f"each-again-{dialect.name}", workers)
        yield Form("sampling", False, f"each-next-{dialect.name}", partial(workers, is_loop=False))
    yield Form("sampling", True, "waves-40-chat", partial(_waves, dialect=CHAT, size=40, waves=3))
    yield Form(
        "sampling", False, "more-votes-chat", partial(_waves, dialect=CHAT, rounds=2, is_loop=False)
    )
    yield Form(
        "sampling",
        False,
        "votes-5-gemini",
        partial(_waves, dialect=GEMINI, size=5, waves=9, is_loop=False),
    )


MAX_SAMPLES = 16
"""As many equal requests at once as an honest sampler sends here."""


def _warm(dialect: Dialect) -> dict[str, Any]:
    """Return the settings for samples that differ; the model of Responses takes none."""
    if dialect is GEMINI:
        return {"generationConfig": {"temperature": 1, "topP": 0.95}}
    return {} if dialect is RESPONSES else {"temperature": 1.0}


def _waves(
    rng: Random,
    dialect: Dialect,
    size: int = 8,
    waves: int = 0,
    rounds: int = 1,
    *,
    is_loop: bool = True,
) -> Run:
    """Send waves of equal requests: for one prompt, or for a new one every few rounds."""
    system, text, at = words.system(rng), _asked(rng), 0.0
    found = words.findings(rng)
    steps: list[Step] = []
    waves = waves or rng.randint(5, 10)
    for wave in range(waves):
        if not is_loop and wave % rounds == 0:
            text, found = _asked(rng), words.findings(rng)
        samples = []
        for _ in range(size):
            sample = Agent(
                rng,
                dialect,
                system,
                start=at + rng.uniform(0, 0.4),
                pace=(4.0, 25.0),
                fields=_warm(dialect),
            )
            sample.hear(text)
            sample.say(words.reworded(rng, found))
            samples.append(sample)
        steps += merge(*samples)
        at = max(sample.now for sample in samples)
    return steps, size if size <= MAX_SAMPLES else 1


def _workers(rng: Random, dialect: Dialect, *, is_loop: bool = True) -> Run:
    """Let eight workers ask the same: each retries its sample, or takes the next prompt."""
    system = words.system(rng)
    asked = [(_asked(rng), words.findings(rng)) for _ in range(rng.randint(5, 11))]
    agents = []
    for _ in range(8):
        agent = Agent(
            rng, dialect, system, start=rng.uniform(0, 0.4), pace=(4.0, 40.0), fields=_warm(dialect)
        )
        for prompt in asked:
            text, found = asked[0] if is_loop else prompt
            agent.forget()
            agent.hear(text)
            agent.say(words.reworded(rng, found))
        agents.append(agent)
    return merge(*agents), 8


# named_by_agent


def named_by_agent() -> Iterator[Form]:
    """Yield loops under a new session each time; and many users with sessions of their own."""
    for dialect, scheme in (
        (CHAT, "x-session-id"),
        (ANTHROPIC, "metadata"),
        (ANTHROPIC_STREAM, "claude-code"),
        (RESPONSES, "session_id"),
        (GEMINI, "x-session-id"),
    ):
        name = dialect.name
        prompt = partial(_renamed, dialect=dialect, scheme=scheme)
        tools = partial(_renamed_work, dialect=dialect, scheme=scheme)
        yield Form("named_by_agent", True, f"prompt-{name}", prompt)
        yield Form("named_by_agent", True, f"tools-{name}", tools)
        yield Form("named_by_agent", True, f"tools-trimmed-{name}", partial(tools, keep=4))
        yield Form("named_by_agent", False, f"batch-{name}", partial(prompt, is_loop=False))
        yield Form("named_by_agent", False, f"work-{name}", partial(tools, is_loop=False))
        yield Form(
            "named_by_agent", False, f"work-trimmed-{name}", partial(tools, is_loop=False, keep=4)
        )
        for a_minute, text in ((2, "hi"), (10, "Summarise my day"), (60, "hi"), (60, "")):
            users = partial(
                _users, dialect=dialect, scheme=scheme, a_minute=a_minute, text=text, pace=QUICK
            )
            label = text.split(" ")[0].lower() or "popular"
            yield Form("named_by_agent", False, f"users-{a_minute}-{label}-{name}", users)
    for every in (3, 6):
        yield Form(
            "named_by_agent",
            True,
            f"prompt-every-{every}-chat",
            partial(_renamed, dialect=CHAT, scheme="x-session-id", every=every),
        )
    yield Form(
        "named_by_agent",
        False,
        "users-talk-chat",
        partial(_users, dialect=CHAT, scheme="x-session-id", a_minute=6, text="hi", turns=4),
    )


def _renamed(
    rng: Random, dialect: Dialect, scheme: str, every: int = 1, *, is_loop: bool = True
) -> Run:
    """Ask right after each answer under a new session: the same, or of another document."""
    agent = Agent(rng, dialect, words.system(rng))
    asked, text, found = words.instruction(rng), _asked(rng), words.findings(rng)
    user = _user(rng)
    for place in range(rng.randint(30, 70)):
        if place % every == 0:
            _signed(rng, agent, scheme, user)
        agent.forget()
        agent.hear(text if is_loop else f"{asked}\n\n{words.document(rng, 1, 38)}")
        agent.say(words.reworded(rng, found) if is_loop else words.facts(rng, 1, 4))
    return agent.steps, 1


def _renamed_work(
    rng: Random, dialect: Dialect, scheme: str, keep: int = 0, *, is_loop: bool = True
) -> Run:
    """Work with tools, or in a circle, under a new session every call or two."""
    agent = Agent(rng, dialect, words.system(rng), CODE_TOOLS, keep=keep)
    agent.hear(words.task(rng))
    first, period = rng.randint(0, 6), rng.randint(1, 3)
    if is_loop:
        moves = circle(rng, rng.randint(30, 60), period)
        moves = work(rng, first) + (reword(rng, moves) if rng.random() < 0.5 else moves)
    else:
        moves = work(rng, rng.randint(20, 45))
    every, user = rng.randint(1, 2), _user(rng)
    for place, move in enumerate(moves):
        if place % every == 0:
            _signed(rng, agent, scheme, user)
        perform(agent, [move])
    agent.say(words.finished(rng, "the file"))
    return agent.steps, first + period + 1
