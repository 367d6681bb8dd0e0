"""An operator's round: who loops most, who is stopped, what is refused, who hears of it."""

from playwright.sync_api import expect
from tests.browser.agent import READ, Agent, honest

from looptrap.testing import Reply

CHANNEL = """
[[channels]]
name = "on-call"
kind = "webhook"
url = "{url}/hook"
allow_private = true
allow_http = true
"""


def confirm(tab, verb):
    tab.page.get_by_role("dialog").get_by_role("button", name=verb).click()


def test_who_loops_most_is_stopped_and_let_go(serve, open_tab):
    gateway = serve()
    loud, quiet = Agent(gateway, "loud"), Agent(gateway, "quiet")
    loud.statuses([READ] * 8)
    quiet.statuses(honest(2))
    tab = open_tab(gateway, "/callers?by=session&order=refused")
    rows = tab.page.locator("tbody tr")
    expect(rows.first).to_contain_text("loud")
    expect(rows).to_have_count(2)
    rows.first.get_by_role("button", name="Stop").click()
    confirm(tab, "Stop all its calls")
    expect(tab.page.locator(".toast")).to_contain_text("Stopped, on all instances.")
    loud.use(*honest(1)[0])
    assert (loud.ask().status, quiet.ask().status) == (403, 200)
    tab.go("/status")
    switches = tab.section("Kill switches in force")
    expect(switches.locator("tbody tr")).to_contain_text("session loud")
    switches.get_by_role("button", name="End").click()
    confirm(tab, "End it")
    expect(switches).to_contain_text("No kill switch is set.")
    assert loud.ask().status != 403


def test_what_is_refused_now_is_released_from_the_status(serve, open_tab):
    gateway = serve()
    agent = Agent(gateway)
    # By then three rules say so, and all of them have to let go.
    assert agent.statuses([READ] * 7)[-3:] == [429, 429, 429]
    gateway.until(lambda: gateway.incidents())
    tab = open_tab(gateway, "/status")
    cooldowns = tab.section("Cooldowns")
    expect(cooldowns.locator("tbody tr")).to_have_count(1)
    cooldowns.get_by_role("button", name="Release").click()
    confirm(tab, "Release")
    expect(cooldowns).to_contain_text("Nothing is being refused.")
    assert agent.ask().status == 200


def test_a_channel_is_tried_and_tells_what_happened(serve, open_tab):
    is_deaf = True

    def answer(received):
        if received.target == "/hook":
            return Reply.status(410 if is_deaf else 200, {})
        return None

    gateway = serve(CHANNEL, script=answer)
    tab = open_tab(gateway, "/alerts")
    channels = tab.section("Channels")
    channels.get_by_role("button", name="Test").click()
    confirm(tab, "Send")
    expect(channels).to_contain_text("test failed")
    Agent(gateway).statuses([READ] * 5)
    letters = tab.section("Deliveries")
    expect(letters.locator("tbody tr")).to_contain_text("given up")
    is_deaf = False
    letters.locator("tbody").get_by_role("button", name="Resend").click()
    confirm(tab, "Resend")
    expect(letters.locator("tbody tr")).to_contain_text("delivered")
    hooks = [one for one in gateway.provider.requests if one.target == "/hook"]
    assert len(hooks) == 3, "a test, an alert that was refused, and that again"
