"""docs/limits.md says the bounds that hold."""

import re
from pathlib import Path

import pytest
from bench.attempts import PLANS

from looptrap.admin import event_stream, incident, metrics
from looptrap.detect.window import HIT_LIMIT
from looptrap.dialect import stream
from looptrap.dialect.model import MAX_NAME_CHARS, MAX_TOKENS
from looptrap.engine import counters
from looptrap.gateway import app, capture, handler, logs, trace_export
from looptrap.incident import recorder, sharing, strip, tracker
from looptrap.incident.history import writer
from looptrap.incident.indicator import indicators, session
from looptrap.incident.model import MAX_STEPS
from looptrap.money import price
from looptrap.retry import Breakers
from looptrap.store import memory, model, note
from looptrap.usage import breach, table
from looptrap.usage import model as usage_model
from looptrap.usage import recorder as usage_recorder
from looptrap.wire.limits import ServerLimits, UpstreamLimits

PAGE = (Path(__file__).parents[2] / "docs" / "limits.md").read_text("utf-8")
ROWS = dict(re.findall(r"^\| (.+?) \| (.+?) \|", PAGE, re.MULTILINE))

KB, MB = 1 << 10, 1 << 20
IN, OUT = ServerLimits(), UpstreamLimits()


@pytest.mark.parametrize(
    ("what", "bounds"),
    [
        ("clients connected", [IN.max_connections]),
        ("a request's head", [IN.max_head // KB, IN.max_headers, IN.max_target // KB]),
        ("a request's body", [IN.max_body // MB]),
        ("request bytes of all clients", [IN.max_buffered // MB]),
        ("a slow head", [IN.head_timeout]),
        ("a slow body", [IN.body_timeout]),
        ("an unused connection", [IN.keepalive_timeout]),
        ("an answer that the client does not read", [IN.write_timeout]),
        ("a provider's silence", [OUT.first_byte_timeout, OUT.idle_timeout]),
        ("connections to one provider", [OUT.max_connections]),
        ("calls that are held back (`throttle`)", [handler.MAX_DELAYED_CALLS]),
        ("faults of ours that are told apart", [logs.MAX_FAULTS]),
        ("fingerprints in the memory store", [memory.MAX_FINGERPRINTS]),
        ("hits of one fingerprint", [HIT_LIMIT]),
        ("marks of one fingerprint (`near`)", [model.MAX_MARKS]),
        ("accounts of budgets", [memory.MAX_FINGERPRINTS]),
        ("accounts of rates", [memory.MAX_FINGERPRINTS]),
        (
            "notes of agent runs in the memory store",
            [note.NOTES_PER_RUN * note.MAX_RUNS, note.MAX_RUNS],
        ),
        ("tokens: a limit on output, or a count in an answer", [MAX_TOKENS]),
        ("names of models kept at hand", [price.MAX_CACHED_NAMES, price.MAX_CACHED_NAMES]),
        ("circuits of providers and credentials", [Breakers()._most]),
        ("kinds of requests that are counted apart", [counters.MAX_KINDS]),
        ("pairs of provider and model", [counters.MAX_MODELS]),
        ("pairs of caller and project", [counters.MAX_CALLERS]),
        ("spenders in one minute", [usage_recorder.MAX_KEYS_PER_MINUTE]),
        ("sessions in one second", [usage_recorder.MAX_TRACKED_SESSIONS]),
        ("rows of spending that wait for the disk", [usage_model.MAX_PENDING_ROWS]),
        ("sessions in the history", [table.MAX_SESSION_ROWS]),
        ("sessions that indicators follow", [session.MAX_SESSIONS]),
        ("models, callers of indicators", [indicators.MAX_MODELS, indicators.MAX_CALLERS]),
        ("samples of workers that have ended", [metrics.MAX_ENDED_SAMPLES]),
        (
            "characters of a name that are kept: model, session, tool, user",
            [MAX_NAME_CHARS],
        ),
        ("sightings that wait to be gathered", [recorder.MAX_PENDING_SIGHTINGS]),
        ("open incidents", [tracker.MAX_OPEN_INCIDENTS]),
        (
            "correlation keys, fingerprints, steps, rule decisions of one incident",
            [
                tracker.MAX_CORRELATION_KEYS,
                tracker.MAX_FINGERPRINTS,
                MAX_STEPS,
                tracker.MAX_RULE_DECISIONS,
            ],
        ),
        (
            "histories that wait to be drawn as strips",
            [strip.MAX_WAITING_HISTORIES, strip.MAX_WAITING_BYTES // MB],
        ),
        (
            "incidents of one bulk change, and of one export",
            [incident.MAX_CHANGED, incident.MAX_EXPORTED],
        ),
        (
            "breaches of budgets that wait for the disk, and in the history",
            [usage_model.MAX_PENDING_BREACHES, breach.MAX_ROWS],
        ),
        ("alerts that wait to be written", [writer.MAX_PENDING_EVENTS]),
        ("events that wait to be agreed on with other instances", [sharing.MAX_QUEUED]),
        ("listeners on the dashboard", [event_stream.MAX_SUBSCRIBERS]),
        ("what waits for one listener", [event_stream.MAX_QUEUED_FRAMES]),
        (
            "lines of the decision log, and of the access log, that wait",
            [logs.MAX_WAITING_LINES],
        ),
        ("spans that wait to be sent", [trace_export.MAX_WAITING_SPANS]),
        ("captured calls that wait", [capture.MAX_WAITING_CALLS, capture.MAX_WAITING_BYTES // MB]),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_the_page_says_the_bound_that_holds(what, bounds):
    said = [float(one.replace(",", "")) for one in re.findall(r"\d[\d,]*", ROWS[what])]
    assert said[: len(bounds)] == [float(bound) for bound in bounds]


def test_the_page_says_what_is_kept_of_answers_without_end():
    assert f"up to {stream.MAX_KEPT_CHARS // MB} MB of one are kept" in PAGE
    assert f"more than {stream.MAX_TEXTS:,} texts" in PAGE


def test_the_page_says_how_far_the_process_may_grow_before_a_collection():
    assert f"grown by {app.MIN_GROWTH_BYTES // MB} MB" in PAGE


def test_the_page_says_how_many_attempts_there_are():
    assert f"{len(PLANS)} attempts through sockets" in PAGE
