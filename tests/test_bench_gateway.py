"""The gateway's benchmark: a guard in nginx to compare with, other builds, aims."""

import argparse
import json
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest
from bench import gateway, rig, table
from bench.rig import Load
from bench.table import Round, Row
from tests.conftest import skip_without_part

from looptrap.testing import FakeProvider


@pytest.fixture
def guarded(tmp_path, needs):
    """Return a function that posts to nginx with Lua, and returns the status."""
    needs("nginx", "nginx-light")
    with FakeProvider.running() as provider:
        port = urlsplit(provider.url).port
        try:
            with rig.nginx_with_lua(tmp_path, port) as proxy:

                def post(body, caller="sk-one"):
                    connection = HTTPConnection("127.0.0.1", proxy.port, timeout=10)
                    sent = body if isinstance(body, str) else json.dumps(body)
                    fields = {"Authorization": f"Bearer {caller}"}
                    connection.request("POST", "/v1/chat/completions", sent, fields)
                    status = connection.getresponse().status
                    connection.close()
                    return status

                yield post
        except rig.MissingPartError as error:
            skip_without_part(str(error))


def chat(*texts, model="gpt-5"):
    return {"model": model, "messages": [{"role": "user", "content": text} for text in texts]}


def test_nginx_with_lua_refuses_the_sixth_equal_call(guarded):
    looping = chat("a", "b", "c")
    assert [guarded(looping) for _ in range(7)] == [200] * 5 + [429] * 2
    assert guarded(chat("earlier", "a", "b", "c")) == 429, "only the last three count"
    assert guarded(looping, caller="sk-two") == 200
    assert guarded(chat("a", "b", "c", model="other")) == 200
    assert guarded(chat("a", "b", "d")) == 200


@pytest.mark.parametrize("body", ["", "no JSON", "[]", '{"messages": 3}'])
def test_nginx_with_lua_forwards_what_it_cannot_read(guarded, body):
    assert {guarded(body) == 429 for _ in range(8)} == {False}


def row(proxy, cpu_us, *, body="small", connections=32, p50=100, is_looptrap=False):
    load = Load(requests=1_000_000, seconds=1, refused=0, broken=0, p50=p50, p99=p50)
    rounds = [Round(load, user=cpu_us, system=0.0)]
    return Row(body, connections, proxy, is_looptrap=is_looptrap, rounds=rounds)


@pytest.mark.parametrize(
    ("body", "connections", "cpu_us", "p50", "aim"),
    [
        pytest.param("small", 32, 30.0, 100, "reached (≤ 3 ×)", id="reached"),
        pytest.param("large", 32, 31.0, 100, "MISSED (≤ 3 ×)", id="missed"),
        pytest.param("agent", 32, 40.0, 100, "reached (≤ 4 ×)", id="agents"),
        pytest.param("small_stream", 32, 16.0, 100, "MISSED (≤ 1.5 ×)", id="not a whole number"),
        pytest.param("small", 1, 99.0, 220, "reached (p50 +120 µs, ≤ +120)", id="latency"),
        pytest.param("small", 1, 99.0, 221, "MISSED (p50 +121 µs, ≤ +120)", id="latency missed"),
    ],
)
def test_the_table_says_of_each_build_whether_it_reaches_the_aim(
    body, connections, cpu_us, p50, aim
):
    rows = [
        row("nginx", 10.0, body=body, connections=connections),
        row("nginx + Lua", cpu_us, body=body, connections=connections, p50=p50),
        row("base", cpu_us, body=body, connections=connections, p50=p50, is_looptrap=True),
    ]
    sizes = {one.proxy: 90_000_000 for one in rows}
    text = table.render(rows, sizes, sizes, {"base": "CPython 3.11.2, optimised"})
    lua = next(line for line in text.splitlines() if " nginx + Lua" in line)
    base, memory, python = (line for line in text.splitlines() if "base" in line.split()[:3])
    assert base.endswith(aim)
    assert "reached" not in lua
    assert "MISSED" not in lua
    assert memory.endswith("MISSED (≤ 80 idle)")
    assert python.split() == ["base", "CPython", "3.11.2,", "optimised"]
    found = table.as_json(rows, sizes, sizes, {"base": "CPython"})
    assert [one["proxy"] for one in found["rows"]] == ["nginx", "nginx + Lua", "base"]
    assert found["interpreters"] == {"base": "CPython"}


def test_a_report_compares_only_looptrap_with_later_runs():
    rows = [row("nginx", 10.0), row("nginx + Lua", 18.0), row("looptrap", 29.0, is_looptrap=True)]
    found = {one.name: one for one in table.figures(rows, {})}
    assert {name: (one.aim, one.is_compared) for name, one in found.items()} == {
        "nginx + Lua, small: CPU ÷ nginx's": (None, False),
        "looptrap, small: CPU ÷ nginx's": (3.0, True),
    }


def test_another_environment_has_a_name_and_a_looptrap(tmp_path):
    (tmp_path / "looptrap").touch()
    python = tmp_path / "python"
    assert gateway.environment(f"base={python}") == ("base", python)


@pytest.mark.parametrize(
    "text", ["{0}", "={0}", "nginx={0}", "looptrap={0}", "a/b={0}", "a={0}/no"]
)
def test_other_environments_are_rejected(tmp_path, text):
    (tmp_path / "looptrap").touch()
    with pytest.raises(argparse.ArgumentTypeError):
        gateway.environment(text.format(tmp_path / "python"))
