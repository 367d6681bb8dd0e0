"""LiteLLM's proxy asks: what its dictionaries say, and what it is told. Without LiteLLM."""

import sys
from collections.abc import Iterator
from importlib import import_module

import pytest

from looptrap import Guard
from looptrap.client.history import LocalHistory
from looptrap.client.litellm import ProxyEnforcer, caller_id, litellm_session
from looptrap.config import load
from looptrap.incident.history import IncidentHistory
from looptrap.incident.setting import IncidentSettings
from looptrap.store.model import RESERVATION_S

KEY = "88dc28d0f030c55ed4ab77ed8faf098196cb1c05df778539800c9f1243fe6b4b"
NOW = 1_800_000_000.0


def rounds(number: int) -> list[dict]:
    """Return a conversation in which the same was asked so often, in vain."""
    messages: list[dict] = [{"role": "user", "content": "Are all parts in stock?"}]
    for place in range(number):
        function = {"name": "find_part", "arguments": '{"number": 5}'}
        call = {"id": f"call_{place}", "type": "function", "function": function}
        messages += [
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{place}", "content": "ERROR: offline"},
        ]
    return messages


def asked(number: int = 0, *, call_id: str = "c1", headers=None, **fields) -> dict:
    """Return `data` as the proxy hands it to its hooks."""
    body = {"model": "gpt-5.4-mini", "messages": rounds(number), **fields}
    metadata = {**body.pop("metadata", {}), "user_api_key_auth": object(), "headers": {}}
    return {
        **body,
        "metadata": metadata,
        "litellm_call_id": call_id,
        "litellm_logging_obj": object(),
        "proxy_server_request": {
            "url": "http://127.0.0.1:4000/v1/chat/completions?x=1",
            "method": "POST",
            "headers": headers or {},
            "body": {**body, "metadata": metadata, "litellm_trace_id": "t"},
        },
    }


def keeper_of(toml: str = "", folder=None, **options) -> ProxyEnforcer:
    if not toml:
        return ProxyEnforcer(Guard.from_preset(), clock=lambda: NOW, **options)
    file = folder / "looptrap.toml"
    file.write_text(toml)
    config = load(file)
    guard = Guard(config.policies, budgets=config.budgets)
    return ProxyEnforcer(guard, clock=lambda: NOW, **options)


def test_what_goes_in_circles_is_refused_as_the_gateway_would():
    judged = keeper_of().judge(asked(5), KEY)
    assert judged.refusal is not None
    status, headers, error = judged.refusal
    assert status == 429
    assert (error["type"], error["code"]) == ("loop_detected", "recursive_loop_detected")
    assert error["detail"]["rule"] == "no-progress"
    assert error["message"].startswith("Blocked (recursive_loop_detected): find_part")
    assert headers["x-should-retry"] == "false"
    assert headers["retry-after"] == "30"
    assert headers["x-looptrap-rule"] == "no-progress"
    assert "content-type" not in headers


def test_the_status_of_a_refusal_can_be_another():
    judged = keeper_of(block_status=400).judge(asked(5), KEY)
    assert judged.refusal is not None
    assert judged.refusal.status == 400


def test_what_gets_on_passes():
    assert keeper_of().judge(asked(1), KEY) == (None, 0.0, None)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param({"model": "m", "messages": rounds(5)}, id="no request of a client"),
        pytest.param({"proxy_server_request": {"url": "http://x/v1/chat/completions"}}, id="empty"),
        pytest.param(
            {
                "proxy_server_request": {
                    "url": "http://x/v1/audio/transcriptions",
                    "method": "POST",
                    "headers": {"x-name": "é…"},
                    "body": {"file": object()},
                }
            },
            id="a file",
        ),
    ],
)
def test_what_cannot_be_read_passes(data):
    assert keeper_of().judge(data, KEY) == (None, 0.0, None)


STOPPING = """
[[policies]]
name = "p"
  [[policies.rules]]
  name = "no-progress"
  watch = "repeat"
  threshold = 5
  action = "{action}"
"""


def test_a_call_to_be_stopped_is_refused(tmp_path):
    judged = keeper_of(STOPPING.format(action="stop"), tmp_path).judge(asked(5), KEY)
    assert judged.refusal is not None
    assert judged.refusal.headers["x-looptrap-verdict"] == "block"


