"""Loops that a whole history shows, and honest runs like them, in the forms of today's agents.

`circles`, `failures`, `services` and `screens` have the stories, `agents` the forms.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from bench.loops import agents as by
from bench.loops import circles, failures, screens, services, story
from bench.loops.circles import Story, Tell
from bench.loops.form import COMPUTER, Entry, Say, Tool
from bench.loops.harness import Harness, Run, tools_for
from bench.loops.plain import WRITTEN
from bench.loops.scenario import Scenario
from bench.loops.world import Round, World

Play = Callable[[Run, list[Round]], None]


@dataclass(frozen=True, slots=True)
class Case:
    """A loop and the honest runs like it, in the form of each of some harnesses."""

    kind: str
    difficulty: str
    loop: Story
    twins: Sequence[Tell]
    harnesses: Sequence[Harness]
    wording: str = ""
    """How a loop's calls are announced; drawn where it is empty."""
    start: Tell = story.opening
    """How a run begins."""
    play: Play = Run.follow
    is_long: bool = False
    """Whether the loop needs many rounds to come round."""

    @property
    def is_errand(self) -> bool:
        """Whether the task has nothing to do with code."""
        return self.kind in ("outbound", "search", "screen", "handoff", "poll")


def scenarios(seed: int = 0) -> list[Scenario]:
    """Return the loops and honest runs of all kinds; other seeds draw other texts and lengths."""
    found: list[Scenario] = []
    numbers: dict[str, int] = {}
    for case in _cases():
        for harness in case.harnesses:
            number = numbers[case.kind] = numbers.get(case.kind, -1) + 1
            found += _tell(seed, f"visible-{case.kind}-{number:02}-{harness.name}", case, harness)
    return found


def _tell(seed: int, stem: str, case: Case, harness: Harness) -> Iterator[Scenario]:
    for which in range(1 + len(case.twins)):
        name = f"{stem}-{f'twin{which}' if which else 'loop'}"
        world = World(random.Random(f"{seed}/{name}"))
        rounds, begins = _honest(world, case, which - 1) if which else _loop(world, case)
        is_noisy = world.rng.random() < 0.7
        run = Run(harness, world, is_noisy=is_noisy, other_tools=_tools(harness, rounds))
        run.begin(services.errand(world) if case.is_errand else world.task())
        case.play(run, rounds)
        yield Scenario(
            name,
            f"visible-{case.kind}",
            not which,
            run.steps,
            harness.name,
            begins,
            difficulty=case.difficulty,
        )


def _tools(harness: Harness, rounds: list[Round]) -> list[Tool]:
    """Return the tools to offer besides the harness's own; none where calls are plain text."""
    if harness.form in WRITTEN:
        return []
    known = {tool.name for tool in harness.tools}
    return [
        tool
        for tool in tools_for(rounds)
        if tool.name not in known and not tool.name.startswith(services.MISSING)
    ]


def _loop(world: World, case: Case) -> story.Loop:
    count, lead = world.rng.randint(25, 48), world.rng.randint(1, 10)
    if case.is_long:
        count, lead = world.rng.randint(54, 60), world.rng.randint(1, 6)
    wording = case.wording or world.rng.choice(("new", "new", "same", "none"))
    rounds, begins = case.loop(world, count, wording=wording, lead=lead)
    if case.start is not story.opening:
        rounds[:lead] = case.start(world, lead)
    return rounds, begins


def _honest(world: World, case: Case, which: int) -> story.Loop:
    count, lead = world.rng.randint(16, 44), world.rng.randint(1, 4)
    return case.start(world, lead) + case.twins[which](world, count) + story.closing(world), 0


# how agents that hand over, or talk, send their requests


