"""Retrieval, pages, screens and servers with many actions behind one tool."""

from __future__ import annotations

import json

from bench.loops.field.cast import Act, tool
from bench.loops.field.run import LOOP, Half, Run, cycle

HALF = Half("second")


@HALF.template(
    "reworded search", "langgraph openai-agents gemini-api claude-code", "summaries gone"
)
def handbook(r: Run, way: str) -> None:
    c = r.chat(system="Answer from the handbook only.")
    firm = r.pick("Aldine Freight", "Moss & Reed", "Carrick Tools", "Upland Dairy")
    subject = r.pick("bicycle allowance", "sabbatical", "dog policy", "relocation bonus")
    chunk = [
        {
            "id": f"hb-{n}",
            "score": r.dec(0.4, 0.7, 4),
            "text": f"{firm} Handbook, section {n}. "
            + "Leave is agreed with the line manager in writing. " * 3,
        }
        for n in (12, 31, 7)
    ]
    c.user(f"What does the handbook of {firm} say on the {subject}? Say so if it says nothing.")
    if way == "summaries":
        for number in range(14):
            text = (
                f"Section {number}. "
                + f"{r.pick('Staff', 'Managers', 'Guests')} {r.hex(6)} shall {r.hex(5)}. " * 4
            )
            c.act("Sum up the next section.", tool("open_section", {"number": number}, text))
        c.say("Here is the whole handbook in short.")
        return
    if way == "gone":
        for number in range(13):
            out = {"status": 410, "error": "section was withdrawn"}
            c.act("The next one.", tool("open_section", {"number": 40 + number}, out, 1))
        c.say("Sections 40 to 52 were withdrawn.")
        return
    c.act("", tool("retrieve", {"query": subject, "k": 3}, {"chunks": chunk}))
    r.begin()
    for _ in r.times(15, 19):
        query = r.mix(
            "|policy on|rules for|what about|details:",
            subject,
            "|rules|amount|eligibility|employees|policy|process",
        )
        shown = [{**one, "score": r.dec(0.4, 0.7, 4)} for one in chunk]
        c.act(
            r.mix(
                "Not in there.|These do not answer it.|Nothing yet.",
                "I search anew.|Other words.|Another query.",
            ),
            tool("retrieve", {"query": query.strip(), "k": 3}, {"chunks": shown}),
        )


@HALF.template("browser", "codex anthropic-mcp openai-agents crewai", "more checkout")
def cookie_wall(r: Run, way: str) -> None:
    c, shop = r.chat(), f"https://{r.pick('boots', 'teas', 'lamps', 'knives')}-{r.hex(3)}.example"
    c.user(f"List the prices of all goods at {shop}.")

    def page(inner: str) -> str:
        return (
            '<html lang="en"><head><title>Shop</title></head><body '
            f'data-rid="{r.hex(8)}"><header>Shop</header>'
            f"<main>{inner}</main><footer>© 2027</footer></body></html>"
        )

    wall = (
        '<div id="cmp" role="dialog"><h2>We value your privacy</h2><button '
        'id="ok">Accept all</button></div>'
    )
    c.act("", tool("goto", {"url": shop}, page(wall)))
    if way == "more":
        for _ in range(13):
            goods = "".join(f"<li>{r.hex(5)} <b>{r.dec(5, 90)} €</b></li>" for _ in range(4))
            c.act(
                "Load more.",
                tool(
                    "click",
                    {"selector": "#more"},
                    page(f'<ul>{goods}</ul><button id="more">More</button>'),
                ),
            )
        c.say("These are all prices.")
    elif way == "checkout":
        for number, name in enumerate(("ok", "cart", "address", "zip", "ship", "pay", "sum")):
            c.act(
                "Next step.",
                tool(
                    "click",
                    {"selector": f"#{name}"},
                    page(f'<h2>Step {number}</h2><form id="{r.hex(4)}"></form>'),
                ),
            )
        c.say("I stopped before the payment; the prices are above.")
    else:
        moves = (
            ("click", {"selector": "#ok"}),
            ("click", {"selector": "text=Accept all"}),
            ("press", {"key": "Enter"}),
            ("click", {"selector": "#cmp button"}),
            ("goto", {"url": shop}),
        )
        for turn, (name, args) in zip(r.times(18, 22), cycle(moves), strict=False):
            if turn == 5:
                r.begin()
            c.act(
                r.mix("The dialog is in the way.|I accept the cookies.|Dismissing the dialog."),
                tool(name, args, page(wall)),
            )


