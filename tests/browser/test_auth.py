"""Who may see and do what at the dashboard, and what it does when nobody answers."""

import pytest
from playwright.sync_api import expect
from tests.browser.agent import READ, Agent

TOKENS = {"token": "let-me-in-0001", "read_token": "let-me-look-0001"}


def knock(tab, token):
    dialog = tab.page.get_by_role("dialog", name="Token needed")
    dialog.get_by_label("Token").fill(token)
    dialog.get_by_role("button", name="Sign in").click()


@pytest.fixture
def guarded(serve):
    gateway = serve(**TOKENS)
    Agent(gateway).statuses([READ] * 5)
    gateway.until(lambda: gateway.incidents())
    return gateway


def test_a_token_is_asked_for_until_it_is_right(guarded, open_tab, pictures):
    tab = open_tab(guarded, "/incidents", failures=True)
    pictures.take(tab, "token")
    knock(tab, "wrong")
    expect(tab.page.get_by_role("dialog")).to_contain_text("This token is wrong.")
    assert tab.page.locator("tbody tr").count() == 0
    knock(tab, TOKENS["token"])
    expect(tab.page.locator("tbody tr")).to_have_count(1)
    expect(tab.page.locator(".connection")).to_have_text("Live")
    tab.page.reload()
    expect(tab.page.locator("tbody tr")).to_have_count(1)
    assert all(TOKENS["token"] not in url for url in tab.requests)


def test_without_a_token_the_page_says_so_and_not_that_the_gateway_is_away(guarded, open_tab):
    tab = open_tab(guarded, "/incidents", failures=True)
    state = tab.page.locator(".connection")
    expect(state).to_have_text("Token needed")
    expect(tab.page.locator(".away")).to_have_count(0)
    tab.page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(tab.page.locator(".away")).to_contain_text("This gateway needs a token.")
    tab.button("Enter a token").click()
    knock(tab, TOKENS["token"])
    expect(state).to_have_text("Live")
    expect(tab.page.locator(".away")).to_have_count(0)


def test_who_may_only_read_sees_why_nothing_can_be_pressed(guarded, open_tab):
    [incident] = guarded.incidents()
    tab = open_tab(guarded, f"/incidents/{incident.id}", failures=True)
    knock(tab, TOKENS["read_token"])
    expect(tab.page.get_by_text("Your token may only read.").first).to_be_visible()
    for name in ("Release …", "Kill switch …", "Acknowledge", "Mark as false alarm"):
        expect(tab.button(name)).to_be_disabled()
    expect(tab.page.get_by_label("Add a note")).to_have_count(0)


def test_a_gateway_that_goes_away_is_told_and_comes_back(serve, open_tab, pictures):
    gateway = serve()
    tab = open_tab(gateway, "/incidents", failures=True)
    expect(tab.page.locator(".connection")).to_have_text("Live")
    gateway.wait(gateway.close_admin())
    away = tab.page.get_by_role("alert").filter(has_text="The gateway has not answered since")
    expect(away).to_be_visible()
    expect(tab.page.locator(".connection")).to_have_text("Disconnected")
    pictures.take(tab, "away")
    Agent(gateway).statuses([READ] * 5)
    gateway.wait(gateway.open_admin())
    tab.button("Try now").click()
    expect(tab.page.locator(".connection")).to_have_text("Live")
    expect(tab.page.get_by_role("alert")).to_have_count(0)
    expect(tab.page.locator("tbody tr")).to_have_count(1)
