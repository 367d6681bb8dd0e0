"""Stories of agents that write mails, serve customers, click through pages, and research."""

from __future__ import annotations

import json
import struct
import zlib
from base64 import b64encode
from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random

from bench.loops.form import COMPUTER, Done, Json, Say, Tool, Use
from bench.loops.held_out.run import (
    Act,
    Harness,
    Label,
    Plot,
    Teller,
    Told,
    Turn,
    anywhere,
    hexes,
    scenario,
    single,
)
from bench.loops.scenario import Scenario

PEOPLE = "amira bruno chen dana elif farid greta hugo ines jonas kofi lena mateo nora olga".split()
THINGS = "kettle lamp rug chair tent stove mirror clock vase shelf blanket basket".split()
TOPICS = "peat alder heron culvert sluice reed carp silt dyke mill weir otter eel moss".split()


def _react(said: str, uses: Sequence[Use]) -> tuple[str, str]:
    """Write a turn as CrewAI does: the observation follows in the same message."""
    lines = [f"Thought: {said or 'I should go on.'}"]
    for use in uses:
        lines += [f"Action: {use.name}", f"Action Input: {json.dumps(dict(use.args))}"]
        if use.result:
            lines.append(f"Observation: {use.result}")
    if not uses:
        lines.append(f"Final Answer: {said}")
    return "\n".join(lines), ""


MAILER = Harness(
    "LangChain agent",
    "chat",
    "gpt-4o",
    "You are an assistant with access to mail and contacts. Do what the user asks.",
    [
        Tool("send_email", "Sends a mail", ("to", "subject", "body")),
        Tool("find_contact", "Finds an address", ("name",)),
        Tool("read_thread", "Reads a thread", ("thread_id",)),
    ],
    extra=lambda _rng: {"temperature": 0.2},
    headers=lambda _rng: {"user-agent": "OpenAI/Python 1.109.1"},
)
ASSISTANT = Harness(
    "OpenAI Agents SDK",
    "responses",
    "gpt-5-mini",
    "You handle the mail of a small office.",
    MAILER.tools,
    has_item_ids=True,
    headers=lambda _rng: {"user-agent": "Agents/Python 0.6.1"},
)
SUPPORT = Harness(
    "Support bot",
    "chat",
    "gpt-4.1-mini",
    "You are the support assistant of a shop for household goods. Be kind and brief. Look orders "
    "up before you say anything about them.",
    [
        Tool("get_order", "Returns an order", ("order_id",)),
        Tool("find_customer", "Finds a customer", ("email",)),
        Tool("search_help", "Searches the help pages", ("query",)),
    ],
    extra=lambda rng: {"temperature": 0.3, "user": f"cust-{hexes(rng, 10)}"},
)
RESEARCH = Harness(
    "Research agent",
    "gemini",
    "gemini-2.5-pro",
    "You research a question on the web until you can answer it with sources.",
    [Tool("google_web_search", "Searches", ("query",)), Tool("web_fetch", "Fetches", ("prompt",))],
    thinks=True,
)
CREW = Harness(
    "CrewAI",
    "chat",
    "gpt-4o-mini",
    "You are Senior Researcher. You dig deep.\nYour personal goal is: find all that is known.\n"
    "You ONLY have access to the following tools, and should NEVER make up tools: search_web",
    (),
    flat=_react,
    extra=lambda _rng: {"stop": ["\nObservation:"]},
)
BROWSER = Harness(
    "browser-use",
    "chat",
    "gpt-4.1",
    "You are an AI agent designed to operate in an iterative loop to automate browser tasks.",
    (),
    extra=lambda _rng: {"response_format": {"type": "json_object"}, "temperature": 0.2},
)
CLICKER = Harness(
    "Computer use (Anthropic)",
    "anthropic",
    "claude-sonnet-4-5",
    "You control a desktop by the computer tool. Take a screenshot after each step.",
    (),
    extra=lambda _rng: {
        "tools": [
            {
                "type": "computer_20250124",
                "name": "computer",
                "display_width_px": 1280,
                "display_height_px": 800,
            }
        ]
    },
    headers=lambda _rng: {"anthropic-beta": "computer-use-2025-01-24"},
)
OPERATOR = Harness(
    "Computer use (OpenAI)",
    "responses",
    "computer-use-preview",
    "You control a browser.",
    [Tool(COMPUTER, "")],
    has_item_ids=True,
    extra=lambda _rng: {"truncation": "auto"},
)


def picture(text: str) -> str:
    """Return a small image that differs with the text, in base64."""
    rng = Random(text)
    rows = b"".join(b"\0" + rng.randbytes(24) for _ in range(8))

    def chunk(name: bytes, inside: bytes) -> bytes:
        total = zlib.crc32(name + inside)
        return struct.pack(">I", len(inside)) + name + inside + struct.pack(">I", total)

    head = struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)
    data = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b64encode(b"\x89PNG\r\n\x1a\n" + data).decode()


