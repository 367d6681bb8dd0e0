"""What operators see of attempts and circuits."""

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from looptrap.admin.metrics import attempt_metrics
from looptrap.gateway.upstream import UpstreamState
from looptrap.retry.breaker import CircuitKey, CircuitOpening


def exposition(dispatch):
    class Attempts(Collector):
        def collect(self):
            yield from attempt_metrics(dispatch)

    registry = CollectorRegistry()
    registry.register(Attempts())
    return generate_latest(registry).decode()


def test_attempts_are_counted_by_provider():
    dispatch = UpstreamState(alert=lambda event: None)
    dispatch.count("one", is_retry=False, is_failover=False)
    dispatch.count("one", is_retry=True, is_failover=False)
    dispatch.count("two", is_retry=False, is_failover=True)
    text = exposition(dispatch)
    assert 'looptrap_attempts_total{provider="one"} 2.0' in text
    assert 'looptrap_retries_total{provider="one"} 1.0' in text
    assert 'looptrap_failovers_total{provider="two"} 1.0' in text


def test_circuits_that_are_not_closed_are_counted_without_naming_callers():
    now = [0.0]
    dispatch = UpstreamState(alert=lambda event: None, clock=lambda: now[0])
    for key in (CircuitKey("one"), CircuitKey("two", "cred:1"), CircuitKey("two", "cred:2")):
        dispatch._learn(CircuitOpening(key, 60.0))
    text = exposition(dispatch)
    assert 'looptrap_breakers{circuit="provider",provider="one",state="open"} 1.0' in text
    assert 'looptrap_breakers{circuit="credential",provider="two",state="open"} 2.0' in text
    assert "cred:" not in text
    now[0] = 61.0
    assert 'state="half_open"} 2.0' in exposition(dispatch)