def _play_handoffs(run: Run, rounds: list[Round]) -> None:
    """Let the agent that has the conversation ask, with a prompt and tools of its own."""
    tools, rules = run.other_tools, run.world.prose(2)
    for one in rounds:
        run.follow([one])
        for act in one.acts:
            if act.kind.startswith("transfer_to_"):
                run.system = f"You are the {act.kind.removeprefix('transfer_to_')} agent. {rules}"
                run.other_tools = [tool for tool in tools if tool.name != act.kind]


def _play_talk(run: Run, rounds: list[Round]) -> None:
    """Let two agents speak in turn; each sees the other's words as a user's."""
    task, told = run.history, list[str]()
    prompts = [f"You are {who}. {run.world.prose(2)}" for who in ("the writer", "the reviewer")]
    for index, one in enumerate(rounds):
        speaker = index % 2
        heard: list[Entry] = [
            Say("assistant" if place % 2 == speaker else "user", text)
            for place, text in enumerate(told)
        ]
        run.system = prompts[speaker]
        run.send([*task, *heard], run.perform(one))
        told.append(one.text)


# the cases


def _cases() -> Iterator[Case]:
    yield from _same()
    yield from _failing()
    yield from _turning()
    yield from _served()
    yield from _seen()
    yield from _in_company()
    yield from _otherwise_written()


def _same() -> Iterator[Case]:
    kind, reread = "same_result", circles.read_after_edit
    honest = [reread, circles.edit_status_list]
    coders = [by.CLAUDE_CODE, by.CODEX, by.GEMINI_CLI, by.CLINE]
    yield Case(kind, "easy", circles.looks_only(4), honest, coders)
    yield Case(kind, "easy", circles.wasted_reads, [reread], [by.CLAUDE_CODE])
    yield Case(kind, "easy", circles.looks_only(1), [reread], [by.QWEN_CODE, by.OPENHANDS])
    careful = [circles.checked_changes, circles.checked_at_once]
    checking = [by.CLAUDE_CODE, by.CODEX, by.LANGGRAPH]
    yield Case(kind, "medium", circles.idle_checks, careful, checking)
    yield Case(kind, "medium", circles.idle_checks, careful[:1], [by.ROO])
    serving = [by.MCP_CLIENT, by.CLAUDE_CODE_MCP, by.LANGGRAPH, by.AGENTS_SDK]
    yield Case(kind, "medium", services.labelled, [services.ids_are_content], serving)
    for field, action, users in (
        ("action", "sync", [by.MCP_CLIENT, by.CLAUDE_CODE_MCP]),
        ("command", "refresh", [by.LANGGRAPH, by.ADK]),
    ):
        told = services.same_action(field, action)
        yield Case(kind, "medium", told, [services.other_actions(field)], users)


def _failing() -> Iterator[Case]:
    turns = [
        *(by.MCP_CLIENT, by.LANGGRAPH, by.CLAUDE_CODE, by.AGENTS_SDK, by.CLAUDE_CODE_MCP),
        *(by.ADK, by.CODEX, by.GEMINI_CLI, by.OPENHANDS, by.SWE_AGENT, by.QWEN_CODE),
        *(by.PYDANTIC_AI, by.MINI_SWE, by.OPENCODE),
    ]
    for number, (which, harness) in enumerate(zip(failures.FAILURES, turns, strict=True)):
        told = (failures.fails_and_looks if number % 2 else failures.fails)(which)
        level = "medium" if number % 2 else "easy"
        yield Case("same_error", level, told, [failures.is_remedied(which)], [harness])
    kind = "failing_variants"
    hammering = [by.CLAUDE_CODE, by.CODEX, by.QWEN_CODE, by.MINI_SWE]
    yield Case(kind, "hard", circles.hammered, [circles.debugging], hammering, is_long=True)
    for style, users in {
        "flags": [by.CODEX, by.GEMINI_CLI],
        "quotes": [by.CLAUDE_CODE, by.OPENCODE],
        "words": [by.LANGGRAPH, by.MCP_CLIENT],
        "zero_width": [by.AGENTS_SDK, by.LANGGRAPH],
        "homoglyphs": [by.MCP_CLIENT, by.ADK],
    }.items():
        yield Case(kind, "hard", circles.in_other_order(style), [circles.operands], users)
    guessing = [by.CLAUDE_CODE, by.SWE_AGENT, by.OPENHANDS]
    yield Case(kind, "medium", story.variants, [story.sweep], guessing)
    kind, honest = "unknown_tool", [services.corrected_tool]
    same, other = services.unknown_tool(same=True), services.unknown_tool(same=False)
    yield Case(kind, "easy", same, honest, [by.LANGGRAPH, by.GEMINI_CLI])
    yield Case(kind, "medium", other, honest, [by.OPENCODE, by.AGENTS_SDK])


