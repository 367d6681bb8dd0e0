"""A configuration read again while the gateway runs: rules change, what was counted stays."""

import pytest
from tests.gateway.serving import CHAT, JSON, chat, request
from tests.wire.fake_client import until

from looptrap.config import load
from looptrap.errors import ConfigError
from looptrap.testing import FakeProvider, Gate, Reply

RULE = """
[[policies]]
name = "p"
  [[policies.rules]]
  name = "same"
  watch = "conversation"
  window = 60
  threshold = {threshold}
  cooldown = 30
"""


@pytest.fixture
def reload(tmp_path):
    """Read another file into a running gateway; its flags stay what they were."""

    def again(here, toml="", **flags):
        file = tmp_path / "next.toml"
        file.write_text(toml)
        given = {"listen": "127.0.0.1:0", "state": str(here.state.path)}
        given |= {"history": here.app.config.history}
        given |= {"upstream": here.provider.url} | flags
        return here.app.reload(load(file, env={}, flags=given))

    return again


async def ask(here, text="Again?"):
    return (await here.ask(headers=JSON, body=chat(text))).status


async def test_another_threshold_takes_effect_on_what_was_counted_before(serve, reload):
    here = await serve(RULE.format(threshold=6))
    assert [await ask(here) for _ in range(3)] == [200, 200, 200]
    reload(here, RULE.format(threshold=4))
    assert await ask(here) == 429


async def test_a_cooldown_outlives_the_reload(serve, reload):
    here = await serve(RULE.format(threshold=2))
    assert [await ask(here) for _ in range(2)] == [200, 429]
    reload(here, RULE.format(threshold=50))
    assert await ask(here) == 429
    assert await ask(here, "Another") == 200


async def test_another_upstream_takes_the_next_call(serve, reload):
    here = await serve()
    assert await ask(here, "one") == 200
    async with FakeProvider() as other:
        reload(here, upstream=other.url)
        assert await ask(here, "two") == 200
        assert (here.provider.calls, other.calls) == (1, 1)
        await here.app.pools.close()


async def test_a_call_in_flight_ends_as_it_began(serve, reload):
    gate = Gate()
    here = await serve(RULE.format(threshold=6), script=[Reply.pause(gate)])
    client = await here.connect()
    await client.send(request(headers=JSON, body=chat()))
    await gate.reached.wait()
    reload(here, "block_status = 403\n" + RULE.format(threshold=2))
    gate.open()
    assert (await client.answer()).status == 200
    await until(lambda: here.app.tally.statuses[200] == 1)
    assert await ask(here) == 403


async def test_metrics_and_keys_stay(serve, reload):
    here = await serve()
    key = here.add_key()
    assert await ask(here) == 401
    reload(here)
    assert await ask(here) == 401
    own = JSON | {"X-Looptrap-Key": key, "Authorization": "Bearer sk-own"}
    assert (await here.ask(headers=own, body=chat())).status == 200
    assert here.app.tally.verdicts["allow"] == 1


async def test_a_key_that_two_projects_list_changes_nothing(serve, reload):
    here = await serve(RULE.format(threshold=2))
    projects = '[[projects]]\nname = "{}"\nkeys = ["ci"]\n'
    with pytest.raises(ConfigError, match="belongs to project a already"):
        reload(here, projects.format("a") + projects.format("b"))
    assert [await ask(here) for _ in range(2)] == [200, 429]


@pytest.mark.parametrize(
    ("toml", "waiting"),
    [
        pytest.param("[gateway]\nmax_body = '1MB'", ["gateway.max_body"], id="a limit of the wire"),
        pytest.param("[gateway]\naccess_log = 'json'", ["gateway.access_log"], id="the access log"),
        pytest.param("[gateway]\ngrace = 5\ndecision_status = 403", [], id="what a reload changes"),
        pytest.param("block_status = 403", [], id="nothing of the gateway's"),
        pytest.param("[incidents]\nquiet = 9", ["incidents"], id="a table as a whole"),
    ],
)
async def test_settings_that_wait_for_the_next_start_are_named(serve, reload, toml, waiting):
    here = await serve()
    assert reload(here, toml) == waiting


async def test_new_session_headers_are_read(serve, reload):
    here = await serve()
    rule = RULE.format(threshold=2).replace("cooldown = 30", 'by = ["session"]')
    reload(here, f'session_headers = ["X-Run"]\n{rule}')
    runs = ["a", "b", "a"]
    answers = [
        (await here.ask(target=CHAT, headers=JSON | {"X-Run": run}, body=chat())).status
        for run in runs
    ]
    assert answers == [200, 200, 429]
