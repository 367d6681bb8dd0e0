"""The overview: where money is leaving, the demo, and what every page has around it."""

import re

import pytest
from playwright.sync_api import expect
from tests.browser.agent import READ, Agent
from tests.browser.test_auth import TOKENS, knock

PRICED = """
[prices."gpt-5.3"]
input = 2.0
output = 10.0

[[projects]]
name = "research"
keys = ["crawler"]
detection = "shadow"
"""
PHONE = {"width": 390, "height": 780}


def figure(tab, name):
    """Return the value of a figure by its exact name."""
    named = tab.page.locator("dt", has_text=re.compile(f"^{name}$"))
    return tab.page.locator(".figure", has=named).locator(".figure-value")


def test_a_loop_that_is_paid_for_is_louder_than_one_that_is_contained(serve, open_tab):
    gateway = serve(PRICED)
    crawler, ci = gateway.here.add_key("crawler"), gateway.here.add_key("ci")
    # More is refused than passes.
    Agent(gateway, "contained", key=ci).statuses([READ] * 20)
    Agent(gateway, "leaking", key=crawler).statuses([READ] * 6)
    gateway.until(lambda: len({one.caller for one in gateway.incidents(state="open")}) >= 2)
    tab = open_tab(gateway)
    rows = tab.section("Looping now").locator("li")
    expect(rows.first).to_contain_text("an hour leaving")
    expect(rows.first).to_contain_text("key:crawler")
    expect(rows.first).to_have_class("leaking")
    expect(tab.page.locator(".incident-list li.leaking")).to_have_count(1)
    expect(rows.nth(1)).to_contain_text("contained: ")
    expect(rows.nth(1).locator(".badge.good")).to_have_text("refused")
    expect(figure(tab, "Burning now")).to_have_text(re.compile(r"^\$\S+/h$"))
    expect(tab.page.locator(".figure.refused dt")).to_have_text(["Burning now"])
    expect(figure(tab, "Spent by loops")).not_to_have_text("$0.00")
    looping, figures = (
        tab.page.locator(one).first.bounding_box()["y"] for one in (".looping", ".figures")
    )
    assert looping < figures


def test_notices_take_one_line_until_they_are_opened(serve, open_tab):
    tab = open_tab(serve(PRICED))
    notices = tab.page.locator(".notices")
    expect(notices.locator("summary")).to_contain_text("2 notes")
    expect(notices.locator("li").first).not_to_be_visible()
    assert notices.bounding_box()["height"] < 45
    notices.locator("summary").click()
    expect(notices.locator("li")).to_have_count(2)
    expect(notices.locator("li", has_text="project research is in shadow mode")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_an_empty_dashboard_plays_a_demo(serve, open_tab, pictures, theme):
    gateway = serve()
    tab = open_tab(gateway, color_scheme=theme)
    tab.button("Play a demo loop").click()
    expect(tab.page.locator(".toast")).to_contain_text("The demo made 13 calls: 6 were refused.")
    row = tab.section("Looping now").locator("li")
    expect(row.locator(".badge").first).to_have_text("demo")
    expect(figure(tab, "Saved")).to_have_text("$0.00")
    expect(figure(tab, "Requests")).to_have_text("0")
    expect(tab.page.get_by_text("No call has come yet.")).to_be_visible()
    pictures.take(tab, f"demo-{theme}")
    row.get_by_role("link").click()
    expect(tab.section("This is a demo")).to_be_visible()
    expect(tab.section("Money")).to_contain_text("nothing was spent")
    assert gateway.provider.requests == []


def test_the_demo_needs_a_token_that_may_write(serve, open_tab):
    tab = open_tab(serve(**TOKENS), failures=True)
    knock(tab, TOKENS["read_token"])
    expect(tab.button("Play a demo loop")).to_be_disabled()


def test_a_toast_leaves_by_itself(serve, open_tab):
    tab = open_tab(serve())
    tab.button("Play a demo loop").click()
    expect(tab.page.locator(".toast")).to_have_count(1)
    expect(tab.page.locator(".toast")).to_have_count(0)


def test_the_title_of_the_tab_counts_open_incidents(serve, open_tab):
    gateway = serve()
    tab = open_tab(gateway)
    expect(tab.page).to_have_title("Overview · Looptrap")
    Agent(gateway).statuses([READ] * 5)
    expect(tab.page).to_have_title("(1) Overview · Looptrap")
    tab.section("Looping now").get_by_role("link").first.click()
    expect(tab.page).to_have_title("(1) read_file → the same result 5 times · Looptrap")


def test_a_question_mark_shows_the_shortcuts(serve, open_tab):
    tab = open_tab(serve())
    tab.page.keyboard.press("?")
    dialog = tab.page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(dialog).to_contain_text("Go to Incidents")
    tab.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    tab.button("shortcuts").click()
    expect(dialog).to_be_visible()


def test_a_phone_shows_all_tabs(serve, open_tab):
    tab = open_tab(serve(), viewport=PHONE)
    links = tab.page.get_by_role("navigation", name="Pages").get_by_role("link")
    boxes = [link.bounding_box() for link in links.all()]
    assert len(boxes) > 6
    assert all(0 <= box["x"] <= PHONE["width"] - box["width"] for box in boxes)
    assert all(box["height"] >= 30 for box in boxes)


def test_a_page_opened_while_the_gateway_is_down_recovers(serve, open_tab):
    gateway = serve()
    tab = open_tab(gateway, "/", failures=True)
    expect(tab.page.locator(".connection")).to_have_text("Live")
    gateway.wait(gateway.close_admin())
    tab.page.get_by_role("link", name="Status").click()
    expect(tab.page.get_by_text("This page could not be loaded.")).to_be_visible()
    gateway.wait(gateway.open_admin())
    expect(tab.heading("Status")).to_be_visible()
    expect(tab.page.locator("main .failed")).to_have_count(0)
