"""A loop through the gateway, as a person at the dashboard sees it and acts on it."""

import re

import pytest
from playwright.sync_api import expect
from tests.browser.agent import CYCLE, READ, Agent, honest

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture
def gateway(serve):
    return serve()


def shown(gateway, open_tab, **options):
    """Open the page of the only incident there is."""
    gateway.until(lambda: gateway.incidents())
    [incident] = gateway.incidents()
    tab = open_tab(gateway, f"/incidents/{incident.id}", **options)
    expect(tab.heading("What repeats")).to_be_visible()
    return tab


def stuck(gateway, **options):
    """Have an agent call the same tool in vain until it is refused; return it."""
    agent = Agent(gateway, **options)
    assert agent.statuses([READ] * 5) == [200, 200, 200, 200, 429]
    return agent


def test_a_loop_appears_without_reload_and_its_strip_shows_the_cycle(gateway, open_tab):
    tab = open_tab(gateway)
    expect(tab.page.get_by_text("Looptrap is ready. No call has come yet.")).to_be_visible()
    assert Agent(gateway).statuses([*honest(2), *CYCLE * 4])[-1] == 429
    loop = tab.section("Looping now").get_by_role("link").first
    expect(loop).to_have_text(re.compile("search_code → read_file"))
    loop.click()
    cells = tab.page.locator(".strip-cells .cell")
    expect(cells).to_have_count(10)
    assert cells.all_inner_texts() == [*"··ABABABAB"]
    assert tab.page.evaluate("performance.getEntriesByType('navigation').length") == 1


def test_who_sends_what_was_refused_again_still_shows_what_loops(gateway, open_tab):
    agent = Agent(gateway)
    agent.statuses(CYCLE * 3)
    for _ in range(6):
        agent.ask()
    gateway.until(lambda: gateway.incidents(rule="identical-conversation"))
    tab = shown(gateway, open_tab)
    expect(tab.page.locator(".strip-cells .cell")).to_have_text([*"ABABAB"])
    expect(tab.page.locator(".strip-said")).to_contain_text("6 rounds")


def test_in_shadow_mode_nothing_on_the_page_says_that_a_call_was_refused(serve, open_tab, pictures):
    gateway = serve(mode="shadow")
    assert Agent(gateway).statuses([READ] * 6) == [200] * 6
    gateway.until(lambda: any(one.action == "block" for one in gateway.incidents()))
    tab = shown(gateway, open_tab)
    timeline = tab.section("Timeline").locator("li")
    expect(timeline.first).to_contain_text("would have been warned by no-progress at 4")
    expect(timeline.nth(1)).to_contain_text("would have been refused by no-progress at 5")
    expect(tab.page.locator(".incident-head p.badges")).to_contain_text("would have been refused")
    # The first request has a round already, which a call before it asked for.
    expect(tab.page.locator("dl.details")).to_contain_text("7 paid, 0 refused")
    expect(tab.section("Stop this session")).to_contain_text("the rule is in shadow mode")
    expect(tab.page.locator(".button.filled")).to_have_text("Kill switch …")
    for name in ("Release …", "Extend cooldown …"):
        expect(tab.button(name)).to_be_disabled()
    pictures.take(tab, "incident-shadow")


def test_the_list_and_the_overview_go_on_with_the_loop(gateway, open_tab):
    agent = stuck(gateway)
    tab = open_tab(gateway, "/incidents")
    refused = tab.page.locator("tbody tr td[data-title=Refused]")
    expect(refused).to_have_text(["1"])
    for _ in range(3):
        agent.ask()
    expect(refused).to_have_text(["4"])
    tab.page.get_by_role("link", name="Overview", exact=True).click()
    expect(tab.page.locator(".figure").last.locator(".figure-value")).to_have_text("4")


def test_a_release_lets_the_next_call_through(gateway, open_tab):
    agent = stuck(gateway)
    tab = shown(gateway, open_tab)
    assert agent.ask().status == 429
    tab.button("Release …").click()
    tab.page.get_by_role("dialog").get_by_role("button", name="Release", exact=True).click()
    expect(tab.page.locator(".toast")).to_contain_text("the next such call passes")
    assert agent.ask().status == 200