@HALF.template(
    "desktop", "computer-use computer-use computer-use", "slides form", difficulty="hard"
)
def login_window(r: Run, way: str) -> None:
    c = r.chat()
    box = [r.num(400, 800), r.num(300, 500)]
    c.user(
        "Open the accounting program and export the year 2026."
        if way != "slides"
        else "Read all slides of the open talk to me."
    )

    def do(action: str, key: str, noise: bool = False, **more: object) -> Act:
        return tool(
            "computer", {"action": action, **more}, "", takes=1.2, image=r.screen(key, noise)
        )

    c.act("", do("screenshot", "desk"))
    if way == "slides":
        for number in range(14):
            c.act(f"Slide {number + 1}.", do("key", f"slide {number}", text="Right"))
        c.say("That was the last slide.")
    elif way == "form":
        for number in range(12):
            c.act("The next field.", do("key", f"field {number} a", text="Tab"))
            c.act("", do("type", f"field {number} b", text=f"{r.num(100, 999)}"))
        c.say("The export is saved.")
    else:
        c.act("I log in.", do("left_click", "login", coordinate=box))
        for turn in r.times(6, 7):
            if turn == 1:
                r.begin()
            c.act(
                "The name field.",
                do("left_click", "login", turn % 2 == 0, coordinate=[box[0] + turn % 2, box[1]]),
            )
            c.act(
                r.mix("I type the password.|The password again."),
                do("type", "login typed", text="hunter2"),
            )
            c.act("Enter.", do("key", "login wrong", turn % 2 == 1, text="Return"))


@HALF.template("one tool", "claude-code langgraph gemini-api opencode", "records")
def actions_server(r: Run, way: str) -> None:
    """One MCP tool, whose actions are JSON in an argument."""
    c, base = r.chat(), r.pick("Contacts", "Assets", "Harvest", "Volunteers")
    name = "mcp__airdesk__execute" if r.form in ("claude-code", "opencode") else "airdesk_execute"
    people = [f"rec{r.hex(10)}" for _ in range(13)]
    c.user(f"Set the field Region to North on the records of the view New in {base}.")
    c.act(
        "",
        tool(
            name, {"action": "list", "params": {"view": "New"}}, {"records": people, "offset": None}
        ),
    )
    if way == "records":
        for one in people:
            params = {"id": one, "fields": {"Region": "North"}}
            c.act("", tool(name, {"action": "update", "params": params}, {"updated": 1}))
        c.say("All 13 are North.")
        return
    calls = (
        {"action": "update", "params": {"id": people[0], "fields": {"Region": "North"}}},
        {"action": "schema", "params": {"table": base}},
        {"action": "update", "params": {"id": people[0], "fields": {"region": "North"}}},
        {"action": "list", "params": {"view": "New"}},
    )
    for turn, args in zip(r.times(18, 22), cycle(calls), strict=False):
        if turn == 4:
            r.begin()
        match args["action"]:
            case "list":
                out: dict[str, object] = {"records": people, "offset": None}
            case "schema":
                out = {
                    "fields": [{"name": "Region", "type": "formula", "editable": False}],
                    "took_ms": r.num(9, 90),
                }
            case _:
                out = {
                    "error": {"type": "FIELD_IS_COMPUTED", "message": "Region"},
                    "request": r.hex(10),
                }
        c.act(
            r.mix(
                "Let me|I'll|Next I",
                "look at it|set it|go on",
                "by the server.|with this action.|once more.",
            ),
            tool(name, args, out, "error" in out),
        )


@HALF.template(
    "rebuilt prompt", "browser-use browser-use gemini-api langgraph", "board later", "prompt"
)
def task_queue(r: Run, way: str) -> None:
    """A planner that is shown its list of tasks and the latest results, and names the next task."""
    place = r.pick("Aarhus", "Nantes", "Zadar", "Lugano")
    aim = f"Find the ten best bakeries of {place}, with addresses."
    if way == "board":
        aim = "Solve the board of sliding numbers; each answer is one move."
    streets = [f"{r.hex(3)} street {r.num(1, 99)}" for _ in range(16)]
    done: list[str] = []
    for turn in range(14) if way != LOOP else r.times(16, 20):
        if turn == 2:
            r.begin()
        match way:
            case "board":
                cells = r.some([str(n) for n in range(1, 10)], 9)
                result, task = (
                    "\n".join(" ".join(cells[n : n + 3]) for n in (0, 3, 6)),
                    f"move {cells[turn % 9]}",
                )
            case "later":
                found = "HTTP 503, busy" if turn < 3 else f"{streets[turn]}, rated {r.dec(4, 5)}"
                result, task = found, f"look at bakery {max(0, turn - 2)}"
            case _:
                result = "PlacesError: OVER_QUERY_LIMIT, the key has no billing account"
                task = r.mix(
                    "search for|list|collect|look up",
                    f"bakeries in {place}",
                    "|with ratings|and addresses|first",
                )
        listed = "\n".join(f"#{n}: {one}" for n, one in enumerate(done[-4:], max(0, turn - 4)))
        prompt = (
            f"OBJECTIVE: {aim}\nNOW: {r.stamp('%d %B %Y, %H:%M:%S')}\nITERATION: "
            f"{turn}\n\nDONE:\n{listed or '-'}\n\n"
            f"LATEST RESULT:\n{result}\n\nReturn JSON with the next task."
        )
        r.once(
            prompt,
            json.dumps(
                {"id": turn, "task": task.strip(), "tool": "move" if way == "board" else "places"}
            ),
        )
        done.append(f"{task.strip()} -> {result.splitlines()[0]}")
        r.wait(1, 4)
