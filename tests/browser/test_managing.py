"""Rules, keys and limits of budgets: managed in the browser, felt by the calls of a gateway."""

import re
import tomllib
from itertools import count

import msgspec
import pytest
from playwright.sync_api import expect
from tests.browser.agent import READ, Agent
from tests.browser.test_auth import knock
from tests.gateway.test_usage import PRICES

from looptrap.testing import Reply, Tokens

RULE = "/settings?part=policies&rule=no-progress"
KEYS = "/settings?part=keys"
BUDGETS = "/settings?part=budgets"
BUDGET = (
    PRICES
    + """
[[budgets]]
name = "runs"
by = ["session"]
limit_usd = 5
limit_tokens = 1_000_000
period = "1d"
output_tokens = 500
"""
)
TOKENS = ("w" * 16, "r" * 16)
NUMBERS = count()


def confirm(tab, verb):
    tab.page.get_by_role("dialog").get_by_role("button", name=verb).click()


def toml_of(tab):
    shown = tab.page.get_by_role("region", name="Settings as TOML")
    return tomllib.loads(shown.inner_text())


class TestRules:
    def test_a_default_rule_is_changed_and_reset_while_calls_come(self, serve, open_tab):
        gateway = serve()
        tab = open_tab(gateway, "/settings?part=policies")
        refused_at = Agent(gateway, "one").statuses([READ] * 6).index(429)
        tab.page.get_by_role("link", name="no-progress", exact=True).click()
        for action, at in (("warn at", "2"), ("nudge at", ""), ("block at", "3")):
            tab.page.get_by_label(action).fill(at)
        tab.button("Save …").click()
        expect(tab.page.get_by_role("dialog")).to_contain_text("→ warn at 2, block at 3")
        confirm(tab, "Save")
        expect(tab.page.locator(".toast")).to_contain_text("saved, on all instances")
        assert Agent(gateway, "two").statuses([READ] * 6).index(429) < refused_at
        tab.page.locator(".as-toml summary").click()
        assert toml_of(tab) == {"rules": {"no-progress": {"thresholds": {"warn": 2, "block": 3}}}}
        tab.button("Reset …").click()
        confirm(tab, "Reset")
        expect(tab.page.locator(".as-toml")).to_have_count(0)
        assert Agent(gateway, "three").statuses([READ] * 6).index(429) == refused_at

    def test_a_rule_that_is_switched_off_says_so(self, serve, open_tab):
        gateway = serve()
        tab = open_tab(gateway, RULE)
        tab.page.get_by_label("off: its loops are not detected").check()
        tab.button("Save …").click()
        expect(tab.page.get_by_role("dialog")).to_contain_text("no longer detected")
        confirm(tab, "Save")
        tab.page.get_by_role("link", name="All rules").click()
        row = tab.page.locator(".rules li", has_text="no-progress").first
        expect(row).to_contain_text("off")
        expect(row).to_contain_text("set here")

    def test_a_mistake_is_said_where_it_was_made(self, serve, open_tab):
        tab = open_tab(serve(), RULE, failures=True)
        tab.page.get_by_label("block at").fill("many")
        tab.button("Save …").click()
        confirm(tab, "Save")
        expect(tab.page.get_by_role("alert")).to_contain_text("thresholds.block: is the text")

    def test_a_draft_is_tried_on_captured_calls(self, serve, open_tab, tmp_path):
        gateway = serve(capture="digests", capture_dir=str(tmp_path / "calls"))
        Agent(gateway, "loop").statuses([READ] * 5)
        gateway.until(lambda: gateway.here.app.capture.written == 5)
        tab = open_tab(gateway, RULE)
        tab.page.get_by_label("off: its loops are not detected").check()
        tab.button("Try on captured calls").click()
        expect(tab.page.locator("table.compared")).to_be_visible()

    def test_two_people_do_not_overwrite_each_other(self, serve, open_tab):
        gateway = serve()
        tab = open_tab(gateway, RULE)
        tab.page.get_by_label("block at").fill("9")
        gateway.change("PUT", "/api/v1/rules/no-progress", {"enabled": False})
        expect(tab.page.get_by_role("alert")).to_contain_text("Somebody has changed this rule")
        tab.button("Use their version").click()
        expect(tab.page.get_by_label("off: its loops are not detected")).to_be_checked()