def test_a_call_to_be_slowed_says_for_how_long(tmp_path):
    judged = keeper_of(STOPPING.format(action="throttle"), tmp_path).judge(asked(5), KEY)
    assert judged.refusal is None
    assert judged.delay > 0


def test_a_nudge_changes_the_messages_and_nothing_else(tmp_path):
    data = asked(5, temperature=0.5)
    judged = keeper_of(STOPPING.format(action="nudge"), tmp_path).judge(data, KEY)
    assert judged.refusal is None
    assert judged.changed is not None
    assert list(judged.changed) == ["messages"]
    assert judged.changed["messages"][:-1] == data["messages"]
    assert "going in circles" in str(judged.changed["messages"][-1])


def refusals(enforcer: ProxyEnforcer, calls: Iterator[tuple[dict, str]]) -> int:
    """Judge calls one after the other; return how many are refused."""
    refused = 0
    for data, key in calls:
        refused += enforcer.judge(data, key).refusal is not None
        enforcer.used(data["litellm_call_id"], {})
    return refused


@pytest.mark.parametrize(
    ("calls", "refused"),
    [
        pytest.param([({}, KEY)] * 6, 1, id="one key"),
        pytest.param([({}, f"{KEY}{n % 2}") for n in range(6)], 0, id="two keys"),
        pytest.param(
            [({"headers": {"X-Looptrap-Session": f"{n % 2}"}}, KEY) for n in range(6)],
            0,
            id="sessions in a header",
        ),
        pytest.param(
            [({"metadata": {"session_id": f"{n % 2}"}}, KEY) for n in range(6)],
            0,
            id="sessions in the metadata",
        ),
        pytest.param(
            [
                ({"headers": {"X-Session-Id": "a"}, "metadata": {"session_id": f"{n % 2}"}}, KEY)
                for n in range(6)
            ],
            1,
            id="the header wins",
        ),
        pytest.param(
            [({"metadata": {"user_id": f"{n % 2}"}}, KEY) for n in range(6)],
            0,
            id="end users in the metadata",
        ),
    ],
)
def test_equal_prompts_count_by_key_session_and_user(calls, refused):
    path = "http://127.0.0.1:4000/v1/messages"

    def requests():
        for given, key in calls:
            data = asked(**given, max_tokens=100)
            data["proxy_server_request"]["url"] = path
            yield data, key

    assert refusals(keeper_of(), requests()) == refused


@pytest.mark.parametrize(
    ("data", "session"),
    [
        ({"metadata": {"session_id": "a"}}, "a"),
        ({"metadata": {"x": 1}, "litellm_metadata": {"session_id": "b"}}, "b"),
        ({"metadata": None, "litellm_session_id": "c"}, "c"),
        ({}, ""),
    ],
    ids=["metadata", "LiteLLM's own", "its header", "none"],
)
def test_a_session_is_found_where_litellm_keeps_it(data, session):
    assert litellm_session(data) == session


def test_a_caller_does_not_tell_the_key():
    assert KEY[:8] not in caller_id(KEY)
    assert caller_id(KEY) == caller_id(KEY) != caller_id("other")
    assert caller_id("") == ""


BUDGET = """
[[budgets]]
name = "small"
by = ["caller"]
limit_usd = 0.01
period = "1d"
"""
USED = {
    "response_cost": 0.006,
    "metadata": {"usage_object": {"prompt_tokens": 10, "completion_tokens": 5}},
}


def budgeted(folder) -> ProxyEnforcer:
    file = folder / "looptrap.toml"
    file.write_text(BUDGET)
    config = load(file)
    return ProxyEnforcer(Guard(config.policies, budgets=config.budgets), clock=lambda: NOW)


def passes(enforcer: ProxyEnforcer, name: str) -> bool:
    data = asked(call_id=name, max_tokens=10)
    data["proxy_server_request"]["body"]["messages"] = [{"role": "user", "content": name}]
    return enforcer.judge(data, KEY).refusal is None


