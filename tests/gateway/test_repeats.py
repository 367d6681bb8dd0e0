"""Tracebacks in the log: one for each fault, then a count."""

import logging

import pytest
from tests.gateway.serving import JSON, chat
from tests.wire.fake_client import Clock

from looptrap.gateway.logs import (
    MAX_FAULTS,
    TRACEBACK_INTERVAL_S,
    TRACEBACK_LOGGERS,
    TracebackFilter,
)

log = logging.getLogger("looptrap")


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def filtering(clock):
    one = TracebackFilter(clock)
    one.install()
    yield one
    one.uninstall()


def here():
    raise ValueError("here")


def there():
    raise ValueError("there")


def elsewhere():
    raise KeyError("elsewhere")


def report(act, message="a request failed"):
    try:
        act()
    except Exception as error:
        log.error(message, exc_info=error)


def written(caplog):
    """Return what was logged: the text, and whether with a traceback."""
    found = [(one.getMessage(), bool(one.exc_info)) for one in caplog.records]
    caplog.clear()
    return found


def test_a_fault_is_written_once_with_its_traceback_then_counted(filtering, clock, caplog):
    for _ in range(313):
        report(here)
    assert written(caplog) == [("a request failed", True)]
    clock.now += TRACEBACK_INTERVAL_S - 1
    filtering.log_counts()
    assert written(caplog) == []
    clock.now += 1
    filtering.log_counts()
    [(count, has_traceback)] = written(caplog)
    assert count.startswith("a request failed: ValueError in here, line ")
    assert count.endswith(" … and 312 more like it in the last minute")
    assert not has_traceback


def test_a_fault_that_goes_on_is_one_line_a_minute(filtering, clock, caplog):
    report(here)
    for _ in range(5):
        report(here)
        clock.now += TRACEBACK_INTERVAL_S
        filtering.log_counts()
    assert [has_traceback for _, has_traceback in written(caplog)] == [True] + [False] * 5


def test_after_a_quiet_minute_the_traceback_is_written_again(filtering, clock, caplog):
    report(here)
    clock.now += TRACEBACK_INTERVAL_S
    filtering.log_counts()
    report(here)
    assert written(caplog) == [("a request failed", True)] * 2


@pytest.mark.parametrize(
    ("acts", "tracebacks"),
    [
        pytest.param([(here, "m"), (there, "m"), (elsewhere, "m")], 3, id="other places"),
        pytest.param([(here, "m"), (here, "n")], 2, id="other words"),
        pytest.param([(here, "m\na 0x1"), (here, "m\na 0x2")], 1, id="other details"),
    ],
)
def test_faults_are_told_apart_by_what_failed_and_where(filtering, caplog, acts, tracebacks):
    for act, message in acts * 3:
        report(act, message)
    assert len(written(caplog)) == tracebacks


def test_no_more_are_told_apart_than_have_room(filtering, caplog):
    for number in range(3 * MAX_FAULTS):
        report(here, f"fault {number}")
    assert len(written(caplog)) == MAX_FAULTS + 1
    assert len(filtering._faults) == MAX_FAULTS + 1


def test_lines_without_a_traceback_always_pass(filtering, caplog):
    for _ in range(3):
        log.warning("something to know")
    assert len(written(caplog)) == 3


def test_what_was_counted_is_written_at_the_end(clock, caplog):
    one = TracebackFilter(clock)
    one.install()
    report(here)
    report(here)
    one.uninstall()
    report(here)
    first, count, after = written(caplog)
    assert (first, after) == (("a request failed", True),) * 2
    assert "and 1 more like it" in count[0]


def fail(*_args):
    raise RuntimeError("a fault of ours")


@pytest.mark.parametrize(
    ("place", "status"),
    [
        pytest.param("looptrap.gateway.handler.Request", 500, id="judging"),
        pytest.param("looptrap.gateway.relay.Relay.on_head", 502, id="relaying"),
    ],
)
async def test_a_fault_that_every_request_meets_is_one_traceback(
    serve, monkeypatch, caplog, place, status
):
    one = await serve()
    monkeypatch.setattr(place, fail)
    for number in range(5):
        assert (await one.ask(headers=JSON, body=chat(str(number)))).status == status
    tracebacks = [record for record in caplog.records if record.exc_info]
    assert len(tracebacks) == 1
    await one.app.stop()
    assert any("and 4 more like it" in record.getMessage() for record in caplog.records)
    assert not any(logging.getLogger(name).filters for name in TRACEBACK_LOGGERS)