def _turning() -> Iterator[Case]:
    for size, users in {
        9: [by.CLAUDE_CODE, by.CODEX, by.GEMINI_CLI, by.LANGGRAPH],
        12: [by.OPENCODE, by.AGENTS_SDK, by.OPENHANDS],
        16: [by.QWEN_CODE, by.MCP_CLIENT, by.ROO],
        20: [by.CLAUDE_CODE, by.LANGGRAPH, by.MINI_SWE],
    }.items():
        level = "medium" if size < 12 else "hard"
        twins = [circles.checklist(size)]
        yield Case("cycle", level, circles.long_cycle(size), twins, users, is_long=True)
    users = [by.CLAUDE_CODE, by.CODEX, by.OPENCODE]
    yield Case("revert", "medium", story.revert, [story.mutation_test], users)
    tries = [circles.eight_tries, circles.stubborn_test]
    users = [by.CLAUDE_CODE, by.GEMINI_CLI, by.OPENHANDS, by.CLINE_CHAT]
    yield Case("revert", "medium", circles.same_edit, tries, users)
    users = [by.OPENCODE, by.QWEN_CODE, by.SWE_AGENT]
    yield Case("revert", "medium", circles.edit_not_found, [story.retest], users)
    users = [by.LANGGRAPH, by.MCP_CLIENT, by.AGENTS_SDK, by.DSPY]
    yield Case("stagnation", "medium", circles.stuck_step, [circles.moving_steps], users)
    users = [by.CLAUDE_CODE, by.CODEX, by.GEMINI_CLI]
    yield Case("stagnation", "medium", circles.same_plan, [circles.kept_plan], users)
    users = [by.CLAUDE_CODE, by.CODEX, by.LANGGRAPH, by.ROO, by.AGENTS_SDK]
    yield Case("chant_words", "hard", circles.same_words, [circles.similar_words], users)


def _served() -> Iterator[Case]:
    users = [by.LANGGRAPH, by.MCP_CLIENT, by.CREWAI, by.CLAUDE_CODE_MCP]
    yield Case("search", "medium", services.same_hits, [services.new_hits], users)
    users = [by.AGENTS_SDK, by.ADK]
    yield Case("search", "medium", story.reworded_search, [story.research], users)
    users = [by.LANGGRAPH, by.CLAUDE_CODE_MCP, by.AGENTS_SDK, by.PYDANTIC_AI]
    moving = [story.poll, services.patient_poll]
    yield Case("poll", "hard", services.unchanged_poll, moving, users, is_long=True)
    moving = [story.watch_build, story.slow_poll]
    users = [by.CODEX, by.GEMINI_CLI]
    yield Case("poll", "hard", services.tail_poll, moving, users, is_long=True)
    for tool, users in {
        "send_email": [by.LANGGRAPH, by.MCP_CLIENT],
        "post_message": [by.AGENTS_SDK, by.ADK],
        "upload_file": [by.CLAUDE_CODE_MCP, by.AUTOGEN],
        "create_issue": [by.MCP_CLIENT, by.LANGGRAPH],
    }.items():
        twins = [services.many_outbound(tool)]
        yield Case("outbound", "medium", services.same_outbound(tool), twins, users)
    again = services.same_outbound("send_email", reworded=True)
    users = [by.LANGGRAPH, by.PYDANTIC_AI]
    yield Case("outbound", "hard", again, [services.many_outbound("send_email")], users)


