"""Agents that put what happened into one prompt for each request."""

from __future__ import annotations

import json

from bench.loops.field.run import LOOP, Run
from bench.loops.field.seventh.common import (
    half,
    matter,
    person,
    sentence,
    slug,
)
from bench.loops.field.wire import Json


def _state(run: Run, host: str, path: str, elements: list[str]) -> str:
    first = run.num(3, 9) if not elements else 5
    inner = "\n".join(f"[{first + place * 2}]<{one} />" for place, one in enumerate(elements))
    return (
        f"<browser_state>\nCurrent tab: {host[-4:]}\nAvailable tabs:\nTab {host[-4:]}: "
        f"{host}{path}\n"
        f"Interactive elements from top layer of the current page:\n[Start of page]\n{inner}\n"
        "[End of page]\n</browser_state>"
    )


def _house(run: Run) -> str:
    return f"{run.pick('Hotel', 'Pension', 'Hostel', 'Inn')} {person(run).split()[1]}"


@half.template(
    "no-effect", "browser-use browser-use browser-use", "booking listings", "prompt", "hard"
)
def date_picker(run: Run, way: str) -> None:
    """A date picker closes without a date each time; the prompt has what was done so far."""
    host = f"https://{run.pick('stay', 'fly', 'rail', 'hire')}.example.{run.pick('com', 'org')}"
    city, day = run.pick("Lyon", "Oslo", "Porto", "Graz", "Cork", "Turku"), run.num(2, 28)
    task = {
        LOOP: f"Find the cheapest offer in {city} from {day} March for two nights on {host}.",
        "booking": f"Note the prices in {city} of each day of March on {host}.",
        "listings": f"Collect name and price of the first 30 offers in {city} on {host}.",
    }[way]
    history: list[str] = []
    action: Json
    warm_goals = [
        "Open the page",
        "Accept the cookies",
        "Close the window on the newsletter",
        f"Search for {city}",
        "Choose two guests",
        "Sort by price",
        "Only those with breakfast",
        "Close the map",
    ]
    warm, steps = run.num(4, 8), run.num(22, 32)
    field = f"input type=text placeholder=Check-in aria-label='{matter(run)}'"
    noise = [f"a role=link>{matter(run)}" for _ in range(4)]
    for number in range(steps):
        if way == LOOP and number == warm + 3:
            run.begin()
        names = [f"button>{_house(run)} {run.num(20, 300)} EUR" for _ in range(3)]
        if number < warm:
            goal = warm_goals[number]
            judged, action = "Success", {"click": {"index": run.num(3, 40)}}
            elements, path = [*names, *noise[:2]], f"/{slug(run)}"
        elif way == LOOP:
            goal = run.mix(
                "Open the date picker again|Set the check-in date|Choose the day in the calendar|"
                "Click on the check-in field|Enter the date by keyboard",
                f"to set {day} March.|once more.|.",
            )
            judged = run.pick(
                "Failed - the date field is still empty",
                "Failed - the calendar has closed",
                "Uncertain - I do not see the date",
                "Failed - no date was selected",
            )
            moves: list[Json] = [
                {"click": {"index": 5}},
                {"input": {"index": 5, "text": f"{day} March"}},
                {"input": {"index": 5, "text": f"2027-03-{day:02}"}},
                {"send_keys": {"keys": "Enter"}},
                {"click": {"index": 7}},
            ]
            action = run.pick(*moves)
            elements, path = [field, *noise], "/search"
        else:
            place = number - warm + 1
            what = f"{place} March" if way == "booking" else f"offer {place}"
            goal = run.mix([f"Note the price of {what}", f"Read {what}"], "and go on.|.")
            judged = f"Success - {what} costs {run.num(40, 320)} EUR"
            action = {"click": {"index": run.num(5, 30)}}
            elements = [f"div>{what}: {names[0]}", *names, *noise[:1]]
            path = f"/search?day={place}" if way == "booking" else f"/offer/{run.num(100, 9999)}"
        prompt = (
            "<agent_history>\n"
            + "\n".join(history)
            + f"\n</agent_history>\n<user_request>\n{task}\n"
            f"</user_request>\n<agent_state>\nStep {number + 1} of {steps + 10} max possible "
            f"steps\n"
            f"Current date and time: {run.stamp('%Y-%m-%d %H:%M')}\n</agent_state>\n"
            + _state(run, host, path, elements)
        )
        said = {
            "thinking": run.pick("", f"The user wants {city}. {judged}.", "I go on with the task."),
            "evaluation_previous_goal": judged,
            "memory": f"On {host}, {number} steps done.",
            "next_goal": goal,
            "action": [action],
        }
        run.once(prompt, json.dumps(said))
        run.wait(3, 12)
        history.append(
            f"<step_{number + 1}>\nEvaluation of Previous Step: {judged}\nMemory: "
            f"{said['memory']}\n"
            f"Next Goal: {goal}\nAction Results: {next(iter(action))} done\n</step_{number + 1}>"
        )


