"""Loops in words: a harness that says "continue" for ever, and agents that only talk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from random import Random

from bench.loops import words
from bench.loops.moves import CODE_TOOLS, Form, Run, circle, perform, work
from bench.loops.speech import (
    ANTHROPIC,
    ANTHROPIC_STREAM,
    CHAT,
    CHAT_STREAM,
    GEMINI,
    GEMINI_STREAM,
    RESPONSES,
    RESPONSES_STREAM,
    Agent,
    Dialect,
    Turn,
)

WINDOWS: dict[str, dict[str, object]] = {
    "whole": {},
    "trimmed": {"keep": 4},
    "tail": {"keep": 3, "keeps_first": False},
    "chained": {"is_chained": True},
}
"""What of the conversation is sent: all, the first message and some rounds, only some rounds, or
the last message with a reference to the answer before."""


def forms() -> Iterator[Form]:
    """Yield the forms of this module."""
    yield from auto_continue()
    yield from idle_talk()


def _agent(rng: Random, dialect: Dialect, window: str) -> Agent:
    tools = () if window == "tail" else CODE_TOOLS
    return Agent(rng, dialect, words.system(rng), tools, **WINDOWS[window])  # type: ignore[arg-type]


# auto_continue


GO_ON = (
    "continue",
    "Continue",
    "Please proceed",
    "Please proceed.",
    "go on",
    "Continue working toward the goal",
    "Please continue.",
    "Please continue working on the task on whatever approach you think is suitable.\n"
    "If you think you have solved the task, please finish the interaction.\n"
    "IMPORTANT: YOU SHOULD NEVER ASK FOR HUMAN HELP.\n",
)


def auto_continue() -> Iterator[Form]:
    """Yield "continue" after each empty answer; and after each piece of something long."""
    loops = (
        (CHAT, "whole", "near"),
        (CHAT, "trimmed", "near"),
        (CHAT, "tail", "same"),
        (ANTHROPIC, "whole", "counted"),
        (ANTHROPIC, "tail", "near"),
        (RESPONSES, "whole", "same"),
        (RESPONSES, "chained", "near"),
        (RESPONSES_STREAM, "chained", "same"),
        (ANTHROPIC_STREAM, "whole", "near"),
        (GEMINI, "whole", "near"),
        (GEMINI, "trimmed", "counted"),
    )
    for dialect, window, style in loops:
        make = partial(_nodded, dialect=dialect, window=window, style=style)
        yield Form("auto_continue", True, f"{style}-{window}-{dialect.name}", make)
    twins: tuple[tuple[Dialect, str, str], ...] = (
        (CHAT, "whole", "story"),
        (ANTHROPIC, "trimmed", "story"),
        (RESPONSES, "chained", "story"),
        (RESPONSES_STREAM, "chained", "file"),
        (ANTHROPIC_STREAM, "whole", "story"),
        (GEMINI, "tail", "story"),
        (CHAT, "whole", "file"),
        (CHAT, "tail", "file"),
        (ANTHROPIC, "whole", "file"),
        (CHAT, "trimmed", "quiz"),
        (GEMINI, "whole", "quiz"),
        (RESPONSES, "whole", "quiz"),
    )
    for dialect, window, style in twins:
        make = partial(_pieces, dialect=dialect, window=window, style=style)
        yield Form("auto_continue", False, f"{style}-{window}-{dialect.name}", make)
    for dialect, window in (
        (CHAT, "whole"),
        (ANTHROPIC, "whole"),
        (ANTHROPIC, "trimmed"),
        (RESPONSES, "whole"),
        (GEMINI, "trimmed"),
    ):
        make = partial(_waved_through, dialect=dialect, window=window)
        yield Form("auto_continue", False, f"steps-{window}-{dialect.name}", make)
    for dialect, window in ((CHAT, "whole"), (ANTHROPIC, "trimmed")):
        make = partial(_waved_through, dialect=dialect, window=window, is_loop=True)
        yield Form("auto_continue", True, f"steps-{window}-{dialect.name}", make)


def _nodded(rng: Random, dialect: Dialect, window: str, style: str) -> Run:
    """Say "continue" to an agent that has nothing to add."""
    agent = _agent(rng, dialect, window)
    agent.hear(words.task(rng))
    first = rng.randint(0, 5) if agent.tools else 0
    perform(agent, work(rng, first))
    thing, message = words.file(rng), rng.choice(GO_ON)
    same = words.finished(rng, thing)
    summary = "\n\nSummary:\n" + words.facts(rng, 1, 5, "\n") if rng.random() < 0.4 else ""
    for number in range(1, rng.randint(32, 70)):
        said = words.finished(rng, thing) if style == "near" else same
        agent.say((f"Progress update {number}: " if style == "counted" else "") + said + summary)
        agent.hear(message)
    return agent.steps, first + 2


def _pieces(rng: Random, dialect: Dialect, window: str, style: str) -> Run:
    """Give a story, a file or a quiz piece by piece, on the same short message."""
    agent = _agent(rng, dialect, window)
    count = rng.randint(22, 60)
    questions = words.quiz(rng, count)
    pieces: dict[str, tuple[str, str, Callable[[int], str]]] = {
        "story": (
            words.fill(rng, "Write a long story about {person} and the {product} of {place}."),
            rng.choice(GO_ON[:5]),
            lambda number: words.chapter(rng, number),
        ),
        "file": (
            words.fill(rng, "Print the whole of {file} in pieces; go on when I say so."),
            rng.choice(GO_ON[:5]),
            lambda _: f"```python\n{words.code(rng, 10, 40)}```",
        ),
        "quiz": (
            words.fill(rng, "Ask me quiz questions, one at a time, when I say next."),
            "next",
            lambda number: questions[number - 1],
        ),
    }
    asked, message, piece = pieces[style]
    agent.hear(asked)
    for number in range(1, count):
        agent.say(piece(number))
        agent.hear(message)
    return agent.steps, 0


def _waved_through(rng: Random, dialect: Dialect, window: str, *, is_loop: bool = False) -> Run:
    """Say "continue" after each step with a tool, honest or the same one again."""
    agent = _agent(rng, dialect, window)
    agent.hear(words.task(rng))
    message, thing = rng.choice(GO_ON[:5]), words.file(rng)
    count = rng.randint(16, 30)
    moves = circle(rng, count, 1) if is_loop else work(rng, count)
    for move in moves:
        perform(agent, [move])
        agent.say(words.finished(rng, thing) if is_loop else words.facts(rng, 1, 3))
        agent.hear(message)
    return agent.steps, 3


# idle_talk


NAGS = {
    "mini-swe-agent": "No tool calls found in the response. Every response MUST include at least "
    "one tool call.",
    "basic_agent": "Please proceed to the next step using your best judgement.",
    "Cline": "[ERROR] You did not use a tool in your previous response! Please retry with a tool "
    "use.\n\n# Reminder: Instructions for Tool Use\n\nAlways adhere to the tool use format for all "
    "tool uses to ensure proper parsing and execution.\n\n# Next Steps\n\nIf you have completed "
    "the user's task, use the submit tool.\n(This is an automated message, so do not respond to it "
    "conversationally.)",
    "CrewAI": "I did it wrong. Invalid Format: I missed the 'Action:' after 'Thought:'. I will do "
    "right next, and don't use a tool I have already used.\n",
    "AutoGen": "Please continue. If everything is done, reply 'TERMINATE'.",
    "gptme": "<system>No tool call detected in last message. Did you mean to finish? If so, make "
    "sure you are completely done and then use the `complete` tool to end the session.</system>",
    "Gemini CLI": "System: Potential loop detected. Details: Repetitive patterns identified. "
    "Please take a step back and confirm you're making forward progress.",
}


def idle_talk() -> Iterator[Form]:
    """Yield agents with tools that only announce; and those that work, or are talked to."""
    for harness, dialect, window in (
        ("mini-swe-agent", CHAT, "whole"),
        ("basic_agent", RESPONSES, "whole"),
        ("basic_agent", ANTHROPIC, "trimmed"),
        ("Cline", CHAT_STREAM, "whole"),
        ("Cline", ANTHROPIC_STREAM, "trimmed"),
        ("CrewAI", CHAT, "whole"),
        ("CrewAI", GEMINI, "trimmed"),
        ("AutoGen", CHAT, "whole"),
        ("gptme", ANTHROPIC, "whole"),
        ("gptme", RESPONSES, "trimmed"),
        ("Gemini CLI", GEMINI_STREAM, "whole"),
    ):
        name = f"{harness.lower().replace(' ', '-')}-{window}-{dialect.name}"
        make = partial(_idle, dialect=dialect, window=window, nag=NAGS[harness])
        yield Form("idle_talk", True, name, make, harness)
        yield Form("idle_talk", False, name, partial(make, nags=2), harness)
    piled = partial(_piled, nag=NAGS["mini-swe-agent"])
    yield Form("idle_talk", True, "mini-swe-agent-piled", piled, "mini-swe-agent")
    yield Form("idle_talk", False, "mini-swe-agent-piled", partial(piled, nags=2), "mini-swe-agent")
    cline = partial(_idle, dialect=ANTHROPIC_STREAM, window="whole", nag=NAGS["Cline"])
    yield Form("idle_talk", True, "cline-dozen", partial(cline, most=12), "Cline")
    yield Form("idle_talk", True, "cline-dated", partial(cline, is_dated=True), "Cline")
    yield Form("idle_talk", False, "cline-dated", partial(cline, is_dated=True, nags=2), "Cline")
    for dialect in (CHAT, ANTHROPIC):
        make = partial(_reminded, dialect=dialect, nag=NAGS["basic_agent"])
        yield Form("idle_talk", False, f"reminded-{dialect.name}", make, "basic_agent")
    for style, dialects in {
        "person": (CHAT, ANTHROPIC, GEMINI),
        "interview": (CHAT, RESPONSES),
        "brainstorm": (CHAT, ANTHROPIC, GEMINI),
    }.items():
        for dialect in dialects:
            make = partial(_talked_to, dialect=dialect, style=style)
            yield Form("idle_talk", False, f"{style}-{dialect.name}", make)


def _dated(agent: Agent, nag: str) -> str:
    minutes = int(agent.now) // 60
    clock = f"1/15/2027, {8 + minutes // 60}:{minutes % 60:02}:{int(agent.now) % 60:02} AM"
    used = 18_000 + 240 * len(agent.turns)
    return (
        f"{nag}\n\n<environment_details>\n# Current Time\n{clock} (Europe/Lisbon, UTC+0:00)\n\n"
        f"# Context Window Usage\n{used:,} / 200K tokens used ({used // 2000}%)\n"
        "</environment_details>"
    )


def _idle(
    rng: Random,
    dialect: Dialect,
    window: str,
    nag: str,
    nags: int = 0,
    most: int = 0,
    *,
    is_dated: bool = False,
) -> Run:
    """Announce for ever; an honest agent works after a few nags."""
    agent = _agent(rng, dialect, window)
    agent.hear(words.task(rng))
    first = rng.randint(0, 4)
    perform(agent, work(rng, first))
    thing = words.file(rng)
    for _ in range(nags or most or rng.randint(30, 60)):
        agent.say(words.stall(rng, thing))
        agent.hear(_dated(agent, nag) if is_dated else nag)
    if nags:
        perform(agent, work(rng, rng.randint(18, 40)))
        agent.say(words.finished(rng, thing))
    return agent.steps, first + 2


def _piled(rng: Random, nag: str, nags: int = 0) -> Run:
    """Announce, where the harness drops the announcement and keeps its own nag."""
    agent = _agent(rng, CHAT, "whole")
    agent.hear(words.task(rng))
    first = rng.randint(0, 4)
    perform(agent, work(rng, first))
    thing = words.file(rng)
    for _ in range(nags or rng.randint(30, 50)):
        agent.say(words.stall(rng, thing))
        agent.turns[-1] = Turn("user", nag)
    if nags:
        perform(agent, work(rng, rng.randint(18, 40)))
        agent.say(words.finished(rng, thing))
    return agent.steps, first + 2


def _reminded(rng: Random, dialect: Dialect, nag: str) -> Run:
    """Work, with a reminder now and then to a model that stops to talk."""
    agent = _agent(rng, dialect, "whole")
    agent.hear(words.task(rng))
    for _ in range(rng.randint(6, 12)):
        perform(agent, work(rng, rng.randint(2, 4)))
        agent.say(words.stall(rng, words.file(rng)))
        agent.hear(nag)
    agent.say(words.finished(rng, words.file(rng)))
    return agent.steps, 0


def _talked_to(rng: Random, dialect: Dialect, style: str) -> Run:
    """Talk with a person at length; tools are offered, and hardly used."""
    agent = _agent(rng, dialect, "whole")
    agent.gap = (4.0, 60.0)
    agent.hear(words.question(rng))
    for number in range(1, rng.randint(22, 60)):
        if style == "person":
            agent.say(words.facts(rng, 1, 6))
            agent.hear(words.question(rng))
        elif style == "interview":
            agent.say(f"Thank you. {words.question(rng)}")
            agent.hear(words.facts(rng, 1, 3))
        else:
            agent.say(f"Idea {number}: {words.facts(rng, 1, 3)}\nShall I go on?")
            agent.hear(rng.choice(("yes", "ok", "next one", "yes, more", "ok next", "hm, next")))
    return agent.steps, 0
