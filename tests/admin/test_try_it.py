"""Try it, for operators: any conversation, judged before it ever comes; nothing of it stays."""

import json
import logging
from io import BytesIO

import pytest
from tests.admin.operating import operating, told
from tests.gateway.serving import JSON
from tests.replay.captured import CANARY, DIALECTS
from tests.replay.recorded import stuck

from looptrap.admin.rule_trial import MAX_TEXT_BYTES, MAX_TRY_BODY_BYTES

PATH = "/api/v1/try"
FILE = """
[[projects]]
name = "patient"
action = "warn"

[[projects]]
name = "watching"
detection = "shadow"

[[projects]]
name = "idle"
detection = "off"

[tools.poll]
thresholds = { warn = 20, block = 60 }
"""
LOOP = json.dumps(stuck(6))


@pytest.fixture
async def here_and_operator(tmp_path):
    async with operating(tmp_path, FILE) as both:
        yield both


@pytest.fixture
def operator(here_and_operator):
    return here_and_operator[1]


async def test_a_loop_is_judged_step_by_step(operator):
    found = await told(operator, "POST", PATH, json={"text": LOOP})
    assert set(found) == {
        "dialect", "model", "rules", "steps", "strip", "verdict", "at", "limits",
    }  # fmt: skip
    assert (found["dialect"], found["at"], found["limits"]) == ("openai_chat", 5, [])
    assert found["verdict"]["rule"] == "no-progress"
    step = found["steps"][5]
    assert set(step) == {
        "index", "messages", "role", "summary", "result", "tools", "is_error", "strip_id",
        "opinions", "verdict",
    }  # fmt: skip
    assert (step["index"], step["tools"], step["result"]) == (5, ["read_file"], "no such file")
    assert {"rule": "no-progress", "count": 5, "action": "block"}.items() <= step["opinions"][
        0
    ].items()
    assert (
        found["strip"]
        == [
            {
                "id": step["strip_id"],
                "tools": ["read_file"],
                "is_error": True,
                "repeats": True,
                "after": "",
                "error": step["strip_id"],
            }
        ]
        * 6
    )


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_every_dialect_can_be_pasted(operator, dialect):
    _, write = DIALECTS[dialect]
    found = await told(operator, "POST", PATH, json={"text": json.dumps(write(2))})
    assert found["dialect"] == dialect


@pytest.mark.parametrize(
    ("choice", "action"),
    [
        pytest.param({}, "block", id="the policies in effect"),
        pytest.param({"preset": "fairvisor"}, "allow", id="another preset"),
        pytest.param({"project": "patient"}, "warn", id="a project that only warns"),
        pytest.param({"project": "watching"}, "block", id="a project in shadow mode"),
        pytest.param({"project": "idle"}, "allow", id="a project that is off"),
    ],
)
async def test_the_rules_can_be_chosen(operator, choice, action):
    found = await told(operator, "POST", PATH, json={"text": LOOP, **choice})
    assert found["verdict"]["action"] == action


DEEP = "[" * 100_000


def large(body):
    """Return how to send a body that is too large to be sent in one go."""
    return {"data": BytesIO(body), "headers": JSON}


@pytest.mark.parametrize(
    ("sent", "status", "code", "says"),
    [
        ({"json": {"text": "hello"}}, 400, "unreadable", "This cannot be read: the text is not"),
        ({"json": {"text": DEEP}}, 400, "unreadable", "nested too deeply"),
        ({"json": {"text": "{}"}}, 400, "unreadable", "neither messages nor"),
        ({"json": {"text": "\x00\ufffd"}}, 400, "unreadable", "not JSON"),
        ({"json": {"text": ""}}, 400, "bad_request", "text: is the text"),
        ({"json": {"text": 7}}, 400, "bad_request", "text: is 7, must be text"),
        ({"json": {"text": [LOOP]}}, 400, "bad_request", "text: is a list"),
        ({"json": {}}, 400, "bad_request", "has no text"),
        ({"json": LOOP}, 400, "bad_request", "must be a table"),
        ({"json": {"text": LOOP, "preset": "x"}}, 400, "bad_request", "preset: is the text"),
        ({"json": {"text": LOOP, "project": "x"}}, 400, "bad_request", "no project of this name"),
        ({"json": {"text": LOOP, "more": 1}}, 400, "bad_request", "more: is not a setting"),
        (large(b'{"text": "%b"}' % (b" " * (MAX_TEXT_BYTES + 1))), 413, "too_large", "than 5 MB"),
        (large(b" " * (MAX_TRY_BODY_BYTES + 1)), 413, "too_large", "too large"),
        ({"data": b"\x89PNG\x00", "headers": JSON}, 400, "bad_request", "Send JSON"),
        ({"data": DEEP.encode(), "headers": JSON}, 400, "bad_request", "Send JSON"),
        ({"data": LOOP.encode()}, 415, "not_json", "Send application/json."),
    ],
    ids=["words", "deep", "an empty object", "binary", "empty", "a number", "a list", "nothing",
         "a string alone", "no preset", "no project", "something else", "too long a text",
         "too large a body", "a binary body", "a deep body", "another type"],
)  # fmt: skip
async def test_what_cannot_be_tried_is_told_in_words(operator, sent, status, code, says):
    error = (await told(operator, "POST", PATH, status=status, **sent))["error"]
    assert (error["code"], says in error["message"]) == (code, True)
    assert len(error["message"]) < 500


async def test_five_megabytes_are_taken(operator):
    content = "x" * (MAX_TEXT_BYTES - 100)
    text = json.dumps([{"role": "user", "content": content}])
    assert len(text) <= MAX_TEXT_BYTES
    found = await told(operator, "POST", PATH, **large(json.dumps({"text": text}).encode()))
    assert found["verdict"]["action"] == "allow"


async def test_elsewhere_no_more_is_taken_than_before(operator):
    refused = await told(operator, "POST", "/api/v1/release", status=413, **large(b" " * (2 << 20)))
    assert refused["error"]["code"] == "too_large"


async def test_nothing_of_it_is_kept_counted_or_logged(here_and_operator, tmp_path, caplog):
    here, operator = here_and_operator
    _, write = DIALECTS["openai_chat"]
    with caplog.at_level(logging.DEBUG):
        for text in (json.dumps(write(8)), f"{CANARY} {{", json.dumps({CANARY: DEEP})):
            async with operator.post(PATH, json={"text": text}) as answer:
                assert answer.status in (200, 400)
    async with operator.get("/metrics") as answer:
        metrics = await answer.text()
    assert "looptrap_requests_total{" not in metrics
    assert await told(operator, "GET", "/api/v1/incidents?state=all") == {
        "incidents": [], "next": None,
    }  # fmt: skip
    assert CANARY not in caplog.text + metrics
    assert CANARY.encode() not in b"".join(
        path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()
    )
    assert here.provider.requests == []