@half.template("replanning", "langgraph autogen", "executing batches", "prompt")
def planner(run: Run, way: str) -> None:
    """A planner plans the same two steps anew, as their results never satisfy it."""
    company = f"{person(run).split()[1]} {run.pick('AG', 'Ltd', 'SA', 'Inc')}"
    goal = f"Find the headcount of {company} in {run.num(2015, 2024)} and compare it to last year."
    if way != LOOP:
        goal = (
            f"Fill the table of {company}'s {run.num(22, 30)} sites: address, manager, headcount."
        )
    past: list[str] = []
    sites = [f"{person(run).split()[1].lower()}-{number}" for number in range(30)]
    for number in run.times(20, 28):
        if way == LOOP:
            if number == 4:
                run.begin()
            step = run.mix(
                "Search for|Look up|Retrieve|Find",
                [f"the annual report of {company}", f"the headcount of {company}"],
                "on its website.|in the press.|again with other words.|.",
            )
            result = run.pick(
                "No document found.",
                "The page lists products only; no headcount.",
                "0 results.",
                "The report is not public.",
            )
            if number < 4:
                result = f"{matter(run)}: {result} ({run.hex(4)})"
        else:
            step = f"{run.pick('Look up', 'Read', 'Note')} {sites[number]}."
            result = f"{sites[number]}: {run.num(1, 99)} Hill Rd, {person(run)}, "
            f"{run.num(4, 900)} people"
            if way == "batches":
                step = f"Batch {number + 1}: {sites[number]} and {matter(run)}."
        done = "\n".join(past) or "(none)"
        prompt = (
            f"For the objective below, say what the next step is.\n\nObjective: {goal}\n\nSteps "
            f"that "
            f"were done, with results:\n{done}\n\nAnswer with JSON: next_step, rest."
        )
        rest = [run.pick("Compare both numbers.", "Write the answer."), "Finish."]
        run.once(prompt, json.dumps({"next_step": step, "rest": rest}))
        run.wait(4, 25)
        past.append(f"{number + 1}. {step} -> {result}")


@half.template("refining", "gemini-api crewai", "drafts chapters", "prompt", "hard")
def self_refine(run: Run, way: str) -> None:
    """A draft and its critique come back unchanged, round after round."""
    topic = f"{matter(run)} of {person(run).split()[1].lower()}s"
    lines = [sentence(run) for _ in range(40)]
    draft = " ".join(lines[:6])
    critique = run.pick(
        "Score 7/10. Add a source for the second claim.",
        "Score 6/10. Be more specific about the costs.",
        "Score 7/10. The conclusion should be stronger.",
    )
    for number in run.times(18, 26):
        if way == LOOP and number == 4:
            run.begin()
        if way == LOOP and number >= 3:
            opening = run.pick("", "", "In short: ", "To sum up: ")
            said = opening + draft
            note = critique
        elif way == "chapters":
            said = " ".join(run.some(lines, 6))
            note = f"Chapter {number + 1}: {matter(run)}"
        else:
            draft = " ".join(run.some(lines, 4 + number // 3))
            said = f"{draft} See {matter(run)} ({run.num(1990, 2026)})."
            note = f"Score {min(4 + number // 4, 9)}/10. {run.pick(*lines)} Is that so?"
        head = "Write the next chapter" if way == "chapters" else "Revise the draft by its critique"
        before = "" if way == "chapters" else f"<draft>\n{draft}\n</draft>\n"
        run.once(f"{head} of a text about {topic}.\n{before}<critique>\n{note}\n</critique>", said)
        run.wait(5, 15)