def test_a_release_needs_no_mouse(gateway, open_tab):
    agent = stuck(gateway)
    gateway.until(lambda: gateway.incidents())
    tab = open_tab(gateway)
    keys = tab.page.keyboard
    expect(tab.page.locator(".incident-list a")).to_have_count(1)
    keys.press("g")
    keys.press("i")
    expect(tab.heading("Incidents")).to_be_focused()
    reach(tab, "tbody a")
    keys.press("Enter")
    expect(tab.heading("What repeats")).to_be_visible()
    reach(tab, "button:has-text('Release')")
    keys.press("Enter")
    expect(tab.page.get_by_role("dialog")).to_be_visible()
    reach(tab, "dialog button[type=submit]")
    keys.press("Enter")
    expect(tab.page.locator(".toast")).to_contain_text("the next such call passes")
    expect(tab.button("Release …")).to_be_focused()
    assert agent.ask().status == 200


def reach(tab, selector, most=40):
    """Press Tab until the first of these has the focus."""
    wanted = tab.page.locator(selector).first
    expect(wanted).to_be_visible()
    for _ in range(most):
        if wanted.evaluate("one => one === document.activeElement"):
            return
        tab.page.keyboard.press("Tab")
    raise AssertionError(f"{selector} is not reached with the keyboard")


def test_a_cooldown_is_extended(gateway, open_tab):
    stuck(gateway)
    tab = shown(gateway, open_tab)
    tab.button("Extend cooldown …").click()
    dialog = tab.page.get_by_role("dialog")
    dialog.get_by_label("Keep refusing for").select_option("6 h")
    dialog.get_by_role("button", name="Extend").click()
    expect(tab.page.get_by_text(re.compile(r"cooldown ends in (6 h|5 h 59 min)"))).to_be_visible()


def test_a_kill_switch_stops_all_of_a_session(gateway, open_tab):
    agent = stuck(gateway)
    tab = shown(gateway, open_tab)
    tab.button("Kill switch …").click()
    dialog = tab.page.get_by_role("dialog")
    expect(dialog).to_contain_text("Every call of session run-42")
    dialog.get_by_label("Reason").fill("The pump is being repaired.")
    dialog.get_by_role("button", name="Stop all its calls").click()
    expect(tab.page.locator(".toast")).to_contain_text("Stopped, on all instances.")
    agent.use(*honest(1)[0])
    answer = agent.ask()
    assert answer.status == 403
    assert b"The pump is being repaired." in answer.body
    assert Agent(gateway, "run-43").ask().status == 200


def test_a_false_alarm_is_kept_and_spares_its_tool(gateway, open_tab):
    agent = stuck(gateway)
    tab = shown(gateway, open_tab)
    tab.button("Mark as false alarm").click()
    expect(tab.page.locator(".badges").get_by_text("false alarm")).to_be_visible()
    tab.button("Apply to this tool …").click()
    tab.page.get_by_role("dialog").get_by_role("button", name="Apply").click()
    expect(tab.page.locator(".toast", has_text="on all instances")).to_be_visible()
    assert agent.statuses([READ]) == [200]
    tab.go("/incidents?state=all&label=false_alarm")
    expect(tab.page.locator("tbody tr")).to_have_count(1)


def test_people_say_that_they_care(gateway, open_tab):
    stuck(gateway)
    tab = shown(gateway, open_tab)
    other = shown(gateway, open_tab)
    tab.button("Acknowledge").click()
    tab.page.get_by_label("Add a note").fill(EVIL)
    tab.button("Add note").click()
    for one in (tab, other):
        expect(one.page.locator(".badges").get_by_text("acknowledged")).to_be_visible()
        expect(one.page.locator(".note-text")).to_have_text(EVIL)


def test_names_are_only_names(gateway, open_tab):
    agent = Agent(gateway, EVIL, model=EVIL)
    assert agent.statuses([(EVIL, {"path": EVIL}, "Error: none")] * 6)[-1] == 429
    tab = shown(gateway, open_tab)
    expect(tab.page.locator("h1")).to_contain_text(EVIL)
    details = tab.page.locator("dl.details")
    for name in ("Session", "Model"):
        expect(details.locator("div", has_text=name).locator("dd")).to_have_text(EVIL)
    for place in ("/", "/incidents?state=all", "/callers", "/settings", "/alerts", "/status"):
        tab.go(place)
        expect(tab.page.locator("main .loading")).to_have_count(0)
        assert tab.page.locator("script:not([src])").count() == 0
        assert tab.page.locator("img").count() == 0


