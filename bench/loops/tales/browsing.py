"""Tales of agents at a browser or a screen: pages, clicks, forms, screenshots."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from bench.loops.tales.coding import repeat
from bench.loops.tales.noise import Noise, picture
from bench.loops.tales.tale import Case, Deed, Round, Tale, cases_of

SITES = ("fjordferries.example", "brickyard.example", "gardenloans.example", "stampfair.example")
WARES = ("anchor", "bellows", "caliper", "dynamo", "easel", "flask", "gimbal", "hinge", "inkwell",
         "jigsaw", "kiln", "ladder", "mallet", "nozzle", "oar", "pulley", "quiver",
         "reel")  # fmt: skip


def page(site: str, path: str, title: str, lines: Sequence[str], code: str, console: str) -> str:
    """Return what a browser's tool shows after an action."""
    listed = "\n".join(f"  - {line} [ref=e{number}]" for number, line in enumerate(lines, start=11))
    return (
        f"### Ran Playwright code\n```js\n{code}\n```\n\n### New console messages\n{console}\n\n"
        f"### Page state\n- Page URL: https://{site}/{path}\n- Page Title: {title}\n"
        f"- Page Snapshot:\n```yaml\n- generic [ref=e1]:\n{listed}\n```"
    )


def _wares(rng: Random, count: int = 5) -> list[str]:
    return [f'link "{ware} for {rng.randrange(3, 400)} kr"' for ware in rng.sample(WARES, count)]


def _visits(rng: Random, site: str, count: int) -> list[Round]:
    rounds = []
    for number in range(count):
        ware = rng.choice(WARES)
        path = f"{ware}/{rng.randrange(100)}"
        text = page(site, path, f"{ware} - {site}", _wares(rng), "await page.goto(…);", "(none)")
        url = f"https://{site}/{path}"
        rounds.append(
            Round(
                f"Opening page {number + 1}.",
                [Deed("browser_navigate", {"url": url}, text, seconds=2.0)],
                note=f"Saw {path}.",
            )
        )
    return rounds


def dead_click(rng: Random) -> Tale:
    """A click that changes nothing; only a line of the console, or a counter, moves."""
    noise, site = Noise(rng), rng.choice(SITES)
    lines = [*_wares(rng), 'button "Add to basket"', 'text: "Basket: 0"']
    ways = rng.choice((1, 3))

    def make(n: int) -> Round:
        console = f"- [LOG] {noise.stamp()} heartbeat {n + 7} @ https://{site}/app.js:{rng.randrange(900)}"
        code = "await page.getByRole('button', { name: 'Add to basket' }).click();"
        text = page(site, "shop", "Shop", lines, code, console)
        args = {"element": "Add to basket button", "ref": "e16"}
        deed = Deed("browser_click", args, text, seconds=1.5)
        if ways == 3 and n % 3 == 1:
            text = page(site, "shop", "Shop", lines, "await page.waitForTimeout(2000);", console)
            deed = Deed("browser_wait_for", {"time": 2}, text, seconds=2.2)
        elif ways == 3 and n % 3 == 2:
            text = page(site, "shop", "Shop", lines, "", console)
            deed = Deed("browser_snapshot", {}, text)
        said = ("The basket is still empty, I click again.", "Clicking the button.", "")[n % 3]
        return Round(said, [deed], note="The basket is empty.")

    return repeat(
        f"Put two items into the basket of {site}.",
        _visits(rng, site, rng.randrange(2, 8)),
        make,
        rng,
        ways,
    )


def live_clicks(rng: Random) -> Tale:
    """The same button, and a basket that fills."""
    noise, site = Noise(rng), rng.choice(SITES)
    rounds = _visits(rng, site, 2)
    wares, price = _wares(rng), rng.randrange(20, 90)
    for number in range(1, rng.randrange(16, 24)):
        lines = [*wares, 'button "Add to basket"',
                 f'text: "Basket: {number} items, {number * price} kr"']  # fmt: skip
        code = "await page.getByRole('button', { name: 'Add to basket' }).click();"
        console = f"- [LOG] {noise.stamp()} heartbeat @ https://{site}/app.js:{rng.randrange(900)}"
        text = page(site, "shop", "Shop", lines, code, console)
        args = {"element": "Add to basket button", "ref": "e16"}
        rounds.append(
            Round(
                "Clicking the button.",
                [Deed("browser_click", args, text)],
                note=f"{number} items are in the basket.",
            )
        )
    return Tale(
        f"Put {number} of the first item into the basket of {site}.",
        [*rounds, Round("They are in the basket.")],
    )


