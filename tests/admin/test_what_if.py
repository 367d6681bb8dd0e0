"""What if, for operators: other settings on captured traffic, before anybody saves them."""

import asyncio

import pytest
from tests.admin.operating import operating, told
from tests.gateway.serving import JSON, chat, until
from tests.replay.capturing import Capturing
from tests.replay.recorded import honest, stuck

from looptrap.admin import rule_trial
from looptrap.config import load
from looptrap.replay.replay import Replay
from looptrap.replay.ruleset import Ruleset

PATH = "/api/v1/what-if"
FILE = """
[[policies]]
name = "p"
  [[policies.rules]]
  name = "same"
  watch = "conversation"
  threshold = 6
  [[policies.rules]]
  name = "no-progress"
  watch = "repeat"
  thresholds = { warn = 4, block = 9 }

[[projects]]
name = "research"
keys = ["ci"]
threshold = 5
"""
STRICT = {"settings": {"scale": 0.5}}


@pytest.fixture
def capture(tmp_path):
    capture = Capturing(tmp_path / "calls")
    for number, messages in enumerate([stuck(5), honest(6), stuck(12)]):
        capture.run(messages, session=f"run-{number}", project="research")
    for _ in range(5):
        capture.call([{"role": "user", "content": "Again."}], session="cron", project="research")
    return capture


@pytest.fixture
async def operator(tmp_path, capture):
    async with operating(tmp_path, FILE, capture_dir=str(capture.folder)) as (_, operator):
        yield operator


def replayed(capture, text, tmp_path):
    """Return what replaying the capture under a configuration counts."""
    (tmp_path / "then.toml").write_text(text)
    config = load(tmp_path / "then.toml", env={})
    replay = Replay(Ruleset.of(config))
    for path in capture.files:
        list(replay.play_file(path))
    list(replay.finish())
    return replay.summary


async def test_stricter_thresholds_are_tried_on_captured_calls(operator, capture, tmp_path):
    found = await told(operator, "POST", PATH, json=STRICT)
    assert found["captured"] == {
        "calls": 31, "runs": 4, "skipped": 0,
        "from": "2025-06-15T15:06:41.000Z", "until": "2025-06-15T15:07:11.000Z",
    }  # fmt: skip
    for side, config in (("now", FILE), ("then", found["config"])):
        summary, counts = replayed(capture, config, tmp_path), found[side]
        assert counts["flagged_runs"] == summary.flagged_runs
        assert counts["saved_calls"] == summary.saved_calls
        assert counts["saved_tokens"] == summary.saved_tokens
        assert counts["actions"] == {one.value: n for one, n in summary.actions.items()}
    assert found["now"]["refused_runs"] < found["then"]["refused_runs"]
    assert found["changed_runs"] == len(found["changed"]) > 0
    first = found["changed"][0]
    assert set(first) == {"run", "began", "model", "project", "calls", "now", "then"}
    assert (first["project"], first["began"][-1]) == ("research", "Z")
    assert found["command"].startswith("looptrap replay ")
    assert found["limits"] == []


@pytest.mark.parametrize(
    ("settings", "then"),
    [
        pytest.param({}, {"block": 2, "warn": 1}, id="nothing is otherwise"),
        pytest.param({"preset": "default"}, {"block": 3}, id="a preset"),
        pytest.param({"project": {"detection": "off"}}, {}, id="off for all"),
        pytest.param(
            {"project": {"name": "research", "detection": "shadow"}}, {}, id="a project in shadow"
        ),
        pytest.param(
            {"project": {"name": "research", "threshold": 9}},
            {"block": 1, "warn": 1},
            id="a project with a higher threshold",
        ),
        pytest.param(
            {"project": {"name": "research", "action": "warn"}},
            {"warn": 2},
            id="a project that only warns",
        ),
        pytest.param(
            {"project": {"name": "other", "detection": "off"}},
            {"block": 2, "warn": 1},
            id="another project",
        ),
    ],
)
async def test_settings_are_tried_as_they_would_be_saved(operator, settings, then):
    found = await told(operator, "POST", PATH, json={"settings": settings})
    assert found["now"]["actions"] == {"block": 2, "warn": 1}
    assert found["then"]["actions"] == then