def mail(rng: Random, style: str) -> Plot:
    """The same mail sent again; or one to each person."""
    first = rng.choice(PEOPLE)

    def send(name: str, says: str = "") -> Turn:
        args = {
            "to": f"{name}@example.org",
            "subject": "Move of the office",
            "body": f"Dear {name.title()},\n\nwe move on the 4th. Please pack your desk.",
        }
        result = f'{{"status": "queued", "id": "{hexes(rng, 16)}"}}'
        return Turn(says, [Act("send_email", args, result)])

    def find(name: str) -> Turn:
        found = f"{name.title()} <{name}@example.org>, desk {rng.randint(1, 90)}"
        return Turn("", [Act("find_contact", {"name": name}, found)])

    others = [name for name in PEOPLE if name != first]
    turns = [find(name) for name in rng.sample(others, rng.randint(2, 5))]
    task = "Tell everyone on the third floor that the office moves on the 4th."
    said = ("I send the mail.", "Sending it now.", "", "The mail has to go out.")
    if style == "loop":
        turns += [send(first, rng.choice(said)) for _ in range(rng.randint(26, 38))]
        return Plot(task, turns)
    if style == "recovers":
        args = {"to": f"{first}@example.org", "subject": "Move of the office", "body": "Dear all"}
        down = Act("send_email", args, f"SMTP 451 try later (ref {hexes(rng, 8)})")
        turns += [Turn("Trying it again.", [down], wait=4.0) for _ in range(4)]
    for name in rng.sample(others, len(others)):
        if style == "recovers" and rng.random() < 0.4:
            turns.append(find(name))
        turns.append(send(name, rng.choice(said)))
    return Plot(task, [*turns, Turn("Everyone has been told.")])


def support(rng: Random, style: str) -> Plot:
    """An order looked for again and again; or one question after another."""
    order = f"A{rng.randint(10000, 99999)}"
    thing = rng.choice(THINGS)

    def lookup(name: str, key: str, value: str, result: str) -> Turn:
        return Turn(rng.choice(("", "One moment, I look.")), [Act(name, {key: value}, result)])

    def missing() -> str:
        return f'{{"error": "not_found", "trace": "{hexes(rng, 12)}"}}'

    turns = [
        lookup("search_help", "query", "late parcel", "Parcels take three to five days."),
        lookup("search_help", "query", "refund", "Refunds are paid within two weeks."),
        lookup("find_customer", "email", "kim@example.org", "Kim Lund, customer since 2021"),
    ]
    task = f"Hi, where is my {thing}? My order is {order}."
    if style == "loop":
        shapes = [order, order.lower(), f"#{order}"]
        for number in range(rng.randint(26, 36)):
            if number % 4 == 3:
                known = "Kim Lund, customer since 2021"
                turns.append(lookup("find_customer", "email", "kim@example.org", known))
            else:
                turns.append(lookup("get_order", "order_id", shapes[number % 3], missing()))
        return Plot(task, turns)
    if style == "recovers":
        turns += [lookup("get_order", "order_id", order, missing()) for _ in range(3)]
        asks = f"I cannot find {order}. Could you check the number?"
        turns.append(Turn(asks, says="Ah, sorry, wrong paper. It is another one.", wait=38.0))
    bought = {item: f"A{rng.randint(10000, 99999)}" for item in rng.sample(THINGS, 10)}
    items = list(bought)
    for item, after in pairwise(items):
        which = bought[item]
        found = f"{which}: one {item}, sent from the {rng.choice(TOPICS)} depot"
        turns.append(lookup("get_order", "order_id", which, found))
        asks = f"And what about the {after}? That is order {bought[after]}."
        said = f"Your {item} is on its way."
        turns.append(Turn(said, says=asks, wait=rng.uniform(12, 70)))
    return Plot(task, [*turns, Turn("You are welcome. Have a nice day!")])


def research(harness: Harness, rng: Random, style: str) -> Plot:
    """Searches with the same hits; or each with new ones."""
    subject = rng.choice(("lowland mills", "fen drainage", "river toll houses"))
    name, key = ("google_web_search", "query") if harness is RESEARCH else ("search_web", "query")

    def look(query: str, topics: Sequence[str]) -> Turn:
        hits = "\n".join(f"- {one.title()} in old records, https://{one}.example" for one in topics)
        result = f'Web search results for "{subject}":\n{hits or "No results."}'
        return Turn(rng.choice(("", "I search for that.")), [Act(name, {key: query}, result)])

    turns = [look(f"{subject} {topic}", [topic]) for topic in TOPICS[: rng.randint(2, 6)]]
    task = f"Who owned the {subject} before 1700? Give sources."
    words = ("owner before 1700", "owners list", "who owned", "ownership records", "deeds")
    if style == "loop":
        none = rng.random() < 0.4
        for number in range(rng.randint(27, 38)):
            turns += [look(f"{subject} {words[number % 5]}", [] if none else TOPICS[11:])]
        return Plot(task, turns)
    if style == "recovers":
        turns += [look(f"{subject} {word}", []) for word in words[:4]]
    for number, topic in enumerate(TOPICS[6:]):
        turns.append(look(f"{subject} {topic}", [topic]))
        said = f"The {topic} register names {PEOPLE[number].title()} as the owner."
        turns.append(Turn("", [Act(name, {key: f"{topic} register"}, said)]))
    return Plot(task, [*turns, Turn("Eight owners are known; see the registers above.")])