def _seen() -> Iterator[Case]:
    kind, pages, start = "screen", [screens.wizard, screens.next_pages], screens.visits
    for what, users in {
        "": [by.PLAYWRIGHT],
        "console": [by.PLAYWRIGHT, by.PLAYWRIGHT_CHAT, by.BROWSER_USE],
        "counter": [by.PLAYWRIGHT, by.BROWSER_USE],
    }.items():
        level = "hard" if what else "easy"
        yield Case(kind, level, screens.dead_click(what), pages, users, start=start)
    for told, twin, users in (
        (screens.menu_round, screens.next_pages, [by.PLAYWRIGHT, by.BROWSER_USE]),
        (screens.page_end, screens.scroll_on, [by.PLAYWRIGHT_CHAT, by.BROWSER_USE]),
        (screens.lost_element, screens.long_form, [by.PLAYWRIGHT_CHAT, by.BROWSER_USE]),
    ):
        yield Case(kind, "medium", told, [twin], users, start=start)
    for tool, harness, styles in (
        ("computer", by.COMPUTER_USE, ("click", "near", "look", "type")),
        (COMPUTER, by.OPENAI_COMPUTER, ("click", "near", "type")),
    ):
        for style in styles:
            level = "hard" if style == "near" else "medium"
            told = screens.dead_screen(tool, style)
            twins = [screens.live_screen(tool, "scroll" if style == "near" else style)]
            yield Case(kind, level, told, twins, [harness], start=screens.glances(tool))


def _in_company() -> Iterator[Case]:
    kind, handed = "handoff", [by.AGENTS_SDK, replace(by.LANGGRAPH, name="langgraph-swarm")]
    for names in (("billing", "triage"), ("sales", "support", "triage")):
        yield Case(
            kind,
            "medium",
            services.ping_pong(names),
            [services.handed_cases(names)],
            handed,
            start=services.handed_cases(names),
            play=_play_handoffs,
        )
    users = [by.AUTOGEN, replace(by.MCP_CLIENT, name="two-agents", tools=())]
    for wording in ("same", "new"):
        yield Case(
            kind,
            "medium",
            services.thanks,
            [services.exchange],
            users,
            wording=wording,
            start=services.exchange,
            play=_play_talk,
        )
    for tool, reworded, users in (
        ("Task", False, [by.CLAUDE_CODE]),
        ("Task", True, [by.CLAUDE_CODE]),
        ("delegate_work", False, [by.LANGGRAPH]),
        ("delegate_work", True, [by.AGENTS_SDK]),
    ):
        told = services.same_subtask(tool, reworded=reworded)
        level = "hard" if reworded else "medium"
        yield Case(kind, level, told, [services.other_subtasks(tool)], users)


def _otherwise_written() -> Iterator[Case]:
    told: list[tuple[str, Story, Tell]] = [
        ("easy", story.same_call, story.retest),
        ("easy", circles.looks_only(3), circles.read_after_edit),
        ("medium", failures.fails("forbidden"), failures.is_remedied("forbidden")),
        ("medium", services.same_hits, services.new_hits),
    ]
    for number, (level, loop, twin) in enumerate(told):
        users = [by.MASTRA, by.MASTRA_CLAUDE]
        yield Case("merged", level, loop, [twin], users, wording="none" if number % 2 else "new")
    users = [by.CREWAI, by.LLAMAINDEX, by.DSPY, by.CLINE, by.ROO, by.MINI_SWE]
    told = [
        *told[:2],
        ("medium", failures.fails_and_looks("not_found"), failures.is_remedied("not_found")),
    ]
    for level, loop, twin in told:
        yield Case("textual", level, loop, [twin], users, wording="new")
    yield Case("textual", "medium", story.cycle(5), [story.cycle_with_edit(5)], users[:4])
