"""The status: what runs, and what is not as it should be, in words."""

from datetime import datetime

import pytest
from tests.admin.operating import operating, told
from tests.gateway.serving import JSON, chat, is_degraded, until
from tests.store.serving import server

from looptrap import __version__
from looptrap.build import build_kind
from looptrap.retry.breaker import CircuitKey, CircuitOpening
from looptrap.testing import Reply, Tokens

PATH = "/api/v1/status"


async def status_of(operator):
    return await told(operator, "GET", PATH)


async def notices_of(operator):
    """Return the messages of all notices by their code."""
    return {one["code"]: one["message"] for one in (await status_of(operator))["notices"]}


async def test_a_gateway_tells_what_it_is_and_that_nothing_has_come(tmp_path):
    async with operating(tmp_path) as (here, operator):
        status = await status_of(operator)
        assert (status["version"], status["build"]) == (__version__, build_kind())
        assert status["mode"] == "enforce"
        assert status["store"] == {"kind": "memory", "is_degraded": False}
        assert status["history"] == {
            "kind": "file", "path": str(tmp_path / "history.db"), "is_writing": True, "failed": 0,
            "lost": 0, "waiting": 0,
        }  # fmt: skip
        assert status["listen"] == f"127.0.0.1:{here.port}"
        assert status["upstream"] == here.provider.url
        assert (status["workers"], status["draining"], status["capture"]) == (None, False, "off")
        assert datetime.fromisoformat(status["started"]) <= datetime.fromisoformat(status["now"])
        (notice,) = status["notices"]
        assert (notice["level"], notice["code"]) == ("warn", "no_calls")
        assert f"http://127.0.0.1:{here.port}" in notice["message"]


async def test_with_the_first_call_that_notice_goes(tmp_path):
    async with operating(tmp_path) as (here, operator):
        await here.ask(headers=JSON, body=chat())
        assert "no_calls" not in await notices_of(operator)


async def test_open_incidents_are_counted(tmp_path):
    async with operating(tmp_path) as (here, operator):
        for _ in range(7):
            await here.ask(headers=JSON, body=chat())

        async def is_open():
            return (await status_of(operator))["open_incidents"] == 1

        await until(is_open)


@pytest.mark.parametrize(
    ("toml", "mode", "notices"),
    [
        pytest.param("", "enforce", {}, id="all rules act"),
        pytest.param(
            "[[projects]]\nname = 'a'\ndetection = 'shadow'",
            "mixed",
            {"shadow_mode": "project a is in shadow mode"},
            id="a project is watched",
        ),
        pytest.param(
            "[[policies]]\nname = 'p'\nmode = 'shadow'\n[[policies.rules]]\nname = 'r'\n"
            "watch = 'conversation'\nthreshold = 6\naction = 'block'",
            "shadow",
            {"shadow_mode": "policy p is in shadow mode", "rules_replaced": "16 of which"},
            id="nothing acts",
        ),
        pytest.param(
            "[[projects]]\nname = 'a'\ndetection = 'off'",
            "enforce",
            {"detection_off": "Detection is off for project a"},
            id="a project is not watched",
        ),
        pytest.param(
            "[[policies]]\nname = 'p'\n[[policies.rules]]\nname = 'r'\nenabled = false\n"
            "watch = 'conversation'\nthreshold = 6\naction = 'block'",
            "enforce",
            {"no_rules": "no loop is detected"},
            id="no rule is in effect",
        ),
        pytest.param(
            "[[policies]]\nname = 'p'\n[[policies.rules]]\nname = 'r'\n"
            "watch = 'conversation'\nthreshold = 6\naction = 'block'",
            "enforce",
            {"rules_replaced": "16 of which look for loops that these do not"},
            id="rules of one's own replace the default ones",
        ),
        pytest.param(
            "[[kill_switches]]\nmatch = { caller = 'key:ci' }\nreason = 'leaked'",
            "enforce",
            {"kill_switch": 'whose caller is "key:ci" is refused (leaked)'},
            id="a kill switch",
        ),
    ],
)
async def test_rules_that_do_less_than_one_might_think_are_told(tmp_path, toml, mode, notices):
    async with operating(tmp_path, toml) as (here, operator):
        await here.ask(headers=JSON, body=chat())
        status = await status_of(operator)
        assert status["mode"] == mode
        found = {one["code"]: one["message"] for one in status["notices"]}
        assert found.keys() == notices.keys()
        for code, words in notices.items():
            assert words in found[code]


