"""Research, browsers, desktops and servers with one tool for everything."""

from __future__ import annotations

import json

from bench.loops.field.cast import Act, tool
from bench.loops.field.run import LOOP, Half, Run, cycle

HALF = Half("first")


@HALF.template("reworded search", "gemini-api langgraph crewai anthropic-mcp", "facts misses")
def battery_facts(r: Run, way: str) -> None:
    c, firm = r.chat(), r.pick("Voltane", "Kiruna Cells", "Helion Pack", "Sodera")
    hits = [
        {
            "title": f"{firm} {what}",
            "url": f"https://{r.pick('news', 'www')}.{r.hex(4)}.example/{r.hex(6)}",
            "snippet": f"{firm} said on Tuesday that {what} was on track, without giving figures. "
            * 2,
        }
        for what in ("opens plant", "signs supply deal", "names new chief")
    ]
    c.user(
        f"How many GWh of cells did {firm} ship in 2026? Cite a source, or say that there is none."
    )
    topics = r.some(
        (
            "capacity",
            "plants",
            "revenue",
            "staff",
            "patents",
            "owners",
            "clients",
            "recalls",
            "price",
            "sites",
        ),
        9,
    )
    if way == "facts":
        for topic in topics:
            found = [
                {**hit, "title": f"{topic}: {r.hex(4)}", "snippet": f"{topic} {r.num(2, 99)}"}
                for hit in hits
            ]
            c.act("The next figure.", tool("search", {"query": f"{firm} {topic} 2026"}, found))
        c.say("Here are the figures with their sources.")
        return
    if way == "misses":
        for page in range(14):
            url = f"https://data.example/cells/{page + 2010}"
            c.act(
                "The next year.",
                tool("fetch", {"url": url}, {"status": 404, "body": "Not Found"}, 1),
            )
        c.say("No year from 2010 to 2023 is archived.")
        return
    c.act("I search.", tool("search", {"query": f"{firm} GWh shipped 2026"}, hits))
    r.begin()
    for _ in r.times(15, 20):
        query = r.mix(
            firm,
            "cells|battery|batteries|annual",
            "shipments|shipped|deliveries|volume|output",
            "2026|in 2026|GWh",
        )
        say = r.mix(
            "Let me refine|I'll rephrase|A better query may help", "the search.|and look again."
        )
        c.act(say, tool("search", {"query": query}, hits))


def _snapshot(url: str, title: str, lines: list[str]) -> str:
    body = "\n".join(f"  - {line} [ref=e{n + 2}]" for n, line in enumerate(lines))
    return (
        f"### Page state\n- Page URL: {url}\n- Page Title: {title}\n- Page Snapshot:\n```yaml\n"
        f"- generic [active] [ref=e1]:\n{body}\n```"
    )


@HALF.template("browser", "anthropic-mcp langgraph claude-code gemini-cli", "wizard results")
def permit_form(r: Run, way: str) -> None:
    c, town = r.chat(), r.pick("Lindau", "Harlow", "Osby", "Tiverton")
    url = f"https://{town.lower()}.example/permits/new"
    c.user(f"Apply for a parking permit in {town} for the plate {r.hex(6).upper()}.")
    form = [
        "heading 'Parking permit'",
        "textbox 'Plate'",
        "textbox 'Insurance number'",
        "button 'Send'",
    ]
    c.act("", tool("browser_navigate", {"url": url}, _snapshot(url, town, form)))
    if way == "wizard":
        for page in range(8):
            at = f"{url}?step={page}"
            part = [f"heading 'Step {page} of 8'", f"textbox '{r.hex(4)}'", "button 'Next'"]
            c.act(
                "Fill and go on.",
                tool("browser_click", {"element": "Next", "ref": "e4"}, _snapshot(at, town, part)),
            )
        c.say("The permit is applied for.")
    elif way == "results":
        for page in range(14):
            part = [f"row 'Zone {page}{r.hex(2)} closed'", "button 'Next page'"]
            c.act(
                "Next page.",
                tool(
                    "browser_click",
                    {"element": "Next page", "ref": "e3"},
                    _snapshot(url, town, part),
                ),
            )
        c.say("No zone has room left; shall I look at the next town?")
    else:
        fault = [*form, "alert 'Insurance number is required'"]
        for turn in r.times(15, 19):
            if turn == 1:
                r.begin()
            shown = _snapshot(url, town, fault) + f"\n- 1 errors, {r.num(0, 3)} warnings in console"
            say = r.mix(
                "I click|Let me click|Press", "Send|the button", "to submit the form.|again."
            )
            c.act(say, tool("browser_click", {"element": "Send button", "ref": "e5"}, shown))
            if turn % 3 == 2:
                c.act(
                    "I look at the page.", tool("browser_snapshot", {}, _snapshot(url, town, fault))
                )


