"""Metrics: what Prometheus scrapes is right, can be read, and is documented."""

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.gateway.serving import JSON, chat, request, serving
from tests.wire.fake_client import until

from looptrap.admin.metrics import exposition
from looptrap.testing import Gate, Reply, Tokens

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"


def families(app):
    return {one.name: one for one in text_string_to_metric_families(exposition(app).decode())}


def values(app):
    """Return every sample by its name and the values of its labels, in the labels' order."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in families(app).values()
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


@pytest.fixture
async def here(tmp_path):
    async with serving(tmp_path) as here:
        yield here


async def test_every_verdict_answer_and_token_is_counted(here):
    here.provider._script = [Reply.text(tokens=Tokens(7, 3)), Reply.status(500)]
    client = await here.connect()
    for text in ["same"] * 6 + ["other"]:
        await client.send(request(headers=JSON, body=chat(text)))
        await client.answer()
    found = values(here.app)
    assert found["looptrap_requests_total", "allow"] == 6
    assert found["looptrap_requests_total", "block"] == 1
    rule = ("enforce", "default", "identical-conversation", "block")
    assert found["looptrap_rule_verdicts_total", *rule] == 1
    assert found["looptrap_upstream_answers_total", "200"] == 1
    assert found["looptrap_upstream_answers_total", "500"] == 5
    assert found["looptrap_tokens_total", "input"] == 7
    assert found["looptrap_tokens_total", "output"] == 3
    assert found["looptrap_upstream_connections_total", "opened"] == 1
    assert found["looptrap_upstream_connections_total", "reused"] == 5
    assert found["looptrap_connections",] == 1
    assert found["looptrap_store_fingerprints",] == 3  # two, and the cooldown of one of them
    assert found["looptrap_internal_errors_total",] == 0


async def test_what_is_under_way_and_who_left_is_counted(here):
    gate = Gate()
    here.provider._script = [Reply.pause(gate)]
    client = await here.connect()
    await client.send(request(headers=JSON, body=chat()))
    await gate.reached.wait()
    found = values(here.app)
    assert found["looptrap_upstream_in_flight",] == 1
    assert found["looptrap_buffered_bytes",] == len(chat())
    client.close()
    await until(lambda: here.app.server.disconnects)
    found = values(here.app)
    assert found["looptrap_disconnects_total",] == 1
    assert found["looptrap_upstream_in_flight",] == 0
    assert found["looptrap_buffered_bytes",] == 0
    assert found["looptrap_upstream_answers_total", "0"] == 1


async def test_what_the_wire_refuses_is_counted(here):
    client = await here.connect()
    await client.send(b"NONSENSE\r\n\r\n")
    assert (await client.answer()).status == 400
    assert values(here.app)["looptrap_wire_refusals_total", "bad_request"] == 1


async def test_the_reference_names_every_metric_with_its_type_and_labels(here):
    for text in ["same"] * 6:
        await here.ask(headers=JSON, body=chat(text))
    exposed = {}
    for name, family in families(here.app).items():
        labels = ", ".join(f"`{label}`" for label in _labels(family)) or "–"
        suffix = "_total" if family.type == "counter" else ""
        exposed[f"{name}{suffix}"] = (family.type, labels)
    row = re.compile(r"^\| `(looptrap_\w+)` \| (\w+) \| (.+?) \|", re.MULTILINE)
    documented = {name: (kind, labels) for name, kind, labels in row.findall(REFERENCE.read_text())}
    assert documented == exposed


def _labels(family):
    return sorted(family.samples[0].labels) if family.samples else []
