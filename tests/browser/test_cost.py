"""Cost over time, and budgets that refuse: what a person sees, and does about it."""

import re
import time

import pytest
from playwright.sync_api import expect
from tests.browser.agent import Agent, honest
from tests.browser.scene import CALLERS, remember
from tests.browser.serving import watched

from looptrap.testing import Reply, Tokens

TOML = """
[prices]
"gpt-5.4" = { input = 2, output = 8 }

[[budgets]]
name = "one-run"
by = ["session"]
limit_usd = 0.1
period = "1d"

[[channels]]
url = "{url}/hook"
events = ["budget.exceeded"]
allow_private = true
allow_http = true
"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cost")
    remember(folder / "history.db", time.time())

    def answer(_received):
        return Reply.text("Done.", tokens=Tokens(60_000, 400))

    with watched(folder, TOML, script=answer) as one:
        agent = Agent(one, "run-9", model="gpt-5.4", key=one.here.add_key("spender"))
        assert agent.statuses(honest(4)) == [200, 402, 402, 402]
        stored = one.here.app.recorder.history.breaches.breaches
        one.until(lambda: any(breach.refused == 3 for breach in stored().items))
        yield one


def test_cost_is_stacked_by_caller_or_model_with_values_under_the_pointer(gateway, open_tab):
    tab = open_tab(gateway, "/callers", timezone_id="Europe/Berlin")
    legend = tab.page.locator(".chart-legend")
    for caller, *_ in CALLERS:
        expect(legend).to_contain_text(caller)
    expect(legend).to_contain_text("Europe/Berlin, UTC+0")
    box = tab.page.locator(".chart-frame").bounding_box()
    tab.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    expect(legend).to_contain_text("$")
    tab.page.get_by_role("link", name="Models").click()
    expect(legend).to_contain_text("claude-opus-4-7")
    tab.page.get_by_text("As a table").click()
    expect(tab.page.locator(".chart tbody tr").first).to_contain_text("$")


def test_a_period_is_chosen_by_its_ends(gateway, open_tab):
    tab = open_tab(gateway, "/callers")
    tab.page.get_by_role("link", name="Custom").click()
    tab.page.get_by_label("From").fill("2020-01-01T00:00")
    tab.page.get_by_label("From").blur()
    expect(tab.heading(re.compile("since 1 Jan"))).to_be_visible()
    tab.page.get_by_label("Until").fill("2020-01-03T00:00")
    tab.page.get_by_label("Until").blur()
    expect(tab.page.get_by_text("There were no calls from")).to_be_visible()


def test_the_alert_of_a_breach_leads_to_its_page(gateway, open_tab):
    tab = open_tab(gateway, "/alerts")
    tab.section("Deliveries").get_by_role("link", name="Budget one-run refuses calls").click()
    expect(tab.heading("Budget one-run refused calls")).to_be_visible()
    tab.page.get_by_role("link", name="Budgets", exact=True).click()
    expect(tab.section("Breaches")).to_contain_text("one-run")


def test_a_breach_has_a_page_that_says_who_and_how_to_raise_it(gateway, open_tab):
    tab = open_tab(gateway, "/callers?by=budgets")
    tab.section("Breaches").get_by_role("link", name="one-run").click()
    expect(tab.heading("Budget one-run refused calls")).to_be_visible()
    main = tab.page.locator("main")
    expect(main).to_contain_text("session run-9")
    expect(main).to_contain_text("refuses calls now")
    expect(main).to_contain_text("limit_usd = 0.2")
    expect(tab.page.locator(".figure", has_text="Calls refused")).to_contain_text("3")
    tab.button("Raise the limit …").click()
    tab.page.get_by_label("Limit in dollars").fill("0.3")
    tab.page.get_by_role("dialog").get_by_role("button", name="Raise").click()
    expect(tab.page.get_by_text("The limit is raised on all instances.")).to_be_visible()
    expect(main).to_contain_text("of $0.30")
    tab.button("Reset the account …").click()
    tab.page.get_by_role("dialog").get_by_role("button", name="Reset").click()
    expect(tab.page.get_by_text("The account was reset.")).to_be_visible()
    expect(main).not_to_contain_text("refuses calls now")


def test_a_breach_that_is_unknown_is_said_to_be(gateway, open_tab):
    tab = open_tab(gateway, "/breaches/bud_none", failures=True)
    expect(tab.page.get_by_text("No breach of a budget has this id.")).to_be_visible()
