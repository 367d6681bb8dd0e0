"""An event in the forms in which it is sent."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.incident.alert.delivering import event

from looptrap.incident.alert.message import (
    event_facts,
    event_paragraph,
    one_line,
    plain_message,
    slack_body,
    timestamp,
    webhook_body,
)
from looptrap.incident.event import (
    detected_event,
    resolved_event,
    with_acknowledgement,
    with_link,
)
from looptrap.incident.model import Annotation, Incident
from looptrap.policy.verdict import ADVICE


def test_a_webhook_gets_the_documented_json():
    assert webhook_body(event()) == (
        b'{"event":"loop.detected","timestamp":"2026-11-06T21:20:00.250Z",'
        b'"project_id":"research","request_id":"req-7","data":{"incident_id":"inc-1",'
        b'"fingerprint":"v1:abc","hit_count":6,"model":"gpt-5.4-mini","cooldown_seconds":30}}'
    )


@given(data=st.dictionaries(st.text(max_size=9), st.text() | st.integers(-(2**63), 2**63)))
def test_an_event_that_was_kept_as_json_gives_the_same_bytes(data):
    one = event(data=data)
    kept = msgspec.json.decode(msgspec.json.encode(one), type=type(one))
    assert webhook_body(kept) == webhook_body(one)


@pytest.mark.parametrize(
    ("time", "told"),
    [
        pytest.param(0.0, "1970-01-01T00:00:00.000Z", id="the epoch"),
        pytest.param(1_794_000_000.9996, "2026-11-06T21:20:00.999Z", id="never rounded up"),
    ],
)
def test_times_are_told_in_utc_to_the_millisecond(time, told):
    assert timestamp(time) == told


def test_people_are_told_what_was_done_and_not_what_the_agent_is_advised():
    message = (
        "Blocked (recursive_loop_detected): the same, 5 times. Refused for another 30 seconds."
    )
    one = event(data={"message": f"{message} {ADVICE}"})
    assert [*event_paragraph(one)] == [message]
    assert msgspec.json.decode(webhook_body(one))["data"]["message"].endswith(ADVICE)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("x" * 10, "x" * 10, id="short"),
        pytest.param("x" * 11, "x" * 9 + "…", id="long"),
        pytest.param("xxxxxxxxx yyyy", "xxxxxxxxx…", id="with a space where it is cut"),
        pytest.param("xxxxxxxxxx yyyy", "x" * 9 + "…", id="with a space just behind it"),
        pytest.param("  xxxxxxxxxx \n", "x" * 10, id="with space around it"),
        pytest.param("x  y", "x y", id="with much space in it"),
    ],
)
def test_a_text_that_is_cut_says_so(text, shown):
    assert one_line(text, 10) == shown


def test_people_are_told_the_most_telling_first():
    data = {"extra": 1, "hit_count": 12_000, "model": "m", "evidence": [{"what": "x"}], "none": ""}
    assert list(event_facts(event(data=data))) == [
        ("Project", "research"),
        ("Model", "m"),
        ("Equal calls", "12,000"),
        ("Extra", "1"),
    ]


def test_people_are_told_whom_an_indicator_is_about():
    data = {"indicator": "tokens", "value": 3.25, "scope": {"caller": "key:ci"}, "window": 300.0}
    assert list(event_facts(event(project="", data=data))) == [
        ("Caller", "key:ci"),
        ("Indicator", "tokens"),
        ("Value", "3.25"),
        ("Measured over", "5 min"),
    ]


def test_apprise_gets_a_title_a_text_and_a_mood():
    title, text, mood = plain_message(
        event(name="loop.resolved", data={"message": "Over.", "model": "m"})
    )
    assert title == "Loop detected: 6 calls of key:ci, blocked by identical-conversation"
    assert text.splitlines() == [
        "Over.",
        "Project: research",
        "Model: m",
        "loop.resolved · incident inc-1 · request req-7 · 2026-11-06T21:20:00.250Z",
    ]
    assert mood == "success"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("@everyone", id="a call to everybody"),
        pytest.param("<!channel>", id="a call of Slack's"),
        pytest.param("<@U123>", id="a mention"),
        pytest.param("*bold*", id="bold"),
        pytest.param("[free money](https://evil.example)", id="a link"),
        pytest.param("`code`", id="code"),
        pytest.param("a\nFrom: boss@example.com\n\nb", id="another line"),
        pytest.param("\u202egpj.exe\x1b[31m", id="what turns text around or colours it"),
    ],
)
def test_a_name_is_only_a_name(name):
    one = event(title=f"Loop of {name}", data={"model": name, "caller": name, "message": name})
    title, text, _ = plain_message(one)
    for line in (title, *text.splitlines()):
        assert not set(line) & set("@<>*`[]\n\r\x1b\u202e")
        assert "://" not in line
    assert len(text.splitlines()) == 5


def test_in_shadow_mode_people_read_what_would_have_been_done():
    incident = Incident(
        id="inc_1",
        instance="a",
        key="k",
        opened=1.0,
        last=2.0,
        mode="shadow",
        action="block",
        rule="same",
        caller="key:ci",
        cooldown=30.0,
        message="Would have been refused (recursive_loop_detected): identical request.",
    )
    one = detected_event(incident, 6)
    title, text, _ = plain_message(one)
    assert title == "Loop detected: 6 calls of key:ci, would have been blocked by same"
    assert "Action: would block" in text
    assert "Mode: shadow" in text
    for told in (text, slack_body(one).decode()):
        assert "Would have been refused (recursive_loop_detected)" in told
        assert "Cooldown" not in told
        assert "Blocked" not in told


DOLLAR = 1_000_000_000


def over(acknowledged_by="", **changes):
    given = {
        "id": "inc_1", "instance": "a", "key": "k", "opened": 100.0, "last": 820.0, "rule": "same",
        "action": "block", "caller": "key:ci", "calls": 57, "refused": 51, "priced": 6,
        "cost": 6 * DOLLAR, "message": "Blocked.",
    }  # fmt: skip
    one = resolved_event([Incident(**given | changes)], 1_120.0, 57)
    found = Annotation(id="1", incident="inc_1", time=200.0, by=acknowledged_by, kind="acknowledge")
    return with_acknowledgement(one, found if acknowledged_by else None)


@pytest.mark.parametrize(
    ("one", "says"),
    [
        pytest.param(
            over("ada"),
            "It lasted 12 min: 57 equal calls, 51 of them refused; $6.00 spent, $51.00 saved."
            " Acknowledged by ada.",
            id="enforced",
        ),
        pytest.param(
            over(refused=0, mode="shadow", last=145.0),
            "It lasted 45 s: 57 equal calls, none of them refused; $6.00 spent, $0.00 saved."
            " Not acknowledged.",
            id="in shadow mode",
        ),
        pytest.param(
            over(priced=0, cost=0, last=11_200.0),
            "It lasted 3 h 5 min: 57 equal calls, 51 of them refused; unpriced spent, unpriced"
            " saved. Not acknowledged.",
            id="without a price",
        ),
    ],
)
def test_when_it_is_over_people_read_what_happened_in_all(one, says):
    assert plain_message(one)[1].splitlines()[0] == says
    assert says in slack_body(one).decode()
    data = msgspec.json.decode(webhook_body(one))["data"]
    assert data["duration_seconds"] == one.data["last_seen"] - one.data["first_seen"]
    assert "acknowledged_by" in data


def test_dollars_are_written_as_dollars():
    data = {"spent_usd": 0.8, "saved_usd": 12.4, "projected_usd_an_hour": 47.95, "refused": 3}
    assert list(event_facts(event(project="", data=data))) == [
        ("Spent", "$0.80"),
        ("Saved", "$12.40"),
        ("Calls refused", "3"),
        ("Cost of an hour", "$47.95 (projection)"),
    ]


@pytest.mark.parametrize(
    ("one", "url"),
    [
        pytest.param(event(), "https://l.example/x/#/incidents/inc-1", id="an incident"),
        pytest.param(
            event(name="budget.exceeded", incident=""),
            "https://l.example/x/#/callers?by=budgets",
            id="a budget",
        ),
        pytest.param(
            event(name="budget.exceeded", incident="", data={"breach_id": "bre_1"}),
            "https://l.example/x/#/breaches/bre_1",
            id="a breach",
        ),
        pytest.param(
            event(name="store.degraded", incident=""), "https://l.example/x/#/status", id="others"
        ),
    ],
)
def test_every_message_links_to_its_page(one, url):
    linked = with_link(one, "https://l.example/x/")
    assert msgspec.json.decode(webhook_body(linked))["data"]["url"] == url
    assert plain_message(linked)[1].splitlines()[-1] == f"Dashboard: {url}"
    assert f"<{url}|Open the " in slack_body(linked).decode()
    assert with_link(one, None) is one
