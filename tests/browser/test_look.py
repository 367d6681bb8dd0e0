"""The dashboard for everybody: readable, named, narrow or wide, and with the keyboard alone."""

from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import expect
from tests.browser.agent import Agent
from tests.browser.scene import scene

FOLDER = Path(__file__).parent
PHONE = {"width": 360, "height": 740}
STEPS = 16
"""So far is each page walked along with the keyboard."""
THEMES = ("light", "dark")

FOCUSED = """() => {
    const one = document.activeElement, style = getComputedStyle(one);
    return [style.outlineStyle, parseFloat(style.outlineWidth), one.outerHTML.slice(0, 120)];
}"""

# What is drawn follows the new width a frame later.
WIDTH = """() => new Promise((resolve) => {
    const tell = () => resolve(document.documentElement.scrollWidth);
    requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(tell)));
})"""


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    with scene(tmp_path_factory.mktemp("scene")) as one:
        yield one


def found(tab, check):
    """Run a check in the page; return what it found."""
    told = tab.page.evaluate((FOLDER / check).read_text("utf-8"))
    assert told["seen"] > 10, "there was next to nothing to look at"
    return told["found"]


def settled(tab, page):
    """Open a page and wait until it shows what it is about."""
    tab.go(page.place)
    for label, text in page.fills:
        tab.page.get_by_label(label).fill(text)
    for name in page.presses:
        tab.button(name).click()
    expect(tab.page.locator(page.shows).first).to_be_visible()
    expect(tab.page.locator("main .loading")).to_have_count(0)


def unseen_focus(tab):
    """Walk along with the Tab key; return what has the focus without showing it."""
    unseen = []
    for _ in range(STEPS):
        tab.page.keyboard.press("Tab")
        style, width, what = tab.page.evaluate(FOCUSED)
        if what.startswith("<body"):
            break  # once around
        if style == "none" or width < 2:
            unseen.append(f"no focus seen: {what}")
    return unseen


def too_wide(tab):
    """Hold the page as on a phone; say so if it scrolls sideways."""
    before = tab.page.viewport_size
    tab.page.set_viewport_size(PHONE)
    width = tab.page.evaluate(WIDTH)
    tab.page.set_viewport_size(before)
    return [] if width == PHONE["width"] else [f"{width} px wide on a phone"]


@pytest.mark.parametrize("theme", THEMES)
def test_everybody_can_read_and_use_every_page(here, open_tab, theme, pictures):
    gateway, pages = here
    tab = open_tab(gateway, color_scheme=theme)
    told = {}
    for page in pages:
        settled(tab, page)
        pictures.take(tab, f"{page.name}-{theme}", page.height, page.begins)
        wrong = found(tab, "contrast.js") + found(tab, "names.js")
        told[page.name] = wrong + too_wide(tab) + unseen_focus(tab)
    assert not any(told.values()), told


@pytest.mark.parametrize("theme", THEMES)
def test_pages_say_that_nothing_has_happened_yet(serve, open_tab, theme, pictures):
    tab = open_tab(serve(), color_scheme=theme)
    told = {}
    for name in (
        "overview",
        "incidents",
        "calls",
        "callers",
        "settings",
        "try",
        "alerts",
        "status",
    ):
        tab.go("/" if name == "overview" else f"/{name}")
        expect(tab.page.locator("main .loading")).to_have_count(0)
        pictures.take(tab, f"{name}-empty-{theme}")
        told[name] = found(tab, "contrast.js") + found(tab, "names.js")
    assert not any(told.values()), told


def test_names_without_end_are_cut_or_wrapped(serve, open_tab):
    gateway = serve()
    endless = "x" * 200
    agent = Agent(gateway, endless, model=endless)
    agent.statuses([(endless, {"path": endless}, endless)] * 5)
    gateway.until(lambda: gateway.incidents())
    [incident] = gateway.incidents()
    tab = open_tab(gateway, viewport=PHONE)
    caller = f"/callers/{quote(incident.caller, safe='')}"
    for place in (
        "/", "/incidents", f"/incidents/{incident.id}", "/callers?by=session", "/status", "/calls",
        "/calls/1", caller, f"{caller}/sessions/{incident.session}",
    ):  # fmt: skip
        tab.go(place)
        expect(tab.page.locator("main .loading")).to_have_count(0)
        expect(tab.page.locator("main")).to_contain_text("xxx")
        assert tab.page.evaluate("document.documentElement.scrollWidth") == PHONE["width"], place


def test_the_checks_see_what_is_wrong(here, open_tab):
    gateway, _ = here
    tab = open_tab(gateway, "/incidents")
    tab.page.evaluate(
        """() => {
            const pale = document.createElement("p"), nameless = document.createElement("button");
            pale.append("pale");
            pale.style.color = "#aaa";
            pale.style.width = "500px";
            pale.style.margin = "0";
            document.querySelector("main").style.padding = "0";
            document.querySelector("main").append(pale, nameless);
        }"""
    )
    assert [one.partition(":")[0] for one in found(tab, "contrast.js")] == ["p."]
    assert found(tab, "names.js") == ["no name: <button></button>"]
    assert too_wide(tab) == ["500 px wide on a phone"]
