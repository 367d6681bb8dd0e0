"""The log of calls, and all that is known of a caller or a session, in one place."""

import re

import pytest
from playwright.sync_api import expect
from tests.browser.agent import READ, Agent, honest
from tests.browser.test_operator import confirm

from looptrap.usage.call_log import CallFilter


def logged(gateway, number, **wanted):
    """Wait until so many calls are in the log; return them, the latest first."""
    query = gateway.here.app.recorder.history.calls.page
    gateway.until(lambda: len(query(CallFilter(**wanted)).items) == number)
    return query(CallFilter(**wanted)).items


def rows(tab):
    return tab.page.get_by_role("table", name="Calls, the latest first").locator("tbody tr")


def test_calls_appear_while_they_come_unless_the_viewer_pauses(serve, open_tab):
    gateway = serve()
    tab = open_tab(gateway, "/calls")
    expect(tab.page.locator("main")).to_contain_text("There were no calls in the last hour.")
    agent = Agent(gateway, "run-1")
    agent.statuses(honest(2))
    expect(rows(tab)).to_have_count(2)
    tab.button("Pause").click()
    agent.statuses(honest(3)[2:])
    logged(gateway, 3)
    expect(tab.section("Calls by verdict")).to_contain_text("2 calls")
    expect(rows(tab)).to_have_count(2)
    tab.button("Resume").click()
    expect(rows(tab)).to_have_count(3)
    agent.statuses(honest(4)[3:])
    expect(rows(tab)).to_have_count(4)


def test_filters_are_in_the_address_and_hold_for_what_comes(serve, open_tab):
    gateway = serve()
    Agent(gateway, "loud").statuses([READ] * 7)
    quiet = Agent(gateway, "quiet")
    quiet.statuses(honest(2))
    calls = logged(gateway, 9)
    refused = sum(one.row.verdict == "block" for one in calls)
    assert refused > 0
    tab = open_tab(gateway, "/calls")
    expect(rows(tab)).to_have_count(9)
    tab.page.get_by_role("combobox", name="Verdict").select_option("refused")
    expect(rows(tab)).to_have_count(refused)
    assert "verdict=refused" in tab.page.url
    tab.page.get_by_role("combobox", name="Verdict").select_option("")
    tab.page.get_by_label("Session").fill("quiet")
    expect(rows(tab)).to_have_count(2)
    assert "session=quiet" in tab.page.url
    tab.page.reload()
    expect(rows(tab)).to_have_count(2)
    Agent(gateway, "loud", task="Something else.").statuses(honest(1))
    quiet.statuses(honest(3)[2:])
    expect(rows(tab)).to_have_count(3)
    expect(rows(tab).filter(has_text="loud")).to_have_count(0)


def test_a_time_range_of_ones_own_excludes_the_rest(serve, open_tab):
    gateway = serve()
    Agent(gateway).statuses(honest(2))
    logged(gateway, 2)
    tab = open_tab(gateway, "/calls")
    expect(rows(tab)).to_have_count(2)
    tab.page.get_by_role("combobox", name="Time").select_option("custom")
    tab.page.get_by_label("Until", exact=True).fill("2020-01-01T12:00")
    expect(tab.page.locator("main")).to_contain_text("There were no calls in this time.")
    assert "until=2020-01-01" in tab.page.url
    expect(tab.button("Pause")).to_be_disabled()
    tab.page.get_by_role("combobox", name="Time").select_option("7d")
    expect(rows(tab)).to_have_count(2)


def test_a_row_leads_to_the_call_and_from_there_to_all_about_it(serve, open_tab):
    gateway = serve()
    agent = Agent(gateway, "run/1 #2?", program="claude-cli/2.0")
    agent.statuses([READ] * 7)
    gateway.until(lambda: gateway.incidents())
    logged(gateway, 7)
    tab = open_tab(gateway, "/calls?verdict=refused")
    rows(tab).first.locator("a").first.click()
    expect(tab.page.locator("h1")).to_contain_text("Refused by")
    expect(tab.section("Who")).to_contain_text("Claude Code")
    tab.section("Decision").get_by_role("link", name=re.compile("^inc_")).click()
    expect(tab.section("What repeats")).to_be_visible()
    tab.page.get_by_role("link", name="its calls").click()
    expect(rows(tab)).to_have_count(7)
    # A name with all that has a meaning in an address.
    rows(tab).first.get_by_role("link", name="run/1 #2?").click()
    expect(tab.page.locator("h1")).to_have_text("run/1 #2?")
    expect(tab.page.locator(".figures")).to_contain_text("Refused")
    expect(tab.section("Latest calls").locator("tbody tr")).to_have_count(7)
    expect(tab.section("Incidents").locator("tbody tr")).to_have_count(1)
    tab.page.locator(".crumb").get_by_role("link").last.click()
    expect(tab.section("Sessions").locator("tbody")).to_contain_text("run/1 #2?")


def test_a_call_that_is_not_there_is_said_to_be_gone(serve, open_tab):
    tab = open_tab(serve(), "/calls/12345", failures=True)
    expect(tab.page.locator("main")).to_contain_text("No call has this id.")


def test_a_log_that_is_off_says_how_to_turn_it_on(serve, open_tab):
    gateway = serve("[call_log]\nenabled = false\n")
    Agent(gateway).statuses(honest(2))
    tab = open_tab(gateway, "/calls")
    expect(tab.page.locator("main")).to_contain_text("Calls are not logged.")
    expect(tab.page.locator("main")).to_contain_text("enabled = true")


BUDGET = '[[budgets]]\nname = "one-run"\nby = ["session"]\nlimit_usd = 5\nperiod = "1d"\n'


def test_a_caller_has_one_page_with_all_that_is_known_of_it(serve, open_tab):
    gateway = serve(BUDGET)
    key = gateway.here.add_key("ci")
    stuck = Agent(gateway, "stuck", key=key)
    stuck.statuses([READ] * 7)
    other = Agent(gateway, "other", key=gateway.here.add_key("other"))
    other.statuses(honest(1))
    logged(gateway, 7, caller="key:ci")
    tab = open_tab(gateway, "/callers")
    tab.page.get_by_role("link", name="key:ci").click()
    expect(tab.page.locator("h1")).to_have_text("key:ci")
    expect(tab.page.locator(".figure").first).to_contain_text("7")
    expect(tab.section("Incidents").locator("tbody tr")).to_have_count(1)
    expect(tab.section("Latest calls").locator("tbody tr")).to_have_count(7)
    expect(tab.section("one-run")).to_contain_text("stuck")
    expect(tab.section("one-run")).not_to_contain_text("other")
    switches = tab.section("Kill switches in force")
    switches.get_by_role("button", name="Set one").click()
    confirm(tab, "Stop all its calls")
    expect(switches.locator("tbody tr")).to_contain_text("caller key:ci")
    stuck.use(*honest(1)[0])
    other.use(*honest(2)[1])
    assert (stuck.ask().status, other.ask().status) == (403, 200)
    tab.go("/callers/key%3Aother")
    expect(tab.section("Kill switches in force")).to_contain_text("No kill switch is set.")
    expect(tab.page.locator(".figure").first).to_contain_text("2")


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("/callers/key%3Anobody", "No call of this caller is known."),
        ("/callers/key%3Anobody/sessions/none", "There are no figures of this session."),
        ("/callers/%E0%A4%A", "No call of this caller is known."),
    ],
)
def test_who_is_not_known_is_said_not_to_be(serve, open_tab, place, words):
    tab = open_tab(serve(), place)
    expect(tab.page.locator("main")).to_contain_text(words)
    expect(tab.page.locator("main .loading")).to_have_count(0)
