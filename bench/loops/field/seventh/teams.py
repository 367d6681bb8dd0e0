"""Several agents, and agents that say instead of do."""

from __future__ import annotations

from bench.loops.field.cast import read, sh, tool
from bench.loops.field.run import LOOP, Run
from bench.loops.field.seventh.common import (
    FORWARD,
    ask,
    body,
    explore,
    half,
    matter,
    person,
    pytest_out,
    repo,
    sentence,
    snake,
    source,
    talk,
    words,
)


@half.template("ping-pong", "openai-agents langgraph autogen", "tickets", "whole")
def handoffs(run: Run, way: str) -> None:
    """Two agents hand one case to each other, as each thinks that it is the other's."""
    chat = talk(run, way, "Agents: triage, billing, technical. Each can hand over to another.")
    name, ref = person(run), f"R-{run.num(1000, 9999)}"
    chat.user(
        f"{name} was billed twice for a line that does not work ({ref})."
        if way == LOOP
        else "Work off the queue of open cases; give each to billing or technical."
    )
    for _ in run.times(4, 8):
        key = f"R-{run.num(1000, 9999)}"
        args, found = {"query": matter(run)}, {"cases": [key], "owner": person(run)}
        chat.act(
            words(run, "Let me see the case.|History first.|"), tool("find_cases", args, found)
        )
    for number in run.times(18, 28):
        team = ("billing", "technical")[number % 2]
        if number == 2 and way == LOOP:
            run.begin()
        if way == LOOP:
            say = words(
                run,
                "This is a matter of|That belongs to|I can not decide this;|For that, please see|"
                "I am handing this over to",
                [f"{team}.", f"the {team} team."],
            )
            reason = run.mix(
                [f"{ref}: the double bill", f"{ref}", f"Case {ref} of {name}"],
                f"has to be settled by {team} first.|is not ours.|needs {team}.|please take over.",
            )
            out: object = {"assistant": team}
        else:
            ref, name = f"R-{run.num(10_000, 99_999)}", person(run)
            team = run.pick("billing", "technical")
            say = words(run, f"{ref} is for {team}.|Next case.|", quiet=0.3)
            reason = f"{ref}: {name}, {matter(run)}"
            out = {"assistant": team, "result": f"{ref} closed: {matter(run)}"}
        chat.act(say, tool(f"transfer_to_{team}", {"reason": reason}, out))
    chat.say("The case is open." if way == LOOP else "The queue is empty.")


@half.template("mutual-praise", "autogen crewai", "chapters", "whole", "hard")
def writer_and_critic(run: Run, way: str) -> None:
    """A writer sends the same text back, and a critic has the same wish each time."""
    chat = talk(run, way, "You are the writer. The critic answers as a user.")
    topic = matter(run)
    chat.user(f"Write a guide to {topic}, two paragraphs a chapter.", "manager")
    lines = [sentence(run) for _ in range(14)]
    for _ in run.times(4, 6):
        chat.say(" ".join(sentence(run) for _ in range(6)))
        chat.user(
            f"Critic: the part on the {matter(run)} is unclear, please say who decides.", "critic"
        )
    text = " ".join(lines[:8])
    for number in run.times(16, 24):
        if number == 1 and way == LOOP:
            run.begin()
        if way == LOOP:
            chat.say(
                run.mix(
                    "Thank you for the feedback!|Good point.|I agree.|Thanks, I have revised it.|",
                    "Here is the improved version:|The revised text:|Updated:",
                    [text],
                )
            )
            chat.user(
                run.mix(
                    "Critic: Very good.|Critic: Much better!|Critic: Nice work.|Critic: Great,",
                    "Please add an example to the second paragraph.|The second paragraph still "
                    "lacks "
                    "an example.|Could you add an example to paragraph two?",
                ),
                "critic",
            )
        else:
            said = " ".join(sentence(run) for _ in lines)
            chat.say(f"Chapter {number + 1}: {matter(run)}\n{said}")
            wish = f"Now chapter {number + 2}, on {matter(run)}."
            chat.user(run.mix("Critic: Good.|Critic: Accepted.|Critic: Fine.", [wish]), "critic")
    chat.say("TERMINATE")


_NUDGES = {
    "cline": "[ERROR] You did not use a tool in your previous response! Please retry with a "
    "tool use.",
    "mini-swe-agent": "Format error: provide EXACTLY ONE action in triple backticks, found 0 "
    "actions.",
    "openhands": "Please continue working on the task. If you think that you have solved it, "
    "finish.",
    "swe-agent": "Your output was not formatted correctly. You must always include one "
    "discussion and "
    "one command as part of your response.",
}


@half.template("no-action", "cline mini-swe-agent swe-agent", "slips", "whole", "easy")
def announcements(run: Run, way: str) -> None:
    """The model says what it is about to do, and does not; the harness asks it to go on."""
    at = repo(run, "python")
    chat = talk(run, way)
    chat.user(ask(run, at))
    explore(run, chat, at, 4, 9)
    if way == LOOP:
        run.begin()
    for number in run.times(16, 26):
        plan = run.mix(
            "I will now|Next, I'll|Let me|I am going to|Now I will|OK, I'll",
            [
                f"edit {at.files[0]}",
                f"fix {at.func}",
                f"apply the change to {at.func}",
                "make the fix",
            ],
            "and run the tests.|so that the issue is resolved.|.|and then verify it.",
        )
        if way == LOOP or number % 6 == 5:
            lead = "Sorry for the confusion.|You're right.|Understood.|I apologise.|"
            chat.say(run.mix(lead, [plan]) if number else plan)
            chat.user(_NUDGES[run.form])
            continue
        path = f"{at.name}/{snake(run)}_{number}.py"
        if number % 3 == 0:
            act = read(f"{at.root}/{path}", source(run, at, run.num(2, 5)))
        elif number % 3 == 1:
            name = snake(run)
            text = body(run, "python", name)
            act = sh(
                f"cat >> {path} <<'END'\n{text}END\ngit diff --stat",
                f" {path} | {run.num(2, 30)} +",
            )
        else:
            act = sh(
                f"pytest -q tests/test_{snake(run)}.py", pytest_out(run, at.test, run.num(3, 60))
            )
        chat.act(words(run, f"{FORWARD}|{plan}"), act)
    chat.say(f"I will now fix {at.func}." if way == LOOP else f"{at.func} is fixed.")
