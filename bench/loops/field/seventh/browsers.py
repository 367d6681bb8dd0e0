"""Tasks in a browser that shows its pages as trees of roles and names."""

from __future__ import annotations

from bench.loops.field.cast import Act, tool
from bench.loops.field.run import LOOP, Chat, Run
from bench.loops.field.seventh.common import (
    after,
    goods,
    half,
    matter,
    person,
    section,
    slug,
    talk,
    words,
)

_TITLES = (
    "Review of my",
    "Where to buy a",
    "Problem with the",
    "Selling a",
    "Tips for a",
    "Found a",
)
_STEPS = ("Contact", "Address", "Payment", "Documents", "Times", "Terms", "Team", "Review")
_SITES = ("shop", "forum", "gitlab", "map", "admin", "library", "jobs")


class Page:
    """A site: what its pages show."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.host = f"http://{run.pick(*_SITES)}.{run.pick('test', 'example.org', 'example.net')}"
        self.base = run.num(20, 400)
        self.menu = "\n".join(
            f'    - listitem:\n      - link "{section(run)}" '
            f"[ref=e{8 + n}]:\n"
            f"        - /url: /{slug(run)}"
            for n in range(run.num(5, 12))
        )
        self.foot = (
            f'- contentinfo:\n  - text "(c) 2027 {person(run)}"\n  - link "Privacy" [ref=e998]'
        )

    def tree(self, title: str, lines: list[str], path: str = "/") -> str:
        inner = "\n".join(
            f"    - {line} [ref=e{self.base + place * 3}]" for place, line in enumerate(lines)
        )
        return (
            f"### Page state\n- Page URL: {self.host}{path}\n- Page Title: {title}\n"
            f'- Page Snapshot:\n```yaml\n- banner:\n  - link "Home" [ref=e3]\n  - searchbox '
            f'"Search" [ref=e7]\n- navigation:\n  - list:\n{self.menu}\n- main:\n{inner}\n'
            f"{self.foot}\n```"
        )

    def ref(self) -> str:
        return f"e{self.base + 3 * self.run.num(0, 9)}"


def _click(what: str, ref: str, page: str) -> Act:
    return tool("browser_click", {"element": what, "ref": ref}, page, takes=1.5)


def _walk(run: Run, chat: Chat, page: Page, most: int = 6) -> None:
    """Go to a place: each step shows another page."""
    start = page.tree("Home", [f'link "{section(run)}"' for _ in range(6)])
    chat.act(words(run, "Open the site."), tool("browser_navigate", {"url": page.host}, start))
    for _ in run.times(3, most):
        name = section(run)
        lines = [f'link "{section(run)} ({run.num(1, 90)})"' for _ in range(run.num(3, 9))]
        lines.insert(1, f'heading "{name}" [level=1]')
        shown = page.tree(name, lines, f"/{name.lower().replace(' ', '-')}")
        chat.act(words(run, f"Go to {name}.|I see the menu.|"), _click(name, page.ref(), shown))


def _value(run: Run, field: str) -> str:
    """Return what belongs in a field."""
    values = {
        "Postcode": f"{run.num(10_000, 99_999)}",
        "Phone": f"+49 {run.num(100, 999)} {run.num(10_000, 999_999)}",
        "Start date": f"{run.num(1, 28)}/{run.num(1, 12)}/2027",
        "Price": f"{run.dec(2, 900):.2f}",
        "Region": run.pick("North", "South", "Coast", "Valley", "Lakes", "Old Town", "West End"),
        "SKU": f"{run.hex(3).upper()}-{run.num(10, 999)}",
    }
    return values.get(field) or person(run)


@half.template(
    "rejected-form", "langgraph anthropic-mcp openai-agents", "records wizard", "whole", "hard"
)
def form_errors(run: Run, way: str) -> None:
    """A form rejects each submission with one message; the fields are filled in alike again."""
    chat, page = talk(run, way, "You have a browser by the Playwright MCP server."), Page(run)
    what = run.pick("supplier", "address", "product", "issue", "booking", "volunteer")
    chat.user(
        f"Create the {what} of {person(run)} on {page.host}."
        if way == LOOP
        else f"Fill in the application of {person(run)} on {page.host}; it has twelve pages."
        if way == "wizard"
        else f"Create each {what} from the list I mailed you on {page.host}: 12 entries."
    )
    _walk(run, chat, page)
    fields = run.some(("Name", "Postcode", "Phone", "Start date", "Price", "Region", "SKU"), 3)
    values = {one: _value(run, one) for one in fields}
    error = run.pick(
        f"{fields[0]} is not valid.",
        f"Please enter a value for {fields[1]}.",
        "The form has errors. Please check your input.",
        f"{fields[2]} must be in the expected format.",
    )
    blank = [f'textbox "{one}"' for one in fields] + [f'button "Save {what}"']
    for number in range(run.num(8, 12)):
        if number == 2 and way == LOOP:
            run.begin()
        if way != LOOP:
            values = {one: _value(run, one) for one in fields}
        field = run.pick(*fields)
        value = values[field]
        if way == LOOP:
            value = run.pick(value, value.title(), f" {value}", value)
        filled = page.tree(
            f"New {what}", [f'textbox "{one}": {values[one]}' for one in fields], "/new"
        )
        chat.act(
            words(
                run,
                after(
                    number,
                    "The form was not accepted.|An error again.|I have to correct the field.",
                )
                if way == LOOP
                else "The next step.|Now this page.|"
                if way == "wizard"
                else f"Next {what}.|",
                f"Fill in {field}.|",
            ),
            tool("browser_type", {"element": field, "ref": page.ref(), "text": value}, filled),
        )
        if run.chance.random() < 0.4:
            other = run.pick(*fields)
            args = {"element": other, "ref": page.ref(), "text": values[other]}
            chat.act("", tool("browser_type", args, filled))
        shown = page.tree(f"New {what}", [*blank, f'alert: "{error}"'], "/new")
        if way == "records":
            lines = [f'alert: "Saved {what} {run.num(1000, 9999)}"', *blank]
            shown = page.tree(f"New {what}", lines, f"/{what}/{run.num(1000, 9999)}")
        elif way == "wizard":
            lines = [f'textbox "{matter(run)}"' for _ in range(run.num(1, 5))]
            name = f"Step {number + 1} of 12: {run.pick(*_STEPS)}"
            shown = page.tree(name, [f'heading "{name}"', *lines], f"/new?step={number + 1}")
        chat.act(
            words(run, "Submit.|Now save it.|Click Save.|", quiet=0.3),
            _click(f"Save {what}", page.ref(), shown),
        )
    chat.say(f"The {what} was submitted." if way == LOOP else "All of them are created.")


@half.template("dead-click", "anthropic-mcp gemini-api langgraph", "expanding carts")
def no_effect(run: Run, way: str) -> None:
    """A button does nothing when it is clicked; it is clicked again, by other names too."""
    chat, page = talk(run, way, "You have a browser by the Playwright MCP server."), Page(run)
    aim = run.pick("Download report", "Apply filter", "Place order", "Load more", "Export CSV")
    chat.user(
        f"On {page.host}, use '{aim}' and tell me the total that it shows."
        if way == LOOP
        else f"On {page.host}, go through all of the entries behind '{aim}' and list the prices."
    )
    _walk(run, chat, page, 7)
    lines = [f'heading "{goods(run)}"', *(f'cell "{run.dec(3, 900)}"' for _ in range(5))]
    same = page.tree(aim, [*lines, f'button "{aim}"'], "/report")
    hidden = (
        "Error: TimeoutError: locator.click: Timeout 5000ms exceeded.\nCall log:\n  - waiting for "
        f"locator('aria-ref={page.ref()}')\n    - <div class=\"overlay\"></div> intercepts pointer "
        "events"
    )
    total = [*lines]
    for number in run.times(19, 29):
        if number == 3 and way == LOOP:
            run.begin()
        if way == LOOP:
            ref = page.ref()
            deeds = [
                (f"Let me click '{aim}' again.", _click(aim, ref, same)),
                ("I'll click the button itself.", _click(f"{aim} button", ref, same)),
                ("Another click.|Maybe it needs a second click.", _click(aim, ref, hidden)),
                (
                    "Let me take a snapshot.|What is on the page?",
                    tool("browser_snapshot", {}, same),
                ),
                ("Press Enter instead.", tool("browser_press_key", {"key": "Enter"}, same)),
                ("I'll wait a little.", tool("browser_wait_for", {"time": run.num(2, 5)}, same)),
            ]
            doing, act = run.pick(*deeds)
            say = words(
                run,
                after(
                    number, "The page did not change.|Nothing happened.|It does not respond.|Hmm.|"
                ),
                doing,
            )
            chat.act(say, act)
        elif way == "expanding":
            total += [f'cell "{goods(run)}": {run.dec(2, 700)}' for _ in range(run.num(2, 5))]
            shown = page.tree(aim, [*total[-14:], f'text "{len(total)} rows"', f'button "{aim}"'])
            chat.act(words(run, "More rows.|Go on.|", quiet=0.5), _click(aim, "e91", shown))
        else:
            name = f"{goods(run)} {run.num(1, 99)}"
            lines = [f'heading "{name}"', f'text "Price {run.dec(2, 90)}"', 'button "Add to cart"']
            shown = page.tree(name, lines, f"/p/{run.num(100, 999)}")
            chat.act(words(run, "The next one.|", quiet=0.5), _click(name, page.ref(), shown))
    chat.say("The page does not respond." if way == LOOP else "Here are all of the prices.")


@half.template(
    "circular-pages", "openai-agents langgraph gemini-api", "catalogue threads", "whole", "hard"
)
def two_pages(run: Run, way: str) -> None:
    """The browser goes back and forth between a list and the same two entries of it."""
    chat, page = talk(run, way, "You have a browser by the Playwright MCP server."), Page(run)
    name = person(run)
    chat.user(
        f"How many comments of {name} on {page.host} have more downvotes than upvotes?"
        if way == LOOP
        else f"For each thread in the forum of {page.host}: who wrote it, and how many answers?"
    )
    _walk(run, chat, page)
    posts = [f"{run.pick(*_TITLES)} {goods(run)}" for _ in range(2)]
    entries = [f'link "{post}"' for post in posts]
    overview = page.tree("Posts", [*entries, f'text "{name}"'], "/posts")
    views = [
        page.tree(
            post, [f'heading "{post}"', f'text "{run.num(2, 60)} points"', 'link "back"'], f"/{n}"
        )
        for n, post in enumerate(posts)
    ]
    for number in run.times(9, 14):
        if number == 2 and way == LOOP:
            run.begin()
        if way == LOOP:
            which = run.num(0, 1) if number > 1 else number
            post, view, listed = posts[which], views[which], overview
        else:
            post = f"{run.pick(*_TITLES)} {goods(run)}"
            answers = [f'article "{person(run)}: {goods(run)}"' for _ in range(run.num(1, 6))]
            view = page.tree(post, [f'heading "{post}"', *answers], f"/t/{run.num(100, 9999)}")
            seen = [f'link "{post}" [visited]', f'link "{goods(run)}"']
            listed = page.tree("Threads", seen, f"/threads?page={number // 3 + 1}")
        chat.act(
            words(
                run,
                "I need to look at this post.|Let me open it.|I should check its comments.|Now",
                [f"'{post}'."],
            ),
            _click(post, page.ref(), view),
        )
        back = run.pick(
            tool("browser_navigate_back", {}, listed),
            tool("browser_navigate", {"url": f"{page.host}/posts"}, listed),
        )
        say = "The comments are not here. Back.|That is not it. Back to the list.|Let me go back.|"
        chat.act(words(run, say if way == LOOP else "Noted. Back.|Back to the list.|"), back)
    chat.say("I could not find the comments." if way == LOOP else "The table is complete.")


@half.template("empty-search", "anthropic-mcp openai-agents", "stock", "elided")
def site_search(run: Run, way: str) -> None:
    """A shop's search finds nothing; the same words are sent in another order, and again."""
    chat, page = talk(run, way, "You have a browser by the Playwright MCP server."), Page(run)
    parts = run.some(("steel", "folding", "kettle", "lamp", "teal", "bamboo", "mini", "travel"), 3)
    chat.user(
        f"Find the price of the {' '.join(parts)} on {page.host}."
        if way == LOOP
        else f"Check for each of the 25 articles of the attached list whether {page.host} has it."
    )
    _walk(run, chat, page)
    for number in run.times(18, 28):
        if number == 4 and way == LOOP:
            run.begin()
        terms = run.some(parts, run.pick(2, 3, 3))
        query = run.pick(" ".join(terms), "-".join(terms), f'"{" ".join(terms)}"', " ".join(terms))
        lines = [f"text \"0 results for '{query}'\"", 'text "Did you mean: lamps?"']
        if way != LOOP:
            query = f"{goods(run)} {run.num(10, 99)}"
            found = run.num(0, 3)
            lines = [f"text \"{found} results for '{query}'\""]
            lines += [f'link "{query}": {run.dec(3, 99)}' for _ in range(found)]
        say = words(
            run,
            after(number, "No results.|Nothing found with that.|Zero hits.|Let me try other words.")
            if way == LOOP
            else "The next article.|Noted.|",
            f"Search for {query}.|",
        )
        shown = page.tree("Search", lines, f"/search?q={query.replace(' ', '+')}")
        args = {"element": "Search", "ref": "e7", "text": query, "submit": True}
        chat.act(say, tool("browser_type", args, shown))
    chat.say("It is not sold there." if way == LOOP else "The list is complete.")


