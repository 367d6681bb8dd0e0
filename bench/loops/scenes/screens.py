"""Agents in front of pages and screens, which change after an action or do not."""

from __future__ import annotations

import json
from random import Random

from bench.loops.scenes.cast import Plot
from bench.loops.scenes.remark import Voice
from bench.loops.scenes.run import Act, Run, Turn
from bench.loops.scenes.scene import end, more
from bench.loops.scenes.world import CITIES, NOUNS, clock, person

_BROWSER = "You are an AI agent designed to operate in an iterative loop to automate browser tasks."
_Step = tuple[str, list[dict[str, object]], str, str]
_SCREEN = "You control a desktop through screenshots. Look at each before you act."


def _states(
    rng: Random, wanted: str, steps: list[_Step], verdicts: tuple[str, ...] = ("Success",)
) -> Run:
    """Return a run in which each request has one message: what was done so far, and the page.

    A step has a goal, the actions, the address of the page and its elements.
    """
    history: list[str] = []
    prompts: list[str] = []
    answers: list[str] = []
    for at, (goal, actions, url, elements) in enumerate(steps):
        prompts.append(
            "<agent_history>\n" + "\n".join(history) + "\n</agent_history>\n<agent_state>\n"
            f"<user_request>\n{wanted}\n</user_request>\n<step_info>\nStep {at + 1} of 100 max "
            f"possible steps\nCurrent date and time: {clock(11 * at)[:16]}\n</step_info>\n"
            f"</agent_state>\n<browser_state>\nCurrent url: {url}\nInteractive elements:\n"
            f"{elements}\n</browser_state>"
        )
        verdict = rng.choice(verdicts) if at else "Unknown"
        thought = {"evaluation_previous_goal": verdict, "memory": goal, "next_goal": goal}
        answers.append(json.dumps({**thought, "action": actions}))
        did = "\n".join(
            f"Action {number}/{len(actions)}: {name} {json.dumps(args)}"
            for number, one in enumerate(actions, 1)
            for name, args in one.items()
        )
        history.append(
            f"<step_{at + 1}>\nEvaluation of Previous Step: {verdict}\nMemory: {goal}\n"
            f"Next Goal: {goal}\nAction Results:\n{did}\n</step_{at + 1}>"
        )
    turns = [
        Turn(said, reply=prompt) for said, prompt in zip(answers, [*prompts[1:], "-"], strict=True)
    ]
    return Run(prompts[0], turns, None, _BROWSER, view="alone")


def _click(index: int) -> dict[str, object]:
    return {"click_element_by_index": {"index": index}}


def _with(run: Run, begins: int) -> Run:
    return Run(run.task, run.turns, begins, run.system, view=run.view)


def states(rng: Random) -> list[Run]:
    """A button that does nothing; or forms and lists that go on."""
    city, noun, who = rng.choice(CITIES), rng.choice(NOUNS), person(rng)
    host = f"https://{noun}.example.com"
    wanted = f"Register {who} for the {noun} fair in {city}."
    page = f"[1]<input name=name>{who}</input>\n[2]<select name=city>{city}</select>\n"
    page += "[3]<input type=checkbox>I agree</input>\n[5]<button>Send</button>"
    voice = Voice(rng, 0)
    loop = []
    for at in range(more(rng) + 2):
        index = rng.choice((5, 5, 5, 3)) if at else 5
        shown = page + (f"\n[9]<div>{rng.randint(40, 400)} visitors online</div>" if at % 2 else "")
        goal = voice("retry", "the button Send")
        loop.append((goal, [_click(index)], f"{host}/register", shown))
    runs = [_with(_states(rng, wanted, loop, ("Failed", "Unclear", "Uncertain")), 2)]
    voice = Voice(rng, 0)
    fields = (
        "name",
        "street",
        "city",
        "phone",
        "company",
        "arrival",
        "departure",
        "meals",
        "invoice address",
        "badge",
        "talks",
        "summary",
    )
    honest = [
        (
            voice("do", f"the step {field}"),
            [{"input_text": {"index": 1, "text": f"{who}, {field}"}}, _click(5)],
            f"{host}/register",
            f"[1]<input name={field}></input>\nStep {at + 1} of 12\n[5]<button>Next</button>",
        )
        for at, field in enumerate(fields)
    ]
    done = {"done": {"text": "Registered.", "success": True}}
    honest.append((voice("check", "the confirmation"), [done], f"{host}/done", "Thank you!"))
    runs.append(_states(rng, wanted, honest))
    listed = [
        (
            voice("read", f"page {at + 1}"),
            [_click(7)],
            f"{host}/offers?page={at + 1}",
            "\n".join(f"[{k}]<a>{rng.choice(NOUNS)} offer {at * 5 + k}</a>" for k in range(1, 6))
            + "\n[7]<a>Next page</a>",
        )
        for at in range(rng.randint(14, 30))
    ]
    return [*runs, _states(rng, f"Collect all offers of the {noun} fair.", listed)]