def test_a_recognised_agent_is_named(gateway, open_tab):
    agent = Agent(gateway, program="QwenCode/0.24.4 (linux; x64)")
    assert agent.statuses([READ] * 6)[-1] == 400
    tab = shown(gateway, open_tab)
    details = tab.page.locator("dl.details")
    expect(details.locator("div", has_text="Agent").locator("dd")).to_have_text("Qwen Code")
    expect(tab.page.get_by_text("HTTP/1.1 400")).to_be_visible()


def test_a_strip_tells_where_the_history_was_trimmed(gateway, open_tab):
    agent = Agent(gateway)
    for _ in range(6):
        agent.use(*READ)
        agent.trim(2)
        agent.ask()
    tab = shown(gateway, open_tab)
    expect(tab.page.locator(".strip-cells .cell")).to_have_text([*"AAAAAA"])
    expect(tab.page.locator(".strip-cells .break")).to_have_attribute("title", "trimmed")
    expect(tab.page.locator(".strip-said")).to_contain_text("Trimmed before round 3.")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_strip_tells_where_the_history_was_compacted(gateway, open_tab, pictures, theme):
    agent = Agent(gateway)
    for _ in range(4):
        for one in (*honest(2), *CYCLE):
            agent.use(*one)
            agent.ask()
        agent.compact()
    tab = shown(gateway, open_tab, color_scheme=theme)
    rows = tab.page.locator(".strip-rows")
    expect(tab.page.locator(".strip-cells .break")).to_have_count(3)
    expect(rows).to_have_accessible_name(re.compile("Compacted before rounds 5, 9, 13"))
    fifth = tab.page.locator('[data-number="5"]')
    expect(fifth).to_have_accessible_name(re.compile("the first after the history was compacted"))
    expect(tab.page.locator(".strip-legend")).to_contain_text("line: compacted")
    pictures.take(tab, f"incident-compacted-{theme}")


def test_what_leads_is_what_to_do_and_never_a_release(gateway, open_tab):
    stuck(gateway)
    tab = shown(gateway, open_tab)
    advice = tab.section("Leave it refused, and find the cause")
    expect(advice.get_by_role("button")).to_have_text(["Acknowledge"])
    filled = tab.page.locator(".button.primary, .button.filled")
    expect(filled).to_have_text(["Acknowledge"])
    filled.click()
    expect(tab.section("Leave it refused")).to_contain_text("admin takes care of it")
    expect(tab.button("Release …")).to_be_enabled()


def test_where_content_is_captured_it_is_shown_and_tried(serve, open_tab, tmp_path, pictures):
    gateway = serve(capture="content", capture_dir=str(tmp_path / "calls"))
    stuck(gateway)
    gateway.until(lambda: gateway.here.app.capture.written == 5)
    tab = shown(gateway, open_tab)
    sent = tab.section("What was sent")
    expect(sent.get_by_label("Call")).to_have_text('read_file({"path":"pumps/state.py"})')
    expect(sent.get_by_label("Error")).to_have_text(READ[2])
    pictures.take(tab, "incident-captured")
    sent.get_by_role("link", name="Try this history").click()
    expect(tab.page.locator(".strip-cells .cell")).to_have_count(5)
    expect(tab.page.locator("main")).to_contain_text("refused")


def test_without_captured_content_nothing_of_it_is_asked_for(gateway, open_tab):
    stuck(gateway)
    tab = shown(gateway, open_tab)
    expect(tab.section("What was sent")).to_have_count(0)
    assert not any(url.endswith("/captured") for url in tab.requests)


def test_the_same_error_has_one_colour_whatever_was_called(gateway, open_tab):
    error = "Error: ENOENT: no such file or directory"
    agent = Agent(gateway)
    tools = [(f"tool_{n % 3}", {"path": f"src/part_{n}.py"}, error) for n in range(9)]
    assert agent.statuses([*honest(1), *tools])[-1] == 429
    gateway.until(lambda: any(one.signal == "same_error" for one in gateway.incidents()))
    tab = shown(gateway, open_tab)
    letters = tab.page.locator(".strip-cells .cell").all_inner_texts()
    assert set(letters[1:]) == {"A"}
    expect(tab.page.locator(".strip-legend")).to_contain_text("tool_0 + tool_1 + tool_2, failed")
