"""Loops of several agents: side by side under one key, and helpers with the same task again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from random import Random

from bench.loops import words
from bench.loops.moves import CODE_TOOLS, Form, Move, Run, circle, perform, place, reword, work
from bench.loops.speech import (
    ANTHROPIC,
    ANTHROPIC_STREAM,
    CHAT,
    GEMINI,
    GEMINI_STREAM,
    RESPONSES,
    RESPONSES_STREAM,
    Agent,
    Dialect,
    Tool,
    merge,
)


def forms() -> Iterator[Form]:
    """Yield the forms of this module."""
    yield from side_by_side()
    yield from delegation()


# side_by_side


def side_by_side() -> Iterator[Form]:
    """Yield teams with the same first message, of whom one, all or none go in circles."""
    loops: tuple[tuple[Dialect, int, int, str, bool], ...] = (
        (CHAT, 2, 0, "one", False),
        (ANTHROPIC, 5, 4, "one", False),
        (CHAT, 8, 0, "one", True),
        (CHAT, 20, 4, "one", False),
        (CHAT, 5, 4, "one", True),
        (RESPONSES, 4, 0, "one", False),
        (GEMINI_STREAM, 6, 4, "one", False),
        (ANTHROPIC_STREAM, 3, 0, "one", False),
        (CHAT, 3, 4, "all", False),
        (ANTHROPIC, 5, 0, "all", False),
        (GEMINI, 4, 4, "all", False),
        (CHAT, 4, 4, "all", True),
    )
    twins: tuple[tuple[Dialect, int, int, str, bool], ...] = (
        (CHAT, 2, 0, "own", False),
        (ANTHROPIC, 5, 4, "own", False),
        (CHAT, 8, 4, "own", True),
        (GEMINI_STREAM, 6, 4, "own", False),
        (ANTHROPIC_STREAM, 3, 0, "own", False),
        (RESPONSES_STREAM, 4, 0, "same", False),
        (CHAT, 20, 4, "files", False),
        (RESPONSES, 4, 0, "files", False),
        (GEMINI, 5, 4, "files", False),
        (CHAT, 6, 4, "files", True),
        (CHAT, 8, 0, "same", False),
        (CHAT, 8, 4, "same", True),
        (ANTHROPIC, 16, 0, "same", False),
        (GEMINI, 8, 4, "same", False),
        (RESPONSES, 5, 4, "same", False),
    )
    for is_loop, table in ((True, loops), (False, twins)):
        for dialect, size, keep, style, has_fixed_ids in table:
            ids = "-fixed" if has_fixed_ids else ""
            name = f"{style}-{size}-{'trimmed' if keep else 'whole'}-{dialect.name}{ids}"
            make = partial(
                _team,
                dialect=dialect,
                size=size,
                keep=keep,
                style=style,
                has_fixed_ids=has_fixed_ids,
            )
            yield Form("side_by_side", is_loop, name, make)


def _team(
    rng: Random, dialect: Dialect, size: int, keep: int, style: str, *, has_fixed_ids: bool
) -> Run:
    """Begin several agents with the same messages at about the same time."""
    system, asked = words.system(rng), words.task(rng)
    length = max(4, rng.randint(24, 60) // size)
    first, period = rng.randint(0, 3), rng.randint(1, 3)
    loop = work(rng, first) + circle(
        rng, rng.randint(30, 50) if style == "one" else max(10, 80 // size), period
    )
    shared, rewords = work(rng, length), rng.random() < 0.5
    agents, seen = [], []
    for number in range(size):
        agent = Agent(
            rng,
            dialect,
            system,
            CODE_TOOLS,
            start=rng.uniform(0, 5),
            keep=keep,
            has_fixed_ids=has_fixed_ids,
        )
        agent.hear(asked)
        is_stuck = style == "all" or (style == "one" and number == size // 2)
        if is_stuck:
            moves: Sequence[Move] = reword(rng, loop) if rewords else loop
        elif style == "same":
            moves = shared
        elif style == "files":
            moves = _on_own_file(rng, length)
        else:
            moves = work(rng, length)
        perform(agent, moves)
        agent.say(words.finished(rng, "the file"))
        agents.append(agent)
        if is_stuck:
            seen.append(agent.steps[first + period + 1])
    steps = merge(*agents)
    return steps, min((place(steps, step) for step in seen), default=0)


def _on_own_file(rng: Random, count: int) -> list[Move]:
    """Return the same kinds of moves for each agent, on a file of its own."""
    path, failing = words.file(rng), count + rng.randint(2, 9)
    moves = [Move("", "read_file", {"path": path}, words.code(rng))]
    while len(moves) < count:
        old, new = words.fill(rng, "{noun}.{verb}({few})"), words.fill(rng, "{noun}.{verb}()")
        moves.append(Move("", "edit_file", {"path": path, "old": old, "new": new}, "Done."))
        failing -= 1
        result = f"{failing} failed\n{words.error(rng)}"
        moves.append(Move("", "run_tests", {"target": path}, result))
    return moves[:count]


# delegation


TASK = Tool("task", "Start a helper agent.", ("description", "prompt", "subagent_type"))
DELEGATE = Tool(
    "delegate_work_to_coworker",
    "Delegate a specific task to one of the following coworkers: Researcher, Reviewer",
    ("task", "context", "coworker"),
)


def delegation() -> Iterator[Form]:
    """Yield supervisors that give the same task again; and those that give others."""
    loops: tuple[tuple[Dialect, Tool, int, str], ...] = (
        (ANTHROPIC_STREAM, TASK, 0, "equal"),
        (ANTHROPIC, TASK, 4, "near"),
        (CHAT, DELEGATE, 0, "near"),
        (CHAT, DELEGATE, 4, "equal"),
        (CHAT, TASK, 0, "equal"),
        (RESPONSES, TASK, 0, "near"),
        (GEMINI, DELEGATE, 0, "equal"),
    )
    twins: tuple[tuple[Dialect, Tool, int, str], ...] = (
        (ANTHROPIC_STREAM, TASK, 0, "other"),
        (ANTHROPIC, TASK, 4, "other"),
        (CHAT, DELEGATE, 0, "other"),
        (RESPONSES, TASK, 0, "map"),
        (CHAT, DELEGATE, 4, "map"),
        (GEMINI, DELEGATE, 0, "map"),
        (ANTHROPIC_STREAM, TASK, 0, "review"),
        (CHAT, DELEGATE, 0, "review"),
        (CHAT, DELEGATE, 4, "review"),
        (GEMINI, TASK, 0, "review"),
    )
    for is_loop, table in ((True, loops), (False, twins)):
        for dialect, tool, keep, style in table:
            kept = "trimmed" if keep else "whole"
            name = f"{style}-{tool.name.split('_')[0]}-{kept}-{dialect.name}"
            make = partial(_delegated, dialect=dialect, tool=tool, keep=keep, style=style)
            harness = "Claude Code" if tool is TASK else "CrewAI"
            yield Form("delegation", is_loop, name, make, harness)
    for dialect in (CHAT, RESPONSES):
        for is_loop in (True, False):
            make = partial(_handed_over, dialect=dialect, is_loop=is_loop)
            name = f"transfer-{dialect.name}"
            yield Form("delegation", is_loop, name, make, "OpenAI Agents SDK")


def _arguments(tool: Tool, asked: str, context: str) -> dict[str, str]:
    """Return the arguments that give a helper its task."""
    if tool is TASK:
        return {
            "description": " ".join(asked.split()[:4]),
            "prompt": f"{asked}\n\n{context}",
            "subagent_type": "general-purpose",
        }
    return {"task": asked, "context": context, "coworker": "Researcher"}


def _first_message(tool: Tool, arguments: dict[str, str]) -> str:
    if tool is TASK:
        return arguments["prompt"]
    return (
        f"\nCurrent Task: {arguments['task']}\n\nThis is the expected criteria for your final "
        "answer: Your best answer to your coworker asking you this, accounting for the context "
        f"shared.\n\nThis is the context you're working with:\n{arguments['context']}\n"
    )


def _delegated(rng: Random, dialect: Dialect, tool: Tool, keep: int, style: str) -> Run:
    """Let a supervisor start a helper in a new conversation each round."""
    supervisor = Agent(rng, dialect, words.system(rng), (tool, CODE_TOOLS[2]), keep=keep)
    supervisor.hear(words.task(rng))
    system, team = words.system(rng), [supervisor]
    path, context = words.file(rng), words.facts(rng, 1, 4, "\n")
    review = f"Review the change in {path} and list what is wrong"
    found, legwork = words.findings(rng), work(rng, rng.randint(1, 3))
    asked = f"Find out what is behind this report and what can be done: {found[0][0]}"
    is_stuck = style in ("equal", "near")
    rounds = rng.randint(12, 24) if is_stuck else rng.randint(10, 16)
    files = words.files(rng, rounds)
    issues = [words.fact(rng) for _ in range(rounds)]
    for number in range(rounds):
        arguments = _arguments(tool, asked, context)
        if style == "near":
            opening = rng.choice(("F", "Please f", "Again: f", "Once more, f"))
            ending = rng.choice((" Go into detail.", "", " Be thorough."))
            arguments = _arguments(tool, opening + asked[1:] + ending, context)
        elif style == "other":
            arguments = _arguments(tool, words.question(rng), words.facts(rng, 1, 4, "\n"))
        elif style == "map":
            arguments = _arguments(tool, f"Summarise what {files[number]} does", context)
        elif style == "review":
            arguments = _arguments(tool, review, context)
        supervisor.say(words.stall(rng, path) if number % 3 == 0 else "", (tool.name, arguments))
        helper = Agent(rng, dialect, system, CODE_TOOLS, start=supervisor.now)
        helper.hear(_first_message(tool, arguments))
        if is_stuck:
            perform(helper, legwork)
            prose = words.reworded(rng, found)
        elif style == "review":
            perform(helper, [Move("", "read_file", {"path": path}, words.code(rng, 12, 30))])
            prose = "\n- ".join((f"{len(issues)} findings left:", *issues))
            issues = rng.sample(issues, max(0, len(issues) - rng.randint(1, 2)))
        else:
            perform(helper, work(rng, rng.randint(1, 3)))
            prose = words.facts(rng, 2, 6)
        helper.say(prose)
        team.append(helper)
        supervisor.now = helper.now
        supervisor.get(prose)
        if style == "review":
            move = _on_own_file(rng, 2)[1]
            supervisor.use("", move.tool, {**move.arguments, "path": path}, "The file was updated.")
    supervisor.say(words.finished(rng, path))
    steps = merge(*team)
    return steps, place(steps, team[2].steps[0])


def _handed_over(rng: Random, dialect: Dialect, *, is_loop: bool) -> Run:
    """Let two agents hand one conversation to each other."""
    systems = {"researcher": words.system(rng), "supervisor": words.system(rng)}
    agent = Agent(rng, dialect, systems["supervisor"])
    agent.hear(words.task(rng))
    found = words.findings(rng)
    for _ in range(rng.randint(15, 30)):
        for here, there in (("supervisor", "researcher"), ("researcher", "supervisor")):
            name = f"transfer_to_{there}"
            agent.system = systems[here]
            agent.tools = (
                Tool(name, f"Handoff to the {there} agent to handle the request.", ()),
                *CODE_TOOLS,
            )
            if here == "researcher" and not is_loop:
                perform(agent, work(rng, rng.randint(1, 3)))
            said = ""
            if here == "researcher":
                said = words.reworded(rng, found) if is_loop else words.facts(rng, 1, 4)
            agent.use(said, name, {}, f'{{"assistant": "{there}"}}')
    agent.system = systems["supervisor"]
    agent.say(words.reworded(rng, found))
    return agent.steps, 3