def clicks(rng: Random) -> list[Run]:
    """The screen stays as it is, whatever is clicked; or it changes a little each time."""
    name = rng.choice(NOUNS)
    wanted = f"Open {name}.ods and set its page format to A5, landscape."
    x, y = rng.randint(200, 900), rng.randint(100, 600)

    def click(voice: Voice, what: str, screen: str, dx: int = 0) -> Turn:
        args = {"action": "left_click", "coordinate": [x + dx, y]}
        return Turn(voice("do", what), (Act("computer", args, "", took=2, image=screen),))

    voice = Voice(rng)
    begun = [
        Turn(
            voice("check", "the screen"),
            (Act("computer", {"action": "screenshot"}, "", image=f"desktop {name}"),),
        ),
        click(voice, "the file", f"sheet {name}"),
    ]
    near = rng.random() < 0.6
    loop = begun + [
        click(voice, "the menu Format", f"sheet {name}", rng.randint(-4, 4) if near else 0)
        for _ in range(more(rng) + 2)
    ]
    runs = [Run(wanted, loop, 4, _SCREEN)]
    voice = Voice(rng)
    honest = begun + [
        click(voice, "the arrow for the next size", f"dialog {name} size {at}") for at in range(14)
    ]
    honest.append(click(voice, "the button OK", f"sheet {name} in A5", 90))
    runs.append(Run(wanted, [*honest, end(rng, "the sheet is in A5")], None, _SCREEN))
    voice = Voice(rng)
    typed = begun + [
        Turn(
            voice("do", f"row {at}"),
            (
                Act(
                    "computer",
                    {"action": "key", "text": "Down"},
                    "",
                    image=f"sheet {name} row {at}",
                ),
            ),
        )
        for at in range(rng.randint(18, 35))
    ]
    row = f"Go down {name}.ods row by row and tell me which row is red."
    return [*runs, Run(row, [*typed, end(rng, "the row at the cursor is red")], None, _SCREEN)]


def _snapshot(rng: Random, url: str, title: str, lines: str) -> str:
    console = f"- [LOG] poll {rng.randint(100, 9000)} ok @ {url}/app.js:1\n"
    return (
        f"### New console messages\n{console}\n### Page state\n- Page URL: {url}\n"
        f"- Page Title: {title}\n- Page Snapshot:\n```yaml\n{lines}\n```"
    )


def snapshots(rng: Random) -> list[Run]:
    """A snapshot after each click, with nothing new but a line of the console; or a new page."""
    noun = rng.choice(NOUNS)
    url = f"https://{noun}.example.com"
    wanted = f"Delete the draft {noun} in the web interface."
    lines = (
        f'- heading "{noun.title()}s" [ref=e3]\n- button "Delete" [ref=e12]\n- row "Draft" [ref=e9]'
    )

    def click(voice: Voice, element: str, ref: str, where: str, shown: str) -> Turn:
        args = {"element": element, "ref": ref}
        result = (
            f"### Ran Playwright code\nawait page.click();\n{_snapshot(rng, where, noun, shown)}"
        )
        return Turn(voice("do", element), (Act("browser_click", args, result),))

    voice = Voice(rng)
    loop = [click(voice, "the button Delete", "e12", url, lines) for _ in range(more(rng) + 2)]
    runs = [Run(wanted, loop, 2, difficulty="medium")]
    voice = Voice(rng)
    honest = [
        click(voice, "the button Delete", "e12", url, f'{lines}\n- text "{19 - at} drafts left"')
        for at in range(19)
    ]
    every = f"Delete all twenty drafts of {noun}s, one by one."
    runs.append(Run(every, [*honest, end(rng, "no draft is left")], difficulty="hard"))
    voice = Voice(rng)
    waiting = [click(voice, "the button Delete all", "e14", url, lines)]
    for at in range(10):
        shown = _snapshot(rng, url, noun, f'- progressbar "{at * 10} %" [ref=e20]')
        waiting.append(
            Turn(voice("poll", "it"), (Act("browser_wait_for", {"time": "10"}, shown, took=10),))
        )
    return [*runs, Run(every, [*waiting, end(rng, "all are deleted")])]


def scroll(rng: Random) -> list[Run]:
    """A page is scrolled up and down at its ends; or down through all of it."""
    noun = rng.choice(NOUNS)
    wanted = f"Find the phone number of the {noun} office on the screen."

    def move(voice: Voice, way: str, screen: str) -> Turn:
        args = {"action": "scroll", "coordinate": [640, 400], "scroll_direction": way}
        shot = Act("computer", {**args, "scroll_amount": 5}, "", took=1, image=f"{noun} {screen}")
        return Turn(voice("read", f"what is {way} the page"), (shot,))

    voice = Voice(rng)
    loop = [
        move(
            voice,
            ("down", "down", "up", "up")[at % 4],
            ("middle", "bottom", "middle", "top")[at % 4],
        )
        for at in range(more(rng) + 6)
    ]
    runs = [Run(wanted, loop, 4, _SCREEN, "hard")]
    voice = Voice(rng)
    honest = [move(voice, "down", f"part {at}") for at in range(rng.randint(15, 30))]
    return [*runs, Run(wanted, [*honest, end(rng, "the number is at the very end")], None, _SCREEN)]


PLOTS = (
    Plot("states", states, "browser_use browser_use browser_use"),
    Plot("clicks", clicks, "computer_use computer_use/trimmed computer_use"),
    Plot("snapshots", snapshots, "mcp claude_code adk"),
    Plot("scroll", scroll, "computer_use computer_use"),
)
