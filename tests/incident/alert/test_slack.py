"""An event as a message of Slack."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.incident.alert.delivering import event

from looptrap.incident.alert.message import slack_body
from looptrap.incident.event import with_link

BLOCKS = ("header", "section", "context")


def message(one) -> dict:
    return json.loads(slack_body(one))


def texts(body: dict) -> list[dict]:
    """Return every text object of a message."""
    found = []
    for block in body["blocks"]:
        found += [block["text"]] if "text" in block else []
        found += block.get("fields", []) + block.get("elements", [])
    return found


def test_a_message_has_a_header_what_happened_facts_and_where_to_look():
    body = message(event(data={"message": "Sent 6 times.", "model": "gpt-5.4-mini"}))
    assert body["text"] == event().title
    assert [block["type"] for block in body["blocks"]] == [
        "header",
        "section",
        "section",
        "context",
    ]
    assert body["blocks"][0]["text"] == {
        "type": "plain_text",
        "text": event().title,
        "emoji": False,
    }
    assert body["blocks"][1]["text"]["text"] == "Sent 6 times."
    assert [field["text"] for field in body["blocks"][2]["fields"]] == [
        "*Project*\n`research`",
        "*Model*\n`gpt-5.4-mini`",
    ]
    (context,) = body["blocks"][3]["elements"]
    assert context["text"] == (
        "loop.detected · incident inc-1 · request req-7 · 2026-11-06T21:20:00.250Z"
    )


WILD = st.text(st.characters(codec="utf-8") | st.sampled_from("<>&*_~`@#!|:\n"), max_size=4_000)


@given(
    title=WILD,
    project=WILD,
    data=st.dictionaries(
        WILD | st.sampled_from(["message", "model"]), WILD | st.integers(), max_size=30
    ),
)
def test_whatever_an_event_holds_slack_would_take_it(title, project, data):
    body = message(event(title=title, project=project, request_id=title, data=data))
    assert 1 <= len(body["text"]) <= 4_000
    assert len(body["blocks"]) <= 50
    for block in body["blocks"]:
        assert block["type"] in BLOCKS
        assert len(block.get("fields", [])) <= 10
        assert len(block.get("elements", [])) <= 10
        if block["type"] == "header":
            assert block["text"]["type"] == "plain_text"
            assert 1 <= len(block["text"]["text"]) <= 150
        elif "text" in block:
            assert 1 <= len(block["text"]["text"]) <= 3_000
        assert all(1 <= len(field["text"]) <= 2_000 for field in block.get("fields", []))
    for text in (body["text"], *(one["text"] for one in texts(body))):
        assert not re.search(r"[<>]|&(?!amp;|lt;|gt;)", text)
    for field in (one for one in texts(body) if one["type"] == "mrkdwn"):
        assert re.fullmatch(r"\*[\w ]*\*\n`[^`\n]+`", field["text"])


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        pytest.param("<!channel>", "&lt;!channel&gt;", id="a call to everybody"),
        pytest.param("*bold*", "*bold*", id="bold"),
        pytest.param("`x` *y*", "ˋxˋ *y*", id="out of the code"),
        pytest.param("a&b", "a&amp;b", id="an ampersand"),
        pytest.param("x\ny", "x y", id="another line"),
    ],
)
def test_a_name_is_only_a_name(name, shown):
    body = message(event(project="", data={"model": name}))
    assert body["blocks"][1]["fields"] == [
        {"type": "mrkdwn", "text": f"*Model*\n`{shown}`", "verbatim": True}
    ]


def test_a_long_title_is_cut_and_no_escape_in_two():
    header = message(event(title="<" * 200))["blocks"][0]["text"]["text"]
    assert header == "&lt;" * 37 + "…"


@pytest.mark.parametrize(
    ("name", "actions"),
    [
        pytest.param("loop.detected", ["acknowledge", "release", "kill"], id="while it goes on"),
        pytest.param("loop.resolved", [], id="when it is over"),
    ],
)
def test_links_open_the_dialogs_of_actions_and_there_is_no_button(name, actions):
    body = message(with_link(event(name=name), "https://looptrap.example.com"))
    [links] = [one["text"]["text"] for one in body["blocks"] if "|Open" in str(one)]
    page = "https://looptrap.example.com/#/incidents/inc-1"
    assert re.findall(r"<([^|>]+)\|", links) == [page, *(f"{page}?do={one}" for one in actions)]
    assert "button" not in json.dumps(body)


def test_nothing_of_an_id_ends_a_link():
    linked = with_link(event(incident="inc|<!channel>"), "https://looptrap.example.com/?a=1&b=2")
    [links] = [one["text"]["text"] for one in message(linked)["blocks"] if "|Open" in str(one)]
    assert "<!channel>" not in links
    assert "?a=1&amp;b=2/#/incidents/inc%7C%3C%21channel%3E|" in links
