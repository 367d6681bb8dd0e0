"""Stories of agents that see pages and screens: clicks that change nothing, and those that do."""

from __future__ import annotations

import random
from base64 import b64encode
from collections.abc import Callable

from bench.loops.circles import Story, Tell, go_on
from bench.loops.form import COMPUTER
from bench.loops.plain import PAGE
from bench.loops.story import Loop, repeat
from bench.loops.world import Act, Round, World

# pages: what a browser's tool tells after each action


def _page(world: World, title: str, rows: list[str], address: str = "") -> str:
    """Return a page as an outline with references."""
    lines = [f"- Page URL: {address or world.url()}", f"- Page Title: {title}", "- Page Snapshot:"]
    outline = [f"  - {row} [ref=e{number}]" for number, row in enumerate(rows, 3)]
    return "\n".join([*lines, "```yaml", "- generic [ref=e2]:", *outline, "```"])


def _rows(world: World, count: int = 8) -> list[str]:
    kinds = ("link", "button", "textbox", "heading", "text")
    return [f'{world.rng.choice(kinds)} "{world.sentence(4)}"' for _ in range(count)]


def _click(element: str, page: str, *, extra: str = "") -> Act:
    told = f"Clicked {element}.{extra}{PAGE}{page}"
    return Act("browser_click", {"element": element, "ref": "e7"}, told)


def _console(number: int) -> str:
    return f"\n### New console messages\n- [LOG] heartbeat {number} @ app.js:12"


