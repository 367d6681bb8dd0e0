"""Providers: whether they answer, how soon, and which are left alone."""

from datetime import datetime

import pytest
from tests.admin.operating import operating, told
from tests.gateway.serving import JSON, chat

from looptrap.admin.provider import first_byte_p95
from looptrap.engine.counters import FIRST_BYTE_BOUNDS, Histogram
from looptrap.retry.breaker import CircuitKey, CircuitOpening
from looptrap.testing import Reply

PATH = "/api/v1/providers"

CHAIN = """
[[providers]]
name = "near"
base_url = ["{url}/v1", "{url}/other/v1"]

[[providers]]
name = "far"
base_url = "{url}/far"

[[routes]]
chain = ["near", "far/model"]
"""


async def providers_of(operator):
    return {one["name"]: one for one in (await told(operator, "GET", PATH))["providers"]}


async def test_one_upstream_is_one_provider(tmp_path):
    script = [Reply.text(), Reply.status(500), Reply.status(429), Reply.status(400)]
    async with operating(tmp_path, script=script) as (here, operator):
        for n in range(4):
            await here.ask(headers=JSON, body=chat(f"Question {n}"))
        found = (await providers_of(operator))["upstream"]
        assert found["base_url"] == here.provider.url
        # Whoever asks for what is wrong has met no failure of the provider.
        assert (found["calls"], found["failures"]) == (4, 2)
        assert 0 < found["p95_first_byte_seconds"] < 60
        assert sum(found["first_bytes"]) == 4
        assert found["breakers"] == [
            {"circuit": "upstream", "credential": None, "state": "closed", "until": None,
             "reason": None}
        ]  # fmt: skip


async def test_without_one_upstream_the_well_known_are_told(tmp_path):
    async with operating(tmp_path, upstream=None) as (_, operator):
        found = await providers_of(operator)
        assert set(found) == {"anthropic", "gemini", "openai"}
        assert found["openai"]["base_url"] == "https://api.openai.com/v1"
        assert found["openai"]["p95_first_byte_seconds"] is None


async def test_every_place_of_a_chain_has_its_circuit(tmp_path):
    async with operating(tmp_path, CHAIN) as (here, operator):
        found = await providers_of(operator)
        assert [*found] == ["near", "far", "upstream"]
        circuits = [one["circuit"] for one in found["near"]["breakers"]]
        assert [one.partition("@")[0] for one in circuits] == ["near", "near"]
        here.app.attempts._learn(CircuitOpening(CircuitKey(circuits[0]), 60.0))
        here.app.attempts._learn(CircuitOpening(CircuitKey("far", "key:ci"), 60.0))
        found = await providers_of(operator)
        opened = found["near"]["breakers"][0]
        assert (opened["state"], opened["reason"]) == ("open", "failures in a row")
        now = datetime.fromisoformat((await told(operator, "GET", "/api/v1/status"))["now"])
        assert 0 < (datetime.fromisoformat(opened["until"]) - now).total_seconds() <= 60
        states = {one["credential"]: one["state"] for one in found["far"]["breakers"]}
        assert states == {None: "closed", "key:ci": "open"}


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        pytest.param([], None, id="none"),
        pytest.param([0.04] * 100, 0.0475, id="all within the first bound"),
        pytest.param([0.04] * 90 + [0.6] * 10, 0.625, id="a slow tenth"),
        pytest.param([500.0] * 10, FIRST_BYTE_BOUNDS[-1], id="beyond all bounds"),
    ],
)
def test_a_p95_is_read_from_a_histogram(seconds, expected):
    histogram = Histogram(FIRST_BYTE_BOUNDS)
    for one in seconds:
        histogram.observe(one)
    found = first_byte_p95(histogram.counts)
    assert found == (None if expected is None else pytest.approx(expected, abs=0.001))