@half.template("login-bounce", "langgraph openai-agents", "tenants portals", "compacted", "easy")
def signed_out(run: Run, way: str) -> None:
    """Each sign-in leads back to the page to sign in; the same credentials are sent again."""
    chat, page = talk(run, way, "You have a browser by the Playwright MCP server."), Page(run)
    user, secret = person(run).replace(" ", ".").lower(), run.hex(10)
    tenants: list[str] = []
    if way == LOOP:
        chat.user(f"Sign in to {page.host} as {user} / {secret} and cancel the last booking.")
        chat.summary = lambda: (
            f"Sign in as {user} has not worked yet. Next: sign in to {page.host}."
        )
    else:
        chat.user(
            f"Sign in to each tenant of {page.host} with its password; note the plan of each."
        )
        chat.summary = lambda: f"Plans noted for: {', '.join(tenants)}. The others remain."
    _walk(run, chat, page)
    form = ['textbox "User"', 'textbox "Password"', 'button "Sign in"']
    asks = page.tree("Sign in", form, f"/login?next=%2Faccount&r={run.hex(4)}")
    for number in run.times(7, 11):
        if number == 2 and way == LOOP:
            run.begin()
        name = user
        if way != LOOP:
            name, secret = f"{person(run).split()[1].lower()}-{run.num(100, 999)}", run.hex(10)
            tenants.append(name)
        typed = page.tree("Sign in", [f'textbox "User": {name}', *form[1:]], "/login")
        args = {"element": "User", "ref": page.ref(), "text": name}
        chat.act(
            words(
                run,
                after(
                    number,
                    "I am back at the page to sign in.|The session is lost.|It asks me to sign in "
                    "again.|"
                    "Not signed in yet.",
                )
                if way == LOOP
                else f"Now {name}.|The next tenant.|",
            ),
            tool("browser_type", args, typed),
        )
        args = {"element": "Password", "ref": page.ref(), "text": secret}
        chat.act("", tool("browser_type", args, typed))
        shown = asks
        if way != LOOP:
            plan = f'text "Plan: {run.pick("Basic", "Team", "Pro")}, {run.num(1, 90)} seats"'
            name = f"Account of {name}"
            shown = page.tree(name, [f'heading "{name}"', plan, 'link "Sign out"'], "/account")
        chat.act(words(run, "Sign in.|", quiet=0.5), _click("Sign in", page.ref(), shown))
    chat.say("I cannot sign in." if way == LOOP else "Here are the plans.")