def dead_click(what: str) -> Story:
    """One click that changes nothing, or only a console line or a counter on the page."""

    def story(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
        title, address = world.sentence(4), world.url()
        rows, name = _rows(world), f"{world.noun().title()} button"
        online = world.rng.randint(100, 900)

        def act(index: int) -> Act:
            shown = rows
            if what == "counter":
                shown = [*rows, f'text "{online + index % 7 * 3} people look at this now"']
            page = _page(world, title, shown, address)
            extra = _console(40 + 3 * index) if what == "console" else ""
            return _click(name, page, extra=extra)

        return go_on(world, count, lead, act, wording)

    return story


def menu_round(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
    """Three entries of a menu, clicked in turn; each shows what it showed before."""
    acts = [
        _click(f"Entry {name}", _page(world, name, _rows(world)))
        for name in ("Home", "Orders", "Settings")
    ]
    return repeat(world, acts, count, wording=wording, lead=lead)


def page_end(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
    """Scrolling at the end of a page."""
    page = _page(world, world.sentence(4), _rows(world))
    act = Act("browser_press_key", {"key": "PageDown"}, f"Pressed PageDown.{PAGE}{page}")
    return repeat(world, [act], count, wording=wording, lead=lead)


def lost_element(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
    """An element that is not there, looked for and clicked in turn."""
    page = _page(world, world.sentence(4), _rows(world))
    lost = "Error: the element of ref e41 is not on the page; take a new snapshot."
    acts = [
        Act("browser_click", {"element": "Submit order", "ref": "e41"}, lost),
        Act("browser_snapshot", {}, f"Snapshot.{PAGE}{page}"),
    ]
    return repeat(world, acts, count, wording=wording, lead=lead)


def wizard(world: World, count: int) -> list[Round]:
    """The same click through pages of a wizard that look alike."""
    rounds: list[Round] = []
    while len(rounds) < count:
        steps, address = world.rng.randint(8, 14), world.url()
        for step in range(1, steps + 1):
            rows = [f'heading "Step {step} of {steps}: {world.noun()}"', 'textbox "Value"']
            page = _page(world, "Setup", [*rows, 'button "Back"', 'button "Next"'], address)
            rounds.append(Round(world.say("go to the next page"), [_click("Next", page)]))
    return rounds[:count]


def next_pages(world: World, count: int) -> list[Round]:
    """The same click on the next page of a list."""
    return [
        Round(
            world.say("read the next page"),
            [_click("Next page", _page(world, "Results", _rows(world)), extra=_console(index))],
        )
        for index in range(count)
    ]


def scroll_on(world: World, count: int) -> list[Round]:
    """Scrolling through a long page, in which some rows stay."""
    top, rounds = _rows(world, 3), []
    for _ in range(count):
        page = _page(world, "Report", [*top, *_rows(world, 5)], "https://report.example")
        act = Act("browser_press_key", {"key": "PageDown"}, f"Pressed PageDown.{PAGE}{page}")
        rounds.append(Round(world.say("scroll on"), [act]))
    return rounds


def long_form(world: World, count: int) -> list[Round]:
    """A form with many fields, filled in one by one; the page shows what was typed."""
    names = [world.new_name() for _ in range(count)]
    filled: list[str] = []
    rounds = []
    for number, name in enumerate(names):
        filled.append(f'textbox "{name}": {world.noun()} {number}')
        empty = [f'textbox "{other}"' for other in names[number + 1 : number + 5]]
        page = _page(world, "Application", [*filled[-4:], *empty], "https://forms.example/new")
        args = {"element": name, "ref": f"e{number}", "text": world.noun()}
        act = Act("browser_type", args, f"Typed into {name}.{PAGE}{page}")
        rounds.append(Round(world.say(f"fill in {name}"), [act]))
    return rounds


# screens: what is seen is an image


def _image(rng: random.Random) -> str:
    return b64encode(b"\x89PNG\r\n\x1a\n" + rng.randbytes(96)).decode()


def _by_action(action: str, **more: object) -> dict[str, object]:
    return {"action": action, **more}


def _by_type(action: str, **more: object) -> dict[str, object]:
    """Return arguments as OpenAI's computer tool has them."""
    if isinstance(place := more.pop("coordinate", None), list):
        more |= {"x": place[0], "y": place[1], "button": "left"}
    return {"type": action.removeprefix("left_"), **more}


_TOOLS: dict[str, Callable[..., dict[str, object]]] = {"computer": _by_action, COMPUTER: _by_type}


def dead_screen(tool: str, style: str) -> Story:
    """Actions after which the screen is what it was: one click, clicks in turn, or looks."""
    make = _TOOLS[tool]

    def story(world: World, count: int, *, wording: str = "new", lead: int = 0) -> Loop:
        image = _image(world.rng)
        x, y = world.rng.randint(40, 900), world.rng.randint(40, 700)

        def act(index: int) -> Act:
            if style == "near":
                place = [x + world.rng.randint(-4, 4), y + world.rng.randint(-4, 4)]
            else:
                place = [x, y]
            args = make("left_click", coordinate=place)
            if style == "look" and index % 2:
                args = make("screenshot")
            if style == "type" and index % 2:
                args = make("type", text=f"{world.root}\n")
            return Act(tool, args, "", image=image)

        return go_on(world, count, lead, act, wording)

    return story


def live_screen(tool: str, style: str) -> Tell:
    """The same actions, after which the screen is another one each time."""
    make = _TOOLS[tool]

    def story(world: World, count: int) -> list[Round]:
        x, y, rounds = world.rng.randint(40, 900), world.rng.randint(40, 700), []
        for index in range(count):
            args = make("left_click", coordinate=[x, y])
            if style == "scroll":
                args = make("scroll", coordinate=[x, y], scroll_y=600)
            if style == "type" and index % 2:
                args = make("type", text=world.sentence(4))
            act = Act(tool, args, "", image=_image(world.rng))
            rounds.append(Round(world.say("go on"), [act]))
        return rounds

    return story


# how runs begin


def visits(world: World, count: int) -> list[Round]:
    """Return honest first rounds in a browser."""
    rounds = []
    for _ in range(count):
        address = world.url()
        page = _page(world, world.sentence(4), _rows(world), address)
        act = Act("browser_navigate", {"url": address}, f"Opened {address}.{PAGE}{page}")
        rounds.append(Round(world.say("open the page"), [act]))
    return rounds


def glances(tool: str) -> Tell:
    """Return honest first rounds on a screen."""
    make = _TOOLS[tool]

    def start(world: World, count: int) -> list[Round]:
        rounds = []
        for index in range(count):
            place = [world.rng.randint(20, 900), world.rng.randint(20, 700)]
            args = make("left_click", coordinate=place) if index else make("screenshot")
            act = Act(tool, args, "", image=_image(world.rng))
            rounds.append(Round(world.say("look around"), [act]))
        return rounds

    return start