@HALF.template(
    "desktop", "computer-use computer-use computer-use", "scrolls game", difficulty="hard"
)
def printer_dialog(r: Run, way: str) -> None:
    c = r.chat()
    x, y = r.num(300, 900), r.num(200, 600)
    c.user(
        "Print the open document on the printer of the second floor."
        if way != "game"
        else "Win the game of mines on the screen."
    )

    def click(key: str, noise: bool, dx: int = 0, dy: int = 0) -> Act:
        args = {"action": "left_click", "coordinate": [x + dx, y + dy]}
        return tool("computer", args, "", image=r.screen(key, noise))

    c.act("I look first.", tool("computer", {"action": "screenshot"}, "", image=r.screen("start")))
    if way == LOOP:
        r.begin()
        for turn in r.times(15, 19):
            say = r.mix(
                "I click|Now I click", "Print.|on the button Print.|the Print button again."
            )
            if turn % 4 == 3:
                shot = tool("computer", {"action": "screenshot"}, "", image=r.screen("dialog"))
                c.act("The dialog is still there.", shot)
            else:
                c.act(say, click("dialog", turn % 2 == 0, turn % 3 - 1))
        return
    for turn in range(12):
        if way == "scrolls":
            args = {
                "action": "scroll",
                "coordinate": [x, y],
                "scroll_direction": "down",
                "scroll_amount": 5,
            }
            c.act("Further down.", tool("computer", args, "", image=r.screen(f"list {turn}")))
        else:
            c.act("This field is safe.", click(f"board {turn}", True, 24 * turn % 7, 24 * turn % 5))
    c.say("Done.")


@HALF.template("one tool", "anthropic-mcp gemini-api openai-agents qwen-code", "items")
def multi_tool(r: Run, way: str) -> None:
    """A server with one tool: what is done stands in its arguments."""
    c, board = r.chat(), r.pick("Roadmap", "Hiring", "Support", "Events")
    cards = [f"{board[:3].upper()}-{r.num(100, 999)}" for _ in range(14)]
    c.user(f"Move all cards of {board} that are done to the archive.")
    gone = {
        "ok": False,
        "error": "conflict",
        "detail": "card is locked by an automation",
        "req": "",
    }
    c.act("", tool("kanban", {"op": "list", "board": board, "state": "done"}, {"cards": cards}))
    if way == "items":
        for card in cards:
            c.act(
                "Next card.",
                tool("kanban", {"op": "move", "card": card, "to": "archive"}, {"ok": True}),
            )
        c.say(f"All {len(cards)} cards are in the archive.")
        return
    ops = (
        {"op": "get", "card": cards[0]},
        {"op": "unlock", "card": cards[0]},
        {"op": "move", "card": cards[0], "to": "archive"},
    )
    for turn, args in zip(r.times(17, 21), cycle(ops), strict=False):
        if turn == 3:
            r.begin()
        out = {**gone, "req": r.hex(8)}
        if args["op"] == "get":
            out = {"ok": True, "card": cards[0], "locked": True, "read_at": r.stamp()}
        say = r.mix("Now I|Let me|I'll", f"{args['op']} the card", "first.|and go on.|again.")
        c.act(say, tool("kanban", args, out, int(args["op"] != "get")))


@HALF.template(
    "rebuilt prompt", "browser-use browser-use browser-use browser-use", "pages busy", "prompt"
)
def ticket_hall(r: Run, way: str) -> None:
    """An agent whose prompt is made of notes on its own steps and of the page."""
    show = r.pick("Tosca", "Peer Gynt", "Rusalka", "Faust")
    host = f"https://tickets.{r.pick('opera', 'stage', 'hall')}.example"
    ask = f"Find two seats for {show} below {r.num(40, 90)} EUR and put them into the basket."
    notes: list[str] = []
    steps = 14 if way != LOOP else r.num(16, 20)
    for turn in range(steps):
        if turn == 2:
            r.begin()
        rows = [
            f"[{n}]<button>Row {n} seat {n + 4} {r.num(95, 140)} EUR</button>" for n in range(3, 9)
        ]
        state = (
            "\n".join(rows)
            if way == "pages"
            else "[2]<div role=alert>Choose a date first</div>\n[5]<button>Plan</button>"
        )
        index, goal = 5, "open the seating plan"
        if way == "pages":
            index, goal = 20 + turn, f"look at the seats of day {turn + 1}"
        elif way == "busy" and turn < 3:
            state = "[2]<div>You are in the queue. This page reloads by itself.</div>"
        elif way == "busy":
            state, goal = f"[9]<a>Step {turn}: {r.hex(4)}</a>", f"go through step {turn}"
        history = "\n".join(f"<step_{n}>\n{note}\n</step_{n}>" for n, note in enumerate(notes, 1))
        prompt = (
            f"<agent_history>\n{history}\n</agent_history>\n<agent_state>\n<user_request>\n{ask}\n"
            f"</user_request>\n<step_info>Step {turn + 1} of 100, "
            f"{r.stamp('%Y-%m-%d %H:%M')}</step_info>"
            "\n</agent_state>\n<browser_state>\nCurrent tab: "
            f"{r.session[:4].upper()}\nURL: {host}/{show}\n"
            f"{state}\n</browser_state>"
        )
        verdict = "Success" if way == "pages" else r.pick("Uncertain", "Failed", "Unclear")
        said = {
            "thinking": r.mix(
                "The plan is not open.|I still need seats.|No seats are shown.", f"I {goal}."
            ),
            "evaluation_previous_goal": (
                f"{verdict}: {r.mix('the click had|it had', 'no effect.|some effect.')}"
            ),
            "memory": f"{turn} steps done.",
            "next_goal": goal,
            "action": [{"click": {"index": index}}],
        }
        r.once(prompt, json.dumps(said))
        notes.append(
            f"Evaluation: {said['evaluation_previous_goal']}\nNext goal: "
            f"{goal}\nResult: clicked [{index}]"
        )