def end_of_page(rng: Random) -> Tale:
    """Scrolling on at the end of a page."""
    site = rng.choice(SITES)
    lines = _wares(rng, 6)
    code = "() => window.scrollBy(0, 900)"

    def make(n: int) -> Round:
        text = page(site, "list", "List", lines, f"await page.evaluate({code});", "(none)")
        said = ("Scrolling down to see more.", "There must be more below.")[n % 2]
        return Round(said, [Deed("browser_evaluate", {"function": code}, text)], note="Scrolled.")

    return repeat(
        f"Find the cheapest quern on {site}.", _visits(rng, site, rng.randrange(2, 9)), make, rng
    )


def long_page(rng: Random) -> Tale:
    """Scrolling through a long page."""
    site = rng.choice(SITES)
    code = "() => window.scrollBy(0, 900)"
    rounds = _visits(rng, site, 1)
    for _ in range(rng.randrange(16, 26)):
        text = page(site, "list", "List", _wares(rng, 6), f"await page.evaluate({code});", "(none)")
        rounds.append(
            Round(
                "Scrolling down to see more.",
                [Deed("browser_evaluate", {"function": code}, text)],
                note=f"Saw {text[-40:-20]}.",
            )
        )
    return Tale(f"Find the cheapest quern on {site}.", [*rounds, Round("It costs 41 kr.")])


def login_circle(rng: Random) -> Tale:
    """Name, password, submit, and the page asks for the name again."""
    noise, site = Noise(rng), rng.choice(SITES)
    form = ['textbox "Mail"', 'textbox "Password"', 'button "Sign in"']
    user = f"team{rng.randrange(100)}@{site}"

    def make(n: int) -> Round:
        place = n % 4
        if place == 0:
            url = f"https://{site}/login"
            text = page(site, "login", "Sign in", form, "await page.goto(…);", "(none)")
            return Round("To the login page.", [Deed("browser_navigate", {"url": url}, text)])
        if place == 3:
            lines = [*form, 'alert: "Your session has expired. Please sign in."']
            console = f"- [WARN] {noise.stamp()} csrf {noise.hex(16)} mismatch"
            text = page(site, "login", "Sign in", lines, "await page.click(…);", console)
            deed = Deed("browser_click", {"element": "Sign in", "ref": "e13"}, text)
            return Round("Signing in.", [deed], note="The session has expired.")
        field, value = (("Mail", user), ("Password", "<secret>"))[place - 1]
        text = page(site, "login", "Sign in", form, f"await page.fill('{field}', …);", "(none)")
        args = {"element": field, "ref": f"e{10 + place}", "text": value}
        return Round("", [Deed("browser_type", args, text)])

    return repeat(
        f"Sign in to {site} and download the last bill.",
        _visits(rng, site, rng.randrange(2, 6)),
        make,
        rng,
        4,
    )


def wizard(rng: Random) -> Tale:
    """A form of many pages: fill in, fill in, next."""
    noise, site = Noise(rng), rng.choice(SITES)
    rounds = _visits(rng, site, 1)
    for number, ware in enumerate(rng.sample(WARES, rng.randrange(6, 11)), 1):
        lines = [f'textbox "Name of {ware}"', f'textbox "Weight of {ware}"', 'button "Next"']
        where = f"claim/step-{number}"
        for ref, value in (("e11", f"{ware} {noise.hex(4)}"), ("e12", f"{rng.randrange(90)} kg")):
            text = page(site, where, "Claim", lines, "await page.fill(…);", "(none)")
            args = {"element": f"field of {ware}", "ref": ref, "text": value}
            rounds.append(Round("", [Deed("browser_type", args, text)]))
        text = page(site, f"claim/step-{number + 1}", "Claim", _wares(rng, 2), "click", "(none)")
        args = {"element": "Next", "ref": "e13"}
        rounds.append(
            Round(
                "Next page.",
                [Deed("browser_click", args, text)],
                note=f"Filled in the page of {ware}.",
            )
        )
    return Tale(f"File the claim on {site}.", [*rounds, Round("The claim is filed.")])