async def test_what_is_set_at_run_time_is_told_too(tmp_path):
    async with operating(tmp_path) as (_, operator):
        sent = {"match": {"caller": "key:ci"}}
        await told(operator, "POST", "/api/v1/kill-switches", json=sent, status=201)
        sent = {"detection": "shadow"}
        await told(operator, "PUT", "/api/v1/projects/research", json=sent)
        found = await notices_of(operator)
        assert "A kill switch is set" in found["kill_switch"]
        assert "project research" in found["shadow_mode"]


async def test_a_model_without_a_price_is_named_and_only_a_name(tmp_path):
    name = "<script>alert(1)</script>\n"
    script = [Reply.text(tokens=Tokens(10, 5))]
    async with operating(tmp_path, script=script) as (here, operator):
        await here.ask(headers=JSON, body=chat(model=name))
        message = (await notices_of(operator))["unpriced_models"]
        assert r"<script>alert(1)</script>\n" in message


@pytest.mark.parametrize(
    ("key", "code", "words"),
    [
        (
            CircuitKey("openai"),
            "breaker_open",
            "openai failed several times in a row and is left alone",
        ),
        (
            CircuitKey("openai", "key:ci"),
            "breaker_open_for_credential",
            "openai for key:ci met a limit",
        ),
    ],
)
async def test_a_provider_that_is_left_alone_is_named(tmp_path, key, code, words):
    async with operating(tmp_path) as (here, operator):
        here.app.attempts._learn(CircuitOpening(key, 60.0))
        assert words in (await notices_of(operator))[code]


async def test_alerts_that_were_given_up_are_counted(tmp_path):
    async with operating(tmp_path) as (here, operator):
        here.app.recorder.outbox_counts = {"dead": 2}
        assert (await notices_of(operator))["dead_letters"].startswith("2 alerts were given up")


async def test_a_history_that_cannot_be_written_is_bad(tmp_path):
    async with operating(tmp_path) as (here, operator):
        here.app.recorder.writer._is_failing = True
        status = await status_of(operator)
        assert status["history"]["is_writing"] is False
        notice = status["notices"][0]
        assert (notice["level"], notice["code"]) == ("bad", "history_stuck")
        assert "Calls are guarded as before" in notice["message"]


async def test_an_indicator_that_fires_is_told_with_its_threshold(tmp_path):
    async with operating(tmp_path) as (here, operator):
        indicators = here.app.recorder.indicators
        indicators.gauges = {"tool_errors": (0.62, True), "latency": (1.0, False)}
        status = await status_of(operator)
        assert status["indicators"][0] == {
            "name": "tool_errors", "value": 0.62, "is_firing": True,
            "threshold": indicators.thresholds["tool_errors"],
        }  # fmt: skip
        (notice,) = [one for one in status["notices"] if one["code"] == "indicator_firing"]
        assert notice["message"].startswith("tool_errors is at 0.62")


async def test_a_gateway_that_stops_says_so(tmp_path):
    async with operating(tmp_path) as (here, operator):
        await here.app.server.close(0)
        status = await status_of(operator)
        assert status["draining"] is True
        assert status["notices"][0]["code"] == "stopping"


@pytest.mark.parametrize(
    ("on_error", "fate"),
    [("allow", "this process counts alone"), ("block", "Calls are refused with status 503")],
)
async def test_a_store_that_is_away_is_bad(tmp_path, on_error, fate):
    toml = f"on_store_error = '{on_error}'"
    with server() as shared:
        async with operating(tmp_path, toml, store=shared.url) as (here, operator):
            status = await status_of(operator)
            assert status["store"]["kind"] == "redis"
            assert status["store"]["is_degraded"] is False
            shared.kill()
            await here.ask(headers=JSON, body=chat())
            await until(lambda: is_degraded(here))
            status = await status_of(operator)
            assert status["store"]["is_degraded"] is True
            assert status["notices"][0]["code"] == "store_away"
            assert fate in status["notices"][0]["message"]


async def test_nothing_else_can_be_asked(tmp_path):
    async with operating(tmp_path) as (_, operator):
        found = await told(operator, "GET", PATH, params={"verbose": "1"}, status=400)
        assert found["error"]["problems"][0]["place"] == "verbose"