class TestKeys:
    def test_a_key_is_made_shown_once_rotated_and_revoked(self, serve, open_tab):
        gateway = serve()
        tab = open_tab(gateway, KEYS)
        assert Agent(gateway, "open").statuses([READ]) == [200]
        tab.button("Add a key …").click()
        expect(tab.page.get_by_role("dialog")).to_contain_text("every call needs a key")
        tab.page.get_by_label("Name").fill("ci")
        tab.page.get_by_label("Project").fill("platform")
        confirm(tab, "Make the key")
        first = tab.page.locator("dialog .copyable code").inner_text()
        assert re.fullmatch(r"lt-[0-9a-f]{8}-[\w-]{43}", first)
        tab.button("I have copied it").click()
        expect(tab.page.locator("tbody tr")).to_contain_text("platform")
        assert first not in tab.page.content()
        assert Agent(gateway, "one", key=first).statuses([READ]) == [200]
        assert Agent(gateway, "none").statuses([READ]) == [401]

        tab.button("Rotate … ci").click()
        tab.page.get_by_label("The present key stays valid for").select_option("3600")
        confirm(tab, "Make another key")
        second = tab.page.locator("dialog .copyable code").inner_text()
        tab.button("I have copied it").click()
        expect(tab.page.locator("tbody tr")).to_have_count(2)
        for key in (first, second):
            assert Agent(gateway, "two", key=key).statuses([READ]) == [200]

        tab.button("Revoke … ci").click()
        confirm(tab, "Revoke")
        expect(tab.page.locator("tbody").get_by_text("revoked")).to_have_count(2)
        for key in (first, second):
            assert Agent(gateway, "three", key=key).statuses([READ]) == [401]
        tab.go("/settings?part=changes")
        expect(tab.page.locator("tbody tr")).to_have_count(3)
        assert first.split("-", 2)[2] not in tab.page.content()

    def test_a_name_that_is_taken_is_refused_in_the_dialog(self, serve, open_tab):
        gateway = serve()
        gateway.here.add_key("ci")
        tab = open_tab(gateway, KEYS, failures=True)
        tab.button("Add a key …").click()
        tab.page.get_by_label("Name").fill("ci")
        confirm(tab, "Make the key")
        expect(tab.page.get_by_role("alert")).to_contain_text("already: revoke it first")


class TestBudgets:
    @pytest.fixture
    def gateway(self, serve):
        return serve(BUDGET, script=[Reply.text(tokens=Tokens(1_000, 500))] * 20)

    def status(self, gateway):
        messages = [{"role": "user", "content": f"Question {next(NUMBERS)}"}]
        body = msgspec.json.encode({"model": "gpt-5.3", "messages": messages})
        return gateway.ask(body, X_Looptrap_Session="a").status

    def test_a_limit_is_raised_and_reset(self, gateway, open_tab):
        assert [self.status(gateway) for _ in range(3)] == [200, 200, 402]
        tab = open_tab(gateway, BUDGETS)
        tab.button("Change limit … runs").click()
        tab.page.get_by_label("Dollars").fill("6.5")
        confirm(tab, "Save")
        expect(tab.page.locator("tbody tr")).to_contain_text("$6.50, 1M tokens")
        assert [self.status(gateway) for _ in range(2)] == [200, 402]
        [table] = toml_of(tab)["budgets"]
        assert (table["limit_usd"], table["limit_tokens"]) == (6.5, 1_000_000)
        tab.button("Reset … runs").click()
        confirm(tab, "Reset")
        expect(tab.page.locator("tbody tr")).not_to_contain_text("set here")
        assert self.status(gateway) == 402

    def test_everything_that_was_set_is_one_piece_of_toml(self, gateway, open_tab):
        gateway.change("PUT", "/api/v1/budgets/runs", {"limit_usd": 9})
        gateway.change("PUT", "/api/v1/rules/cycle", {"enabled": False})
        gateway.change("PUT", "/api/v1/projects/lab", {"threshold": 9})
        gateway.change("PUT", "/api/v1/tools/poll", {"exempt": True})
        tab = open_tab(gateway, "/settings?part=changes")
        expect(tab.page.locator(".as-toml pre")).to_contain_text("[[budgets]]")
        found = toml_of(tab)
        assert found["rules"] == {"cycle": {"enabled": False}}
        assert found["tools"] == {"poll": {"exempt": True}}
        assert [one["name"] for one in found["projects"]] == ["lab"]
        assert found["budgets"][0]["limit_usd"] == 9


