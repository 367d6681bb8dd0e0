"""One incident for operators: its strip, what rules counted, and what the client was told."""

import json
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from tests.admin.looping import PATH, history, incident, loop, reading
from tests.admin.operating import operating, told
from tests.detect.forgetful import ForgetfulAgent
from tests.detect.runs import Use, bash
from tests.gateway.serving import CHAT, JSON

from looptrap.admin.incident_view import looping_tool
from looptrap.detect.remembered_round import UNKNOWN_TOOL
from looptrap.detect.strip import StripCell
from looptrap.incident.model import Incident, compact_strip

READ = ("read_file", {"path": "a.py"}, "import b\n" * 9)
TEST = ("run_tests", {}, "AssertionError: 1 != 2 in test_a, as it was before")
ELSE = ("list_files", {"path": "src"}, "a.py b.py")


@pytest.fixture
async def running(tmp_path):
    async with operating(tmp_path) as both:
        yield both


def is_drawn(shown):
    return bool(shown["strip"])


async def test_the_strip_of_a_cycle_shows_the_cycle(running):
    here, operator = running
    answer = await here.ask(headers=JSON, body=history(ELSE, *[READ, TEST] * 4))
    assert answer.status == 429
    shown = await incident(operator, is_drawn)
    first, *cycle = shown["strip"]
    ids = [cell["id"] for cell in cycle]
    assert ids == ids[:2] * 4
    assert len({first["id"], *ids}) == 3
    assert [cell["repeats"] for cell in shown["strip"]] == [False] + [True] * 8
    assert [cell["tools"] for cell in cycle[:2]] == [["read_file"], ["run_tests"]]
    assert [cell["is_error"] for cell in cycle[:2]] == [False, True]
    assert all(len(one) == 8 and int(one, 16) >= 0 for one in ids)


async def test_the_strip_grows_with_the_loop_and_holds_the_latest_sixty(running):
    here, operator = running
    for times in (3, 70):
        await here.ask(headers=JSON, body=reading(times))
    shown = await incident(operator, lambda one: len(one["strip"]) > 3)
    assert len(shown["strip"]) == 60
    assert {cell["id"] for cell in shown["strip"]} == {shown["strip"][0]["id"]}
    assert shown["tool"] == "read_file"


async def test_what_is_counted_has_a_cell_a_call(running):
    here, operator = running
    await loop(here, 8)
    shown = await incident(operator, lambda one: one["count"] == 8)
    assert len(shown["strip"]) == 8
    assert len({cell["id"] for cell in shown["strip"]}) == 1
    assert shown["strip"][0] == {
        "id": shown["fingerprint"][2:10], "tools": [], "is_error": False, "repeats": True,
        "after": "",
        "error": "",
    }  # fmt: skip
    assert shown["tool"] is None


CALLS = """
[[policies]]
name = "p"
  [[policies.rules]]
  name = "same-call"
  watch = "tool"
  threshold = 3
"""


async def test_a_tool_that_is_called_over_mcp_is_named(tmp_path):
    params = {"name": "search", "arguments": {"q": "x"}}
    async with operating(tmp_path, CALLS) as (here, operator):
        for number in range(4):
            call = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
            await here.ask(target="/mcp", headers=JSON, body=msgspec.json.encode(call))
        shown = await incident(operator)
    assert (shown["signal"], shown["tool"]) == ("tool", "search")
    assert shown["strip"][-1]["tools"] == ["search"]


async def test_nothing_of_what_was_said_is_kept(running):
    here, operator = running
    rounds = [("read_file", {"path": "xyzzy.py"}, "plugh " * 9)] * 6
    await here.ask(headers=JSON, body=history(*rounds, task="fnord"))
    shown = json.dumps(await incident(operator, is_drawn))
    assert not [word for word in ("xyzzy", "plugh", "fnord") if word in shown]


async def test_the_strip_of_a_trimmed_history_shows_what_was_left_out(running):
    here, operator = running
    agent = ForgetfulAgent(keeps=2)
    for use in [Use("read_file", {"path": "a.py"}, "import b"), bash("ls", "a.py")] * 5:
        agent.does(use)
        await here.ask(headers=JSON, body=msgspec.json.encode(agent.body()))
    shown = await incident(operator, lambda one: len(one["strip"]) == 10)
    ids = [cell["id"] for cell in shown["strip"]]
    assert ids == ids[:2] * 5
    assert [cell["after"] for cell in shown["strip"]] == ["", "", "trim"] + [""] * 7


@pytest.mark.parametrize(("tool", "named"), [("read_file", "read_file"), (UNKNOWN_TOOL, None)])
def test_a_tool_is_named_if_its_name_is_known(tool, named):
    cells = [StripCell("5e46a67f", (tool,), False, True)] * 5
    one = Incident(
        id="i", instance="a", key="k", opened=0, last=0, signal="repeat", strip=compact_strip(cells)
    )
    assert looping_tool(one) == named


