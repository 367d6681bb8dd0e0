"""Stories of several agents, of agents that only talk, and of harnesses that nag."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from bench.loops.form import Done, Say, Tool
from bench.loops.held_out.editors import CODERS
from bench.loops.held_out.office import PEOPLE, THINGS, TOPICS
from bench.loops.held_out.projects import PROJECTS, stint
from bench.loops.held_out.run import (
    Act,
    Harness,
    Label,
    Plot,
    Teller,
    Told,
    Turn,
    hexes,
    scenario,
)
from bench.loops.scenario import Scenario

CLAUDE, CODEX, GEMINI, OPENCODE, CLINE, ROO, OPENHANDS = CODERS[:7]
DESKS = ("triage", "billing", "shipping")
AGENTS = Harness(
    "OpenAI Agents SDK",
    "responses",
    "gpt-5-mini",
    "",
    [
        *(Tool(f"transfer_to_{desk}_agent", f"Handoff to the {desk} agent") for desk in DESKS),
        Tool("look_up", "Looks a record up", ("record",)),
    ],
    has_item_ids=True,
    headers=lambda _rng: {"user-agent": "Agents/Python 0.6.1"},
)
SUPERVISED = replace(
    AGENTS,
    name="LangGraph",
    form="chat",
    model="gpt-4.1",
    has_item_ids=False,
    headers=lambda _rng: {},
)
TALKERS = Harness(
    "AutoGen", "chat", "gpt-4o", "", (), headers=lambda _rng: {"user-agent": "autogen-python/0.7"}
)
PAIR = replace(TALKERS, name="Agent pair", form="anthropic", model="claude-haiku-4-5")


def handoff(harness: Harness, rng: Random, style: str) -> list[Told]:
    """A case handed to and fro; or with something found out at each desk."""
    thing = rng.choice(THINGS)
    size = rng.choice((2, 3))

    def passed(number: int, of: int) -> Turn:
        here, there = DESKS[number % of], DESKS[(number + 1) % of]
        said = f'{{"assistant": "{there.title()} Agent"}}'
        if harness is SUPERVISED:
            said = f"Successfully transferred to {there}_agent"
        act = Act(f"transfer_to_{there}_agent", {}, said)
        return Turn("", [act], system=f"You are the {here} agent. Hand off what is not yours.")

    def found(number: int) -> Turn:
        what = TOPICS[number % 14]
        told = f"{what}: {rng.choice(PEOPLE).title()} paid {rng.randint(3, 90)}.00, sent by {what}"
        system = f"You are the {DESKS[number % 3]} agent. Hand off what is not yours."
        return Turn("", [Act("look_up", {"record": f"{thing}-{what}"}, told)], system=system)

    turns = [found(number) for number in range(rng.randint(2, 5))]
    if style == "loop":
        turns += [passed(number, size) for number in range(rng.randint(28, 38))]
    else:
        for number in range(rng.randint(7, 9)):
            again = 4 if style == "recovers" and number == 3 else 1
            turns += [passed(number + more, 3) for more in range(again)]
            turns.append(found(number + 5))
        turns.append(
            Turn("All is settled: you get 12.00 back.", system="You are the triage agent.")
        )
    task = f"I paid twice for a {thing} and got none. Who helps me?"
    return Teller(harness, rng).tell(Plot(task, turns))


SEARCHER = "You are a file search specialist. You may read, but not change, the code you are given."
THANKS = (
    "Thank you so much for your help! It was a pleasure to work with you.",
    "You are very welcome! Do not hesitate to reach out if you need anything else.",
    "Thanks again! I will certainly do that. Have a wonderful day!",
    "Likewise! I wish you a great day and much success with the project!",
    "Thank you! I look forward to our next collaboration.",
    "So do I! Take care, and thank you once more.",
)


def talk(harness: Harness, rng: Random, style: str) -> list[Told]:
    """Two agents that thank each other; or that go through a list of questions."""
    lines = [f"Part {topic}: should we say more about the {topic}?" for topic in TOPICS]
    replies = [f"Yes, add that the {topic} was seen by {PEOPLE[0]}." for topic in TOPICS]
    facts = [line for pair in zip(lines, replies, strict=True) for line in pair]
    if style == "loop":
        few = rng.choice((2, 4, 6))
        kind = THANKS[:few]
        begun = facts[: rng.randint(2, 8)]
        lines = begun + [kind[number % few] for number in range(rng.randint(30, 42))]
    else:
        lines = facts[: rng.randint(16, 26)]
        if style == "recovers":
            lines[6:6] = [THANKS[0], THANKS[1], THANKS[0], THANKS[1], "Wait, one part is missing."]
        lines.append("That was the last part. TERMINATE")
    names = ("writer", "critic")
    teller = Teller(harness, rng)
    for number, line in enumerate(lines):
        me = number % 2
        past = [
            Say("assistant" if at % 2 == me else "user", text)
            for at, text in enumerate(lines[:number])
        ]
        frame = replace(
            teller.frame, system=f"You are the {names[me]}. Talk until the text is good."
        )
        begin = Say("user", "Write a page about the old mill together.")
        done = Done(line, (), hexes(rng, 30))
        teller.send([begin, *past], done, frame, shown=lines[max(number - 1, 0) : number])
    return teller.told


def errands(harness: Harness, rng: Random, style: str) -> list[Told]:
    """The same task given to one sub-agent after another; or a task of its own to each."""
    coder = next(one for one in CODERS if one.harness is harness)
    project = rng.choice(PROJECTS)
    parent, opening = Teller(harness, rng), Say("user", f"{project.task} Use agents to search.")
    past: list[Done] = []
    told: list[Told] = []
    for number in range(rng.randint(11, 13) if style == "loop" else 10):
        fixed = style == "loop" and number >= 2
        fixed = fixed or (style == "recovers" and number in (3, 7))
        again = 2 if style == "loop" else number - 1
        noun = project.nouns[again if fixed else number % 10]
        prompt = f"Find where {noun} is changed while it is read, and report file and line."
        hit = coder.read(project.file(noun), project.page(noun), 7)
        none = coder.search(f"{noun}_lock", [])
        report = f"I found no place where {noun} is changed while it is read."
        args = {"description": f"Find {noun}", "prompt": prompt, "subagent_type": "Explore"}
        act = Act("Task" if coder is CLAUDE else "task", args, report)
        done = parent.done(Turn(rng.choice(("", "I ask an agent for that.")), [act]))
        shown = [use.result for use in past[-1].uses] if past else []
        parent.send([opening, *past], done, parent.frame, shown=shown)
        past.append(done)
        child = Teller(harness, rng, start=parent.at)
        child.headers, child.frame = parent.headers, replace(parent.frame, system=SEARCHER)
        told += child.tell(Plot(prompt, [Turn("", [hit]), Turn("", [none]), Turn(report)]))
        parent.at = child.at + 0.4
    if style != "loop":
        end = Done("No place changes them while they are read.", (), hexes(rng, 30))
        parent.send([opening, *past], end, parent.frame)
    return parent.told + told


def attempts(harness: Harness, rng: Random) -> list[Told]:
    """Return the steps of three agents that try the same task at once, each in its own copy."""
    coder = next(one for one in CODERS if one.harness is harness)
    project = rng.choice(PROJECTS)
    told: list[Told] = []
    for number in range(3):
        reads = [
            Turn("", [coder.read(project.file(noun), project.page(noun), 5)])
            for noun in project.nouns[:4]
        ]
        own = stint(coder, project, rng, project.nouns[4 + number * 2 : 6 + number * 2])
        turns = [*reads, *own, Turn("My attempt is complete.")]
        told += Teller(harness, rng, start=number * 0.3).tell(Plot(project.task, turns))
    return told


def said_only(harness: Harness, rng: Random, style: str) -> list[Told]:
    """Announcements without an act, and a harness that asks for one; or acts in between."""
    coder = next(one for one in CODERS if one.harness is harness)
    nag = NAGS.get(harness.name, "Please continue.")
    project = rng.choice(PROJECTS)
    work = stint(coder, project, rng, rng.sample(list(project.nouns), 7))
    plans = [f"I will now open {project.file(noun)} and fix it." for noun in project.nouns[:3]] + [
        "Let me start by running the tests.",
        "Now I am going to make the change.",
    ]
    talks = [Turn(plans[at % 5], says=nag) for at in range(40)]
    begin = work[: rng.randint(2, 7)]
    if style == "loop":
        turns = begin + talks[: rng.randint(26, 36)]
    elif style == "recovers":
        turns = begin + talks[:4] + work[len(begin) :] + [Turn("It is done.")]
    else:
        turns = []
        for at, turn in enumerate(work):
            turns += [talks[at], turn] if at % 2 else [turn]
        turns.append(Turn("Everything is done."))
    return Teller(harness, rng).tell(Plot(project.task, turns))


NAGS = {
    "Cline": "[ERROR] You did not use a tool in your previous response! Please retry with a tool "
    "use.\n\n# Next Steps\n\nIf you have completed the task, use attempt_completion.",
    "Roo Code": "[ERROR] You did not use a tool in your previous response! Please retry with a "
    "tool use.\n\n(This is an automated message, so do not respond to it conversationally.)",
    "OpenHands": "Please continue working on the task on whatever approach you think is suitable."
    "\nIf you think you have solved the task, please finish the interaction.\nIMPORTANT: YOU "
    "SHOULD NEVER ASK FOR HUMAN RESPONSE.",
}


def planning(harness: Harness, rng: Random, style: str) -> list[Told]:
    """A list of tasks written again without work; or with work in between."""
    coder = next(one for one in CODERS if one.harness is harness)
    project = rng.choice(PROJECTS)
    work = stint(coder, project, rng, rng.sample(list(project.nouns), 6))

    def plan(done: int) -> Turn:
        marks = ["completed" if at < done else "pending" for at in range(6)]
        items = [
            {"content": f"Fix {noun}", "status": mark, "step": f"Fix {noun}"}
            for noun, mark in zip(project.nouns, marks, strict=False)
        ]
        name, key = PLANS[harness.name]
        told = {"update_plan": "Plan updated"}.get(name, "Todos have been modified successfully.")
        return Turn(rng.choice(("I update the list.", "")), [Act(name, {key: items}, told)])

    begin = [plan(0), *work[: rng.randint(2, 6)]]
    if style == "loop":
        turns = begin + [plan(rng.choice((0, 1))) for _ in range(rng.randint(26, 36))]
    elif style == "recovers":
        turns = begin + [plan(0) for _ in range(4)] + work[len(begin) - 1 :] + [Turn("Done.")]
    else:
        turns = work[:1]
        for at, turn in enumerate(work[1:]):
            turns += [turn, plan(at // 3)] if at % 2 else [turn]
        turns.append(Turn("All items of the list are done."))
    return Teller(harness, rng).tell(Plot(project.task, turns))


PLANS = {
    "Claude Code": ("TodoWrite", "todos"),
    "Codex": ("update_plan", "plan"),
    "opencode": ("todowrite", "todos"),
}

Story = Callable[[Harness, Random, str], list[Told]]
TABLE: Sequence[tuple[str, Story, Sequence[Harness]]] = (
    ("handoff", handoff, (AGENTS, SUPERVISED, AGENTS)),
    ("thanks", talk, (TALKERS, PAIR, TALKERS)),
    ("same errand", errands, (CLAUDE.harness, OPENCODE.harness)),
    ("announcing", said_only, (GEMINI.harness, OPENCODE.harness)),
    ("nagging", said_only, (CLINE.harness, ROO.harness, OPENHANDS.harness)),
    ("planning", planning, (CLAUDE.harness, CODEX.harness, OPENCODE.harness)),
)


def scenarios(seed: int) -> list[Scenario]:
    """Return the runs of crews, of talkers, and of agents that plan and announce."""
    made: list[Scenario] = []
    for kind, story, harnesses in TABLE:
        for number, harness in enumerate(harnesses):
            for style in ("loop", "moves", "recovers"):
                place = harness.name.lower().replace(" ", "-")
                name = f"{kind.replace(' ', '-')}/{number}-{place}-{style}"
                rng = Random(f"{seed}/{name}")
                is_plain = kind in ("thanks", "nagging") and style != "recovers"
                hard = "medium" if is_plain else "hard"
                label = Label(name, kind, style == "loop", "whole", hard)
                made.append(scenario(label, harness.name, story(harness, rng, style)))
    for coder in (CLAUDE, CODEX, OPENCODE):
        name = f"same-errand/attempts-{coder.harness.name.lower().replace(' ', '-')}"
        rng = Random(f"{seed}/{name}")
        label = Label(name, "same errand", is_loop=False, difficulty="hard")
        made.append(scenario(label, coder.harness.name, attempts(coder.harness, rng)))
    return made
