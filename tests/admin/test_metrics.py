"""Metrics: what Prometheus scrapes is right, can be read, is documented, and adds up."""

import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.gateway.serving import JSON, chat, request, serving
from tests.wire.fake_client import until

from looptrap.admin.metrics import MetricTotals, attempt_metrics, exposition, text_format
from looptrap.detect.signals.signal import Evidence
from looptrap.dialect.model import Call, Outcome, Request, Usage
from looptrap.engine import Guard, Ticket
from looptrap.gateway.upstream import UpstreamState
from looptrap.policy.action import Action
from looptrap.policy.verdict import Verdict
from looptrap.retry.breaker import CircuitChange, CircuitKey, CircuitOpening
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


def total(app, name, **labels):
    """Return the sum of all samples of a name that have these labels."""
    return sum(
        sample.value
        for family in families(app).values()
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


async def test_every_verdict_answer_and_token_is_counted(here):
    here.provider._script = [Reply.text(tokens=Tokens(7, 3)), Reply.status(500)]
    client = await here.connect()
    for text in ["same"] * 6 + ["other"]:
        await client.send(request(headers=JSON, body=chat(text)))
        await client.answer()
    requests = partial(total, here.app, "looptrap_requests_total")
    assert requests(verdict="allow", rule="none", signal="none", dialect="openai_chat") == 6
    rule = "identical-conversation"
    refused = {"rule": rule, "signal": "conversation", "provider": "none"}
    assert requests(verdict="block", **refused) == 1
    assert requests() == 7
    assert total(here.app, "looptrap_agent_requests_total") == 7
    answers = partial(total, here.app, "looptrap_upstream_answers_total")
    assert (answers(status="200"), answers(status="500"), answers()) == (1, 5, 6)
    tokens = partial(total, here.app, "looptrap_tokens_total", model="gpt-5.3")
    assert (tokens(kind="input"), tokens(kind="output")) == (7, 3)
    found = values(here.app)
    acted = ("enforce", "default", rule, "block")
    assert found["looptrap_rule_verdicts_total", *acted] == 1
    assert found["looptrap_upstream_connections_total", "opened"] == 1
    assert found["looptrap_upstream_connections_total", "reused"] == 5
    assert found["looptrap_connections",] == 1
    assert found["looptrap_store_fingerprints",] == 3  # two, and the cooldown of one of them
    assert found["looptrap_internal_errors_total",] == 0


def counted(tally):
    """Have a guard settle one call that was answered, and one that was refused."""
    guard = Guard.from_preset(tally=tally)
    call = Call(Request(caller="key:ci"), "anthropic", model="claude")
    usage = Usage(70, 30, 20, 10, audio_input_tokens=5, is_estimated=True)
    guard.settle(Ticket(call), Outcome(200, usage, cost=2_500_000), "anthropic", 0.42)
    guard.settle(Ticket(call), Outcome(500, Usage(1, 0)), "anthropic")
    evidence = (Evidence("repeat", "the same", 5),)
    verdict = Verdict(action=Action.BLOCK, policy="p", rule="r", evidence=evidence)
    guard.settle(Ticket(call, verdict))
    tally.agent_requests.update({"Claude Code": 2, "": 1})
    tally.decisions.observe(7e-5)
    tally.decisions.observe(3.0)


async def test_the_provider_the_signal_and_times_are_told(here):
    counted(here.app.tally)
    found = values(here.app)
    requests = "looptrap_requests_total"
    assert found[requests, "anthropic", "anthropic", "none", "none", "allow"] == 2
    assert found[requests, "anthropic", "none", "r", "repeat", "block"] == 1
    of_model = ("claude", "anthropic")
    kinds = {"input": 71, "output": 30, "cached": 20, "reasoning": 10, "audio": 5}
    for kind, tokens in kinds.items():
        assert found["looptrap_tokens_total", kind, *of_model] == tokens
    assert found["looptrap_cost_usd_total", *of_model] == 0.0025
    assert found["looptrap_unpriced_calls_total", *of_model] == 1
    assert found["looptrap_estimated_calls_total", *of_model] == 1
    assert found["looptrap_caller_cost_usd_total", "key:ci", "none"] == 0.0025
    assert found["looptrap_upstream_answers_total", "anthropic", "200"] == 1
    assert found["looptrap_agent_requests_total", "Claude Code"] == 2
    assert found["looptrap_agent_requests_total", "none"] == 1
    first_byte = "looptrap_first_byte_seconds"
    assert found[f"{first_byte}_bucket", "0.35", "anthropic"] == 0
    assert found[f"{first_byte}_bucket", "0.5", "anthropic"] == 1
    assert found[f"{first_byte}_bucket", "+Inf", "anthropic"] == 1
    assert found[f"{first_byte}_sum", "anthropic"] == 0.42
    decision = "looptrap_decision_seconds"
    assert found[f"{decision}_bucket", "5e-05"] == 0
    assert found[f"{decision}_bucket", "0.0001"] == 1
    assert found[f"{decision}_bucket", "0.05"] == 1
    assert found[f"{decision}_count",] == 2
    assert found[f"{decision}_sum",] == pytest.approx(3.00007)


class Numbers:
    """What a gateway with two channels might say of its incidents."""

    tracker = SimpleNamespace(open=2, opened=7, saved=12_400_000_000)
    writer = SimpleNamespace(written=9, failed=3, is_failing=True)
    history = SimpleNamespace(spool=SimpleNamespace(waiting=12, size=3_400))
    dropped, lost, false_alarms = 1, 5, 4
    deliverer = SimpleNamespace(
        deliveries={("ops", "delivered"): 5, ("ops", "dead"): 1, ("slack", "delivered"): 6}
    )
    outbox_counts: ClassVar = {"pending": 4, "delivered": 11, "dead": 1}
    indicators = SimpleNamespace(gauges={"tool_errors": (0.6, True), "latency": (1.5, False)})


async def test_incidents_alerts_and_indicators_are_told(here, monkeypatch):
    monkeypatch.setattr(here.app, "recorder", Numbers())
    found = values(here.app)
    assert found["looptrap_incidents_open",] == 2
    assert found["looptrap_incidents_opened_total",] == 7
    assert found["looptrap_saved_usd_total",] == 12.4
    assert found["looptrap_false_alarms_total",] == 4
    assert found["looptrap_sightings_dropped_total",] == 1
    assert found["looptrap_history_writes_total", "written"] == 9
    assert found["looptrap_history_writes_total", "failed"] == 3
    assert found["looptrap_history_degraded",] == 1
    assert found["looptrap_history_spool_batches",] == 12
    assert found["looptrap_history_spool_bytes",] == 3_400
    assert found["looptrap_history_writes_total", "lost"] == 5
    assert found["looptrap_alerts_total", "ops", "dead"] == 1
    assert found["looptrap_alerts_total", "slack", "delivered"] == 6
    assert found["looptrap_outbox", "pending"] == 4
    assert found["looptrap_outbox", "dead"] == 1
    assert found["looptrap_indicator", "tool_errors"] == 0.6
    assert found["looptrap_indicator_firing", "tool_errors"] == 1
    assert found["looptrap_indicator_firing", "latency"] == 0


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
    assert total(here.app, "looptrap_upstream_answers_total", status="499") == 1


async def test_a_provider_that_never_answers_is_told_from_a_client_that_left(here):
    here.provider._script = [Reply.drop()]
    assert (await here.ask()).status == 502
    assert total(here.app, "looptrap_upstream_answers_total", status="0") == 1


async def test_what_the_wire_refuses_is_counted(here):
    client = await here.connect()
    await client.send(b"NONSENSE\r\n\r\n")
    assert (await client.answer()).status == 400
    assert values(here.app)["looptrap_wire_refusals_total", "bad_request"] == 1


async def test_a_token_that_is_not_believed_is_counted(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("a secret of thirty-two characters")
    async with serving(tmp_path, f'[gateway]\njwt_keys = "{secret}"\n') as here:
        await here.ask(headers=JSON | {"Authorization": "Bearer aa.bb.cc"}, body=chat())
        assert values(here.app)["looptrap_claims_refused_total", "malformed"] == 1


async def test_the_reference_names_every_metric_with_its_type_and_labels(here, monkeypatch):
    counted(here.app.tally)
    monkeypatch.setattr(here.app, "recorder", Numbers())
    here.app.attempts.count("openai", is_retry=True, is_failover=True)
    here.app.attempts.note([CircuitChange(CircuitKey("openai"), "open", 60.0)])
    here.app.attempts.breakers.learn(
        CircuitOpening(CircuitKey("openai"), 60.0), here.app.attempts.clock()
    )
    here.app.claims.refused["expired"] += 1
    exposed = {}
    for name, family in families(here.app).items():
        labels = ", ".join(f"`{label}`" for label in _labels(family)) or "–"
        suffix = "_total" if family.type == "counter" else ""
        exposed[f"{name}{suffix}"] = (family.type, labels)
    row = re.compile(r"^\| `(looptrap_\w+)` \| (\w+) \| (.+?) \|", re.MULTILINE)
    documented = {name: (kind, labels) for name, kind, labels in row.findall(REFERENCE.read_text())}
    assert documented == exposed


def _labels(family):
    assert family.samples, family.name
    return sorted(set(family.samples[0].labels) - {"le"})


def attempt_exposition(dispatch):
    return text_format(attempt_metrics(dispatch)).decode()


def test_attempts_are_counted_by_provider():
    dispatch = UpstreamState(alert=lambda event: None)
    dispatch.count("one", is_retry=False, is_failover=False)
    dispatch.count("one", is_retry=True, is_failover=False)
    dispatch.count("two", is_retry=False, is_failover=True)
    text = attempt_exposition(dispatch)
    assert 'looptrap_attempts_total{provider="one"} 2.0' in text
    assert 'looptrap_retries_total{provider="one"} 1.0' in text
    assert 'looptrap_failovers_total{provider="two"} 1.0' in text


def test_circuits_that_are_not_closed_are_counted_without_naming_callers():
    now = [0.0]
    dispatch = UpstreamState(alert=lambda event: None, clock=lambda: now[0])
    for key in (CircuitKey("one"), CircuitKey("two", "cred:1"), CircuitKey("two", "cred:2")):
        dispatch._learn(CircuitOpening(key, 60.0))
    text = attempt_exposition(dispatch)
    assert 'looptrap_breakers{circuit="provider",provider="one",state="open"} 1.0' in text
    assert 'looptrap_breakers{circuit="credential",provider="two",state="open"} 2.0' in text
    assert "cred:" not in text
    now[0] = 61.0
    assert 'state="half_open"} 2.0' in attempt_exposition(dispatch)


TEXT = """\
# HELP looptrap_requests_total Requests.
# TYPE looptrap_requests_total counter
looptrap_requests_total{{verdict="allow"}} {requests}
# HELP looptrap_connections Clients.
# TYPE looptrap_connections gauge
looptrap_connections {connections}
"""


def told(requests, connections=0):
    return TEXT.format(requests=requests, connections=connections)


def sums(totals, workers=0, restarts=0):
    text = totals.exposition(workers=workers, restarts=restarts).decode()
    families = {one.name: one for one in text_string_to_metric_families(text)}
    assert families["looptrap_requests"].type == "counter"
    assert families["looptrap_requests"].documentation == "Requests."
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in families.values()
        for sample in family.samples
    }


def test_counters_and_gauges_are_summed_over_workers():
    totals = MetricTotals()
    totals.add(1, told(3.0, 2))
    totals.add(2, told(4.0, 5))
    assert sums(totals, workers=2, restarts=7) == {
        ("looptrap_requests_total", "allow"): 7,
        ("looptrap_connections",): 7,
        ("looptrap_workers",): 2,
        ("looptrap_worker_restarts_total",): 7,
    }


def test_a_worker_that_is_asked_again_counts_once():
    totals = MetricTotals()
    totals.add(1, told(3.0))
    totals.add(1, told(5.0))
    assert sums(totals)["looptrap_requests_total", "allow"] == 5


def test_no_counter_goes_back_when_a_worker_ends_and_no_gauge_stays():
    totals = MetricTotals()
    totals.add(1, told(3.0, 2))
    totals.add(2, told(4.0, 5))
    totals.retire_all_but([2])
    totals.add(3, told(1.0, 1))
    totals.retire_all_but([2, 3])
    found = sums(totals)
    assert found["looptrap_requests_total", "allow"] == 8
    assert found["looptrap_connections",] == 6


HISTOGRAM = """\
# HELP looptrap_requests_total Requests.
# TYPE looptrap_requests_total counter
looptrap_requests_total 1.0
# HELP looptrap_decision_seconds Time.
# TYPE looptrap_decision_seconds histogram
looptrap_decision_seconds_bucket{{le="0.01"}} {fast}
looptrap_decision_seconds_bucket{{le="+Inf"}} {all}
looptrap_decision_seconds_count {all}
looptrap_decision_seconds_sum {sum}
"""


def test_histograms_are_summed_bucket_by_bucket_and_outlast_their_worker():
    totals = MetricTotals()
    totals.add(1, HISTOGRAM.format(fast=1.0, all=2.0, sum=0.5))
    totals.add(2, HISTOGRAM.format(fast=10.0, all=10.0, sum=0.05))
    totals.retire_all_but([2])
    found = sums(totals)
    assert found["looptrap_decision_seconds_bucket", "0.01"] == 11
    assert found["looptrap_decision_seconds_bucket", "+Inf"] == 12
    assert found["looptrap_decision_seconds_count",] == 12
    assert found["looptrap_decision_seconds_sum",] == 0.55


SHARED = """\
# HELP looptrap_requests_total Requests.
# TYPE looptrap_requests_total counter
looptrap_requests_total 1.0
# HELP looptrap_outbox Alerts.
# TYPE looptrap_outbox gauge
looptrap_outbox{{state="dead"}} {dead}
# HELP looptrap_indicator_firing Whether.
# TYPE looptrap_indicator_firing gauge
looptrap_indicator_firing{{indicator="latency"}} {firing}
# HELP looptrap_incidents_open Open.
# TYPE looptrap_incidents_open gauge
looptrap_incidents_open {open}
"""


def test_what_all_workers_see_is_counted_once():
    totals = MetricTotals()
    totals.add(1, SHARED.format(dead=3.0, firing=1.0, open=2.0))
    totals.add(2, SHARED.format(dead=3.0, firing=0.0, open=2.0))
    found = sums(totals)
    assert found["looptrap_outbox", "dead"] == 3
    assert found["looptrap_indicator_firing", "latency"] == 1
    assert found["looptrap_incidents_open",] == 2