async def test_what_was_set_at_run_time_counts_as_now(operator):
    await told(operator, "PUT", "/api/v1/projects/research", json={"detection": "off"})
    found = await told(operator, "POST", PATH, json={"settings": {"project": {"name": "research"}}})
    assert found["now"]["actions"] == {}
    assert found["then"]["actions"] == {"block": 2, "warn": 1}


async def test_traffic_that_the_gateway_captured_itself_is_tried(tmp_path):
    folder = tmp_path / "calls"
    options = {"capture_dir": str(folder), "capture": "digests"}
    async with operating(tmp_path, FILE, **options) as (here, operator):
        await told(operator, "POST", PATH, json=STRICT, status=409)
        for _ in range(4):
            assert (await here.ask(headers=JSON, body=chat())).status == 200
        await until(lambda: here.app.capture.written == 4)
        found = await told(operator, "POST", PATH, json=STRICT)
    assert (found["captured"]["calls"], found["captured"]["runs"]) == (4, 1)
    assert (found["now"]["flagged_runs"], found["then"]["refused_runs"]) == (0, 1)


@pytest.mark.parametrize(
    ("bounds", "calls"),
    [({"limit": 7}, 7), ({"since": "2025-06-15T17:07:07+02:00"}, 5)],
    ids=["so many calls", "since then"],
)
async def test_only_the_latest_calls_are_tried(operator, bounds, calls):
    found = await told(operator, "POST", PATH, json=STRICT | bounds)
    assert (found["captured"]["calls"], found["command"]) == (calls, None)


@pytest.mark.parametrize("since", [None, "2031-01-01T00:00:00Z"], ids=["no folder", "none since"])
async def test_where_nothing_is_captured_it_says_how_to(tmp_path, capture, since):
    folder = {} if since is None else {"capture_dir": str(capture.folder)}
    async with operating(tmp_path, FILE, **folder) as (_, operator):
        bounds = {} if since is None else {"since": since}
        refused = await told(operator, "POST", PATH, json=STRICT | bounds, status=409)
    assert refused["error"]["code"] == "no_capture"
    assert "--capture DIR" in refused["error"]["message"]


@pytest.mark.parametrize(
    ("sent", "status", "says"),
    [
        ({"json": {}}, 400, "has no settings"),
        ({"json": []}, 400, "must be a table"),
        ({"json": {"settings": 1}}, 400, "settings: is 1, must be a table"),
        ({"json": {"settings": {"scale": 3}}}, 400, "settings.scale: is 3, must be 2 or less"),
        ({"json": {"settings": {"scale": "x"}}}, 400, "settings.scale"),
        ({"json": {"settings": {"preset": "defalt"}}}, 400, "did you mean default?"),
        ({"json": {"settings": {"project": {"detection": "maybe"}}}}, 400, "project.detection"),
        ({"json": {"settings": {"project": {"keys": []}}}}, 400, "settings.project.keys"),
        ({"json": {"settings": {"project": {"name": "a b"}}}}, 400, "settings.project.name"),
        ({"json": {"settings": {"preset": "tcc", "project": {"threshold": 999}}}}, 200, ""),
        ({"json": STRICT | {"since": "yesterday"}}, 400, "since"),
        ({"json": STRICT | {"limit": 0}}, 400, "limit: is 0, must be 1 or more"),
        ({"json": STRICT | {"limit": 20_001}}, 400, "limit"),
        ({"json": STRICT | {"colour": 1}}, 400, "colour: is not a setting"),
        ({"data": b"{", "headers": JSON}, 400, "Send JSON"),
        ({"data": b"{}"}, 415, "Send application/json."),
    ],
    ids=["nothing", "a list", "settings that are none", "too mild", "a text", "a misspelt preset",
         "a project's mistake", "keys", "a project's name", "a high threshold", "a time in words",
         "no calls", "too many calls", "something else", "cut off", "another type"],
)  # fmt: skip
async def test_mistakes_are_told(operator, sent, status, says):
    answer = await told(operator, "POST", PATH, status=status, **sent)
    if says:
        assert says in answer["error"]["message"]