def clicks(harness: Harness, rng: Random, style: str) -> Plot:
    """Clicks that change nothing on the screen; or that lead from one screen to the next."""
    name = "computer" if harness is CLICKER else COMPUTER
    at_x, at_y = rng.randint(200, 900), rng.randint(200, 600)

    def click(screen: str, near: int = 3) -> Turn:
        place = at_x + rng.randint(-near, near), at_y + rng.randint(-near, near)
        args: Json = {"action": "left_click", "coordinate": list(place)}
        if name == COMPUTER:
            args = {"type": "click", "button": "left", "x": place[0], "y": place[1]}
        said = rng.choice(("I click on it.", "", "Clicking the button."))
        return Turn(said, [Act(name, args, "", image=picture(f"{harness.name} {screen}"))])

    turns = [click(f"start {number}", 200) for number in range(rng.randint(2, 5))]
    task = "Fill in the travel form in the open window and send it."
    if style == "loop":
        return Plot(task, turns + [click("stuck") for _ in range(rng.randint(26, 36))])
    if style == "recovers":
        turns += [click("stuck") for _ in range(4)]
    turns += [click(f"page {number}", 3) for number in range(rng.randint(14, 24))]
    return Plot(task, [*turns, Turn("The form is sent; the screen shows its number.")])


def pages(rng: Random, style: str) -> list[Told]:
    """Return steps in the form of browser-use, which writes its history into each prompt."""
    teller = Teller(BROWSER, rng)
    task = "<user_request>Book two tickets for the museum on Sunday.</user_request>"
    same = "Clicked button 'Continue' but the page did not change"
    count = rng.randint(28, 40) if style == "loop" else rng.randint(17, 28)
    begin = rng.randint(3, 6)
    steps: list[str] = []
    page, shown = "Start", "Start"
    for number in range(count):
        history = "\n".join(steps)
        state = f"[12]<button>Continue</button>\nPage: {page}\nstep {number + 1} of 100"
        text = f"<agent_history>\n{history}\n</agent_history>\n{task}\n<browser_state>\n{state}"
        stuck = style == "loop" and number >= begin
        stuck = stuck or (style == "recovers" and begin <= number < begin + 4)
        goal = "Press Continue" if stuck or style != "loop" else f"Open part {TOPICS[number]}"
        thought = {"evaluation_previous_goal": "Unclear", "next_goal": goal}
        reply = json.dumps({**thought, "action": [{"click": {"index": 12}}]})
        if number == count - 1 and style != "loop":
            reply = json.dumps({**thought, "action": [{"done": {"text": "Booked."}}]})
        done = Done(reply, (), hexes(rng, 30))
        teller.send([Say("user", text)], done, teller.frame, shown=[shown])
        if stuck:
            result = same
        else:
            page = f"{TOPICS[number % 14]} {THINGS[number % 12]} form"
            result = f"Clicked button 'Continue', now on {page}"
        shown = f"{goal} {result}"
        steps.append(f"<step_{number + 1}>\nNext Goal: {goal}\nResult: {result}\n</step>")
    return teller.told


Story = Callable[[Harness, Random, str], Plot]
TABLE: Sequence[tuple[str, Story | None, Sequence[Harness]]] = (
    ("same mail", anywhere(mail), (MAILER, ASSISTANT, MAILER)),
    ("support", anywhere(support), (SUPPORT, SUPPORT)),
    ("web research", research, (RESEARCH, CREW, RESEARCH, CREW)),
    ("dead clicks", clicks, (CLICKER, OPERATOR, CLICKER)),
    ("dead pages", None, (BROWSER, BROWSER)),
)


def scenarios(seed: int) -> list[Scenario]:
    """Return the runs of office, support, browser and research agents."""
    made: list[Scenario] = []
    for kind, story, harnesses in TABLE:
        for number, harness in enumerate(harnesses):
            for style in ("loop", "moves", "recovers"):
                place = harness.name.lower().replace(" ", "-")
                name = f"{kind.replace(' ', '-')}/{number}-{place}-{style}"
                rng = Random(f"{seed}/{name}")
                hard = "hard" if style == "recovers" or kind == "same mail" else "medium"
                shows = "kept" if harness is OPERATOR else "whole"
                if story is None:
                    label = Label(name, kind, style == "loop", "prompt", hard)
                    made.append(scenario(label, harness.name, pages(rng, style)))
                    continue
                label = Label(name, kind, style == "loop", shows, hard)
                made.append(single(label, harness, story(harness, rng, style), rng))
    return made
