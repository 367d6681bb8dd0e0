"""Settings, what-if and try it: changed in the browser, felt by the calls of a running gateway."""

import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import expect
from tests.browser.agent import CYCLE, READ, Agent, honest

LOOPTRAP = Path(sys.executable).with_name("looptrap")

TOML = """
[[projects]]
name = "platform"
keys = ["ci-fixer"]
"""


@pytest.fixture
def gateway(serve, tmp_path):
    return serve(TOML, capture="digests", capture_dir=str(tmp_path / "calls"))


@pytest.fixture
def key(gateway):
    return gateway.here.add_key("ci-fixer")


def save(tab, **settings):
    """Fill in the form of the project, and save it."""
    for label, value in settings.items():
        control = tab.page.locator("form").get_by_label(label)
        is_choice = control.evaluate("one => one.tagName") == "SELECT"
        control.select_option(value) if is_choice else control.fill(value)
    tab.button("Save …").click()
    tab.page.get_by_role("dialog").get_by_role("button", name="Save").click()


def test_detection_is_switched_off_and_on_while_calls_come(gateway, key, open_tab):
    tab = open_tab(gateway, "/settings?project=platform")
    assert Agent(gateway, "one", key=key).statuses([READ] * 5)[-1] == 429
    save(tab, Detection="off")
    expect(tab.page.locator(".toast")).to_contain_text("saved, on all instances")
    assert set(Agent(gateway, "two", key=key).statuses([READ] * 8)) == {200}
    save(tab, Detection="on")
    expect(tab.page.locator(".toast")).to_have_count(2)
    assert Agent(gateway, "three", key=key).statuses([READ] * 5)[-1] == 429


def test_another_action_and_a_mistake(gateway, key, open_tab):
    tab = open_tab(gateway, "/settings?project=platform", failures=True)
    save(tab, Threshold="1")
    expect(tab.page.get_by_role("alert")).to_contain_text("Threshold")
    save(tab, Threshold="9", Action="warn")
    expect(tab.page.locator(".toast")).to_contain_text("saved, on all instances")
    agent = Agent(gateway, key=key)
    agent.statuses([READ] * 5)
    assert agent.ask().headers[b"x-looptrap-verdict"] == b"warn"
    tab.go("/settings?part=changes")
    expect(tab.page.locator("tbody tr")).to_have_count(1)
    expect(tab.page.locator("tbody tr")).to_contain_text("warn")


def test_two_people_do_not_overwrite_each_other(gateway, open_tab):
    one, other = (open_tab(gateway, "/settings?project=platform", failures=True) for _ in range(2))
    other.page.get_by_label("Threshold").fill("7")
    save(one, Detection="shadow")
    expect(other.page.get_by_role("alert")).to_contain_text("Somebody has changed this project")
    other.button("Keep my draft").click()
    save(other, Threshold="8")
    expect(one.page.get_by_label("Threshold")).to_have_value("8")


def test_what_if_tells_the_numbers_that_replay_prints(gateway, key, open_tab, tmp_path):
    for number in range(3):
        Agent(gateway, f"loop-{number}", key=key).statuses([READ] * (4 + number))
    Agent(gateway, "work", key=key).statuses(honest(6))
    gateway.until(lambda: gateway.here.app.capture.written == 21)
    tab = open_tab(gateway, "/settings?project=platform")
    tab.page.get_by_label("Detection").select_option("on")
    tab.page.get_by_label("Action").select_option("warn")
    tab.button("Try on captured calls").click()
    told = tab.page.locator("table.compared")
    expect(told).to_be_visible()
    numbers = dict(
        row.locator("th, td:nth-child(3)").all_inner_texts()
        for row in told.locator("tbody tr").all()
    )
    tab.page.get_by_text("The rules that were tried").click()
    rules = tab.page.get_by_role("region", name="The rules as TOML")
    (tmp_path / "what-if.toml").write_text(rules.inner_text())
    command = tab.page.locator(".copyable code").inner_text()
    printed = subprocess.run(
        command.replace("looptrap", str(LOOPTRAP), 1),
        shell=True,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert re.search(r"runs +4\b", printed)
    assert numbers["Runs in which a rule acted"] == found(r"flagged runs +(\d+) of", printed) != "0"
    assert numbers["Calls not made"] == found(r"calls saved +(\d+) of", printed)
    assert numbers["Tokens not used"] == found(r"tokens saved, about +([\d,]+)", printed)


def found(pattern, text):
    match = re.search(pattern, text)
    assert match, text
    return match[1]


def test_without_a_capture_what_if_says_how_to_get_one(serve, open_tab):
    tab = open_tab(serve(TOML), "/settings?project=platform", failures=True)
    tab.button("Try on captured calls").click()
    expect(tab.page.get_by_text("No call is captured yet.")).to_be_visible()


def test_a_pasted_conversation_is_judged_step_by_step(gateway, open_tab):
    agent = Agent(gateway)
    for step in CYCLE * 3:
        agent.use(*step)
    tab = open_tab(gateway, "/try")
    text = msgspec.json.encode({"model": "gpt-5.4", "messages": agent.messages}).decode()
    tab.page.locator("textarea").fill(text)
    tab.button(re.compile("^(Try|Judge)")).click()
    expect(tab.page.locator(".strip-cells .cell")).to_have_text([*"ABABAB"])
    expect(tab.page.locator("main")).to_contain_text("cycle")
    expect(tab.heading("Would be refused at step 7 of 7, by cycle.")).to_be_visible()
    told = tab.page.locator(".step-verdict")
    expect(told).to_contain_text("The client would get: Blocked (recursive_loop_detected): ")
    assert gateway.incidents() == []