def frozen_screen(rng: Random) -> Tale:
    """Clicks at slightly different places, and the same screenshot after each."""
    screen = picture(f"dialog {rng.random()}")
    x, y = rng.randrange(200, 900), rng.randrange(200, 600)
    before = _screens(rng, rng.randrange(2, 8))
    kinds = ("left_click", "left_click", "double_click", "screenshot")

    def make(n: int) -> Round:
        kind = kinds[n % 4]
        args: dict[str, object] = {"action": kind}
        if kind != "screenshot":
            args["coordinate"] = [x + rng.randrange(-6, 7), y + rng.randrange(-4, 5)]
        said = ("I click on OK.", "The dialog is still open.", "Let me look again.", "")[n % 4]
        return Round(
            said,
            [Deed("computer", args, "", image=screen, seconds=2.0)],
            note="The dialog is still open.",
        )

    return repeat("Close the dialog and export the sheet as PDF.", before, make, rng, 1)


def _screens(rng: Random, count: int) -> list[Round]:
    rounds = []
    for number in range(count):
        action = rng.choice(("left_click", "key", "type", "scroll"))
        args: dict[str, object] = {"action": action}
        if action in ("left_click", "scroll"):
            args["coordinate"] = [rng.randrange(1280), rng.randrange(800)]
        else:
            args["text"] = rng.choice(("Return", "ctrl+s", "alt+F", "Report", "Page_Down"))
        shot = picture(f"{number} {rng.random()}")
        rounds.append(
            Round(
                "Next, the menu." if number % 2 else "",
                [Deed("computer", args, "", image=shot, seconds=2.0)],
                note=f"Step {number + 1} at the screen.",
            )
        )
    return rounds


def moving_screen(rng: Random) -> Tale:
    """The same key or place many times, and another screenshot after each."""
    rounds = _screens(rng, 2)
    for number in range(rng.randrange(16, 26)):
        args = {"action": "key", "text": "Page_Down"}
        shot = picture(f"page {number} {rng.random()}")
        rounds.append(
            Round(
                "Next page.",
                [Deed("computer", args, "", image=shot, seconds=2.0)],
                note=f"Read page {number}.",
            )
        )
    return Tale("Read the manual on the screen and sum it up.", [*rounds, Round("A summary: …")])


def filling_sheet(rng: Random) -> Tale:
    rounds = _screens(rng, rng.randrange(20, 30))
    return Tale("Enter the figures and export the sheet.", [*rounds, Round("It is exported.")])


def cases() -> list[Case]:
    """Return all cases of this module."""
    loop = {"is_loop": True}
    return [
        *cases_of("browser", "dead-click", dead_click,
                  "playwright-mcp playwright-mcp-anthropic browser-use", **loop,
                  difficulty="hard"),
        *cases_of("browser", "end-of-page", end_of_page, "playwright-mcp browser-use", **loop),
        *cases_of("browser", "login", login_circle, "playwright-mcp playwright-mcp-anthropic",
                  **loop, difficulty="hard"),
        *cases_of("browser", "basket", live_clicks, "playwright-mcp playwright-mcp-anthropic",
                  difficulty="hard"),
        *cases_of("browser", "long-page", long_page, "playwright-mcp-anthropic browser-use"),
        *cases_of("browser", "wizard", wizard, "playwright-mcp browser-use"),
        *cases_of("screen", "frozen", frozen_screen, "computer-use", **loop),
        *cases_of("screen", "pages", moving_screen, "computer-use", difficulty="hard"),
        *cases_of("screen", "sheet", filling_sheet, "computer-use"),
    ]  # fmt: skip