def test_with_the_read_token_everything_is_shown_and_nothing_can_be_pressed(serve, open_tab):
    gateway = serve(BUDGET, token=TOKENS[0], read_token=TOKENS[1])
    gateway.here.add_key("ci")
    tab = open_tab(gateway, KEYS, failures=True)
    knock(tab, TOKENS[1])
    for place, names in (
        (KEYS, ["Add a key …", "Rotate … ci", "Revoke … ci"]),
        (BUDGETS, ["Change limit … runs"]),
        (RULE, ["Reset …", "Save …"]),
    ):
        tab.go(place)
        for name in names:
            expect(tab.button(name)).to_be_disabled()
            expect(tab.button(name)).to_have_attribute("title", "Your token may only read.")


class TestLinksOfAlerts:
    """`?do=` opens the dialog of an action, and does nothing before it is confirmed."""

    @pytest.fixture
    def incident(self, gateway):
        Agent(gateway, "loop").statuses([READ] * 6)
        gateway.until(gateway.incidents)
        return gateway.incidents()[0].id

    @pytest.fixture
    def gateway(self, serve):
        return serve()

    def test_acknowledge_asks_once_and_says_who(self, gateway, incident, open_tab):
        tab = open_tab(gateway, f"/incidents/{incident}?do=acknowledge")
        expect(tab.page.get_by_role("dialog")).to_contain_text("Acknowledge this incident")
        known = gateway.here.app.recorder.history.annotations
        assert known([incident]) == {}
        confirm(tab, "Acknowledge")
        expect(tab.page.get_by_role("dialog")).to_have_count(0)
        expect(tab.page).to_have_url(re.compile(f"{incident}$"))
        assert known([incident])[incident].acknowledged.by == "admin"
        tab.go(f"/incidents/{incident}?do=acknowledge")
        expect(tab.page.get_by_text("Acknowledged by admin already.")).to_be_visible()

    @pytest.mark.parametrize(
        ("action", "title"),
        [("release", "Let these calls pass again"), ("kill", "Set a kill switch")],
    )
    def test_grave_actions_are_dialogs_that_can_be_left(
        self, gateway, incident, open_tab, action, title
    ):
        tab = open_tab(gateway, f"/incidents/{incident}?do={action}")
        expect(tab.page.get_by_role("dialog")).to_contain_text(title)
        tab.page.keyboard.press("Escape")
        expect(tab.page.get_by_role("dialog")).to_have_count(0)
        assert gateway.here.app.shared_settings.kill_switches.in_force() == []

    def test_an_unknown_action_opens_nothing(self, gateway, incident, open_tab):
        tab = open_tab(gateway, f"/incidents/{incident}?do=toString")
        expect(tab.page.locator("main h1")).to_be_visible()
        expect(tab.page.get_by_role("dialog")).to_have_count(0)