def test_budgets_count_what_the_proxy_says_a_call_cost(tmp_path):
    enforcer = budgeted(tmp_path)
    for name in ("one", "two"):
        assert passes(enforcer, name)
        enforcer.used(name, USED)
    assert not passes(enforcer, "three")


def test_without_a_price_of_the_proxy_ours_counts(tmp_path):
    enforcer = budgeted(tmp_path)
    assert passes(enforcer, "one")
    enforcer.used("one", {"response_cost": 0.0, "prompt_tokens": 1000, "completion_tokens": 3000})
    assert not passes(enforcer, "two")


@pytest.mark.parametrize("told", [float("inf"), float("nan"), 10**400, -1, "much"], ids=str)
def test_a_price_of_the_proxy_that_is_none_is_not_believed(tmp_path, told):
    enforcer = budgeted(tmp_path)
    assert passes(enforcer, "one")
    enforcer.used("one", {"response_cost": told, "prompt_tokens": 1000, "completion_tokens": 3000})
    assert not passes(enforcer, "two")


def test_a_loop_of_time_outs_uses_its_budget_up(tmp_path):
    enforcer = budgeted(tmp_path)
    passed = 0
    while passes(enforcer, f"call {passed}"):
        enforcer.failed(f"call {passed}", 408)
        passed += 1
        assert passed < 400


def test_a_call_that_failed_costs_nothing(tmp_path):
    enforcer = budgeted(tmp_path)
    for number in range(400):  # what is reserved for them would be more than the budget
        assert passes(enforcer, f"call {number}")
        enforcer.failed(f"call {number}", 500)


def test_what_is_told_of_calls_nobody_knows_is_ignored():
    enforcer = keeper_of()
    enforcer.used("never seen", USED)
    enforcer.failed("never seen", 500)


def test_calls_that_never_end_do_not_pile_up(monkeypatch, tmp_path):
    monkeypatch.setattr("looptrap.client.litellm.MAX_OPEN_CALLS", 3)
    enforcer = budgeted(tmp_path)
    for name in ("one", "two", "three", "four"):
        assert passes(enforcer, name)
    enforcer.used("one", USED)
    enforcer.used("one", USED)
    assert passes(enforcer, "five"), "the oldest is forgotten"
    enforcer.used("four", USED)
    enforcer.used("five", USED)
    assert not passes(enforcer, "six")


def test_calls_that_pile_up_have_no_older_one_go_free(monkeypatch, tmp_path):
    monkeypatch.setattr("looptrap.client.litellm.MAX_OPEN_CALLS", 1)
    enforcer, moment = budgeted(tmp_path), [NOW]
    enforcer._clock = lambda: moment[0]
    passed = 0
    while passes(enforcer, f"call {passed}"):
        passed += 1
    moment[0] += 2 * RESERVATION_S  # by when what nobody has settled has come back
    again = 0
    while passes(enforcer, f"much later: call {again}"):
        again += 1
    assert again <= 1 < passed


def test_a_call_of_which_nothing_is_known_costs_what_was_reserved_for_it(tmp_path):
    enforcer = budgeted(tmp_path)
    passed = 0
    while passes(enforcer, f"call {passed}"):
        enforcer.used(f"call {passed}", {})
        passed += 1
    assert 100 < passed < 200


def test_refusals_become_incidents_where_a_history_is_wanted(tmp_path):
    file = str(tmp_path / "looptrap.db")
    incident_history = LocalHistory(file, clock=lambda: NOW)
    enforcer = ProxyEnforcer(
        Guard.from_preset(), incident_history=incident_history, clock=lambda: NOW
    )
    assert enforcer.judge(asked(5), KEY).refusal is not None
    incident_history.close()
    history = IncidentHistory(file, IncidentSettings())
    history.open()
    [incident] = history.incidents().items
    history.close()
    assert incident.caller == caller_id(KEY)


class Absent:
    """Finds no LiteLLM, whether it is installed or not."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] == "litellm":
            raise ModuleNotFoundError("No module named 'litellm'", name="litellm")


def test_without_litellm_its_door_says_what_to_install(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", [Absent, *sys.meta_path])
    monkeypatch.delitem(sys.modules, "looptrap.litellm", raising=False)
    with pytest.raises(ImportError, match="pip install litellm"):
        import_module("looptrap.litellm")