async def test_settings_that_do_not_fit_the_policies_are_refused(tmp_path, capture):
    sessions = FILE.replace('"conversation"', '"session"')
    async with operating(tmp_path, sessions, capture_dir=str(capture.folder)) as (_, operator):
        for project in ({"threshold": 5000}, {"name": "research", "threshold": 5000}):
            refused = await told(
                operator, "POST", PATH, json={"settings": {"project": project}}, status=400
            )
            assert "threshold is 5000" in refused["error"]["message"]


class Slow:
    """Stands for work that does not end by itself."""

    def __init__(self):
        self.begun, self.ended = asyncio.Event(), asyncio.Event()

    async def __call__(self, *_):
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()


@pytest.fixture
def slow(monkeypatch):
    slow = Slow()
    monkeypatch.setattr(rule_trial, "run_in_subprocess", slow)
    return slow


async def test_one_is_answered_at_a_time(operator, slow):
    first = asyncio.create_task(operator.post(PATH, json=STRICT))
    await slow.begun.wait()
    refused = await told(operator, "POST", PATH, json=STRICT, status=429)
    assert refused["error"]["code"] == "busy"
    first.cancel()
    await until(slow.ended.is_set)


async def test_who_leaves_takes_the_work_along(operator, slow, monkeypatch):
    asking = asyncio.create_task(operator.post(PATH, json=STRICT))
    await slow.begun.wait()
    asking.cancel()
    await until(slow.ended.is_set)
    monkeypatch.undo()

    async def is_free():
        async with operator.post(PATH, json=STRICT) as answer:
            return answer.status == 200

    await until(is_free)


@pytest.mark.parametrize(
    ("failure", "status", "code"),
    [(TimeoutError(), 422, "too_slow"), (ChildProcessError("status 1"), 500, "failed")],
    ids=["too slow", "no answer"],
)
async def test_work_that_fails_is_told_in_words(operator, monkeypatch, failure, status, code):
    async def fail(*_):
        raise failure

    monkeypatch.setattr(rule_trial, "run_in_subprocess", fail)
    refused = await told(operator, "POST", PATH, json=STRICT, status=status)
    assert refused["error"]["code"] == code


async def test_nothing_is_saved(operator):
    before = await told(operator, "GET", "/api/v1/projects")
    await told(operator, "POST", PATH, json={"settings": {"project": {"name": "research"}}})
    assert await told(operator, "GET", "/api/v1/projects") == before


async def test_a_change_of_one_rule_is_tried_on_captured_calls(operator, capture, tmp_path):
    rules = {"no-progress": {"thresholds": {"warn": 3, "block": 5}}}
    found = await told(operator, "POST", PATH, json={"settings": {"rules": rules}})
    assert found["now"]["refused_runs"] < found["then"]["refused_runs"]
    changed = FILE + '[rules."no-progress"]\nthresholds = { warn = 3, block = 5 }\n'
    summary = replayed(capture, changed, tmp_path)
    assert found["then"]["saved_calls"] == summary.saved_calls


@pytest.mark.parametrize(
    ("rules", "place"),
    [
        pytest.param({"no-such": {"enabled": False}}, "settings.rules.no-such", id="unknown"),
        pytest.param({"same": {}}, "settings.rules.same", id="nothing"),
        pytest.param(
            {"no-progress": {"thresholds": {"block": 500}}},
            "settings.rules.no-progress.thresholds.block",
            id="out of reach",
        ),
    ],
)
async def test_a_mistake_in_a_change_of_a_rule_has_its_place(operator, rules, place):
    answer = await told(operator, "POST", PATH, json={"settings": {"rules": rules}}, status=400)
    assert [one["place"] for one in answer["error"]["problems"]] == [place]