async def test_every_rule_that_spoke_is_there_with_its_thresholds(running):
    here, operator = running
    await here.ask(headers=JSON, body=reading(4))
    await here.ask(headers=JSON, body=reading(6))
    shown = await incident(operator, lambda one: one["refused"])
    (count,) = shown["counts"]
    assert count == {
        "policy": shown["policy"], "rule": "no-progress", "signal": "repeat", "count": 6,
        "thresholds": {"warn": 4, "block": 5}, "action": "block",
    }  # fmt: skip


async def test_thresholds_that_changed_since_are_not_taken_for_those_that_were_met(tmp_path):
    rule = """
        [[policies]]
        name = "p"
          [[policies.rules]]
          name = "stuck"
          watch = "repeat"
          thresholds = {{ warn = {}, block = {} }}
    """
    async with operating(tmp_path, rule.format(3, 5)) as (here, operator):
        await here.ask(headers=JSON, body=reading(6))
        before = await incident(operator)
        assert before["counts"][0]["thresholds"] == {"warn": 3, "block": 5}
    async with operating(tmp_path, rule.format(8, 10)) as (_, operator):
        after = await incident(operator)
        assert after["counts"][0]["thresholds"] == {"block": 5}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, lambda: reading(6)),
        ("/v1/messages", lambda: anthropic(6)),
    ],
    ids=["openai", "anthropic"],
)
async def test_what_the_client_was_told_is_told_again(running, path, body):
    here, operator = running
    answer = await here.ask(target=path, headers=JSON, body=body())
    shown = await incident(operator, lambda one: one["refused"])
    assert shown["told"]["status"] == answer.status == 429
    assert shown["told"]["body"] == msgspec.json.decode(answer.body)
    sent = {name.decode(): value.decode() for name, value in answer.headers.items()}
    said = {name.lower(): value for name, value in shown["told"]["headers"].items()}
    assert said.items() <= sent.items()
    assert said["x-should-retry"] == "false"


def anthropic(times):
    messages = [{"role": "user", "content": "Read it."}]
    for number in range(times):
        use = {"type": "tool_use", "id": f"c{number}", "name": "read", "input": {"path": "a"}}
        result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": "nothing new"}
        messages.append({"role": "assistant", "content": [use]})
        messages.append({"role": "user", "content": [result]})
    return msgspec.json.encode({"model": "claude", "max_tokens": 9, "messages": messages})


STOP = """
[[policies]]
name = "p"
mode = "{mode}"
  [[policies.rules]]
  name = "stuck"
  watch = "repeat"
  thresholds = {{ {action} = 3 }}
"""


async def test_a_run_that_was_ended_was_told_so_in_a_message(tmp_path):
    toml = STOP.format(mode="enforce", action="stop")
    async with operating(tmp_path, toml) as (here, operator):
        answer = await here.ask(headers=JSON, body=reading(4))
        shown = await incident(operator)
    assert (answer.status, shown["told"]["status"]) == (200, 200)
    message = msgspec.json.decode(answer.body)["choices"][0]["message"]
    assert shown["told"]["body"]["choices"][0]["message"] == message


@pytest.mark.parametrize(
    ("mode", "action"), [("enforce", "warn"), ("shadow", "block")], ids=["warned", "in shadow"]
)
async def test_where_a_call_passed_nothing_was_told(tmp_path, mode, action):
    async with operating(tmp_path, STOP.format(mode=mode, action=action)) as (here, operator):
        assert (await here.ask(headers=JSON, body=reading(4))).status == 200
        assert (await incident(operator))["told"] is None


async def test_a_cooldown_is_told_until_it_is_released(running):
    here, operator = running
    await loop(here, 7)
    shown = await incident(operator, lambda one: one["refused"] == 2)
    until = datetime.fromisoformat(shown["cooldown_until"])
    assert timedelta(0) < until - datetime.now(UTC) <= timedelta(seconds=30)
    await told(operator, "POST", "/api/v1/release", json={"incident": shown["id"]})
    released = await told(operator, "GET", f"{PATH}/{shown['id']}")
    assert released["cooldown_until"] is None
    assert [step["what"] for step in released["steps"]] == ["block", "released"]
    assert await loop(here, 1) == [200]


async def test_a_release_by_fingerprint_is_a_step_of_its_incident(running):
    here, operator = running
    await loop(here, 7)
    shown = await incident(operator, lambda one: one["refused"] == 2)
    await told(operator, "POST", "/api/v1/release", json={"fingerprint": shown["fingerprint"]})
    steps = (await told(operator, "GET", f"{PATH}/{shown['id']}"))["steps"]
    assert steps[-1]["what"] == "released"
