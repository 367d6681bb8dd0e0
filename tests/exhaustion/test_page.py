"""docs/limits.md says the bounds that hold."""

import re
from pathlib import Path

import pytest
from bench.attempts import PLANS

from looptrap.admin import feed, total
from looptrap.admission import tally
from looptrap.answer.hearing import ear, openai_responses
from looptrap.call.model import LONGEST_NAME
from looptrap.call.usage import MOST_TOKENS
from looptrap.detect import window
from looptrap.gateway import capture, garbage, handler, repeats, scribe
from looptrap.gateway.incident import desk, sharing, strip
from looptrap.gateway.trace import export
from looptrap.incident import entry, spending, spent, tracker
from looptrap.incident.history import booking, writer
from looptrap.incident.indicator import latency, session, tool_error
from looptrap.money import price
from looptrap.retry import Breakers
from looptrap.store import memory, model
from looptrap.wire.flight import UpstreamLimits
from looptrap.wire.limits import ServerLimits

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
        ("an answer that nobody reads", [IN.write_timeout]),
        ("a provider's silence", [OUT.first_byte_timeout, OUT.idle_timeout]),
        ("connections to one provider", [OUT.max_connections]),
        ("calls that are held back (`throttle`)", [handler.MOST_SLEEPERS]),
        ("faults of ours that are told apart", [repeats.MOST]),
        ("fingerprints in the memory store", [memory.MAX_FINGERPRINTS]),
        ("hits of one fingerprint", [window.HIT_LIMIT]),
        ("marks of one fingerprint (`near`)", [model.MARKS]),
        ("accounts of budgets", [memory.MAX_FINGERPRINTS]),
        ("accounts of rates", [memory.MAX_FINGERPRINTS]),
        ("tokens: a limit on output, or a count in an answer", [MOST_TOKENS]),
        ("names of models kept at hand", [price.MOST_KNOWN, price.MOST_KNOWN]),
        ("circuits of providers and credentials", [Breakers()._most]),
        ("kinds of requests that are counted apart", [tally.MOST_KINDS]),
        ("pairs of provider and model", [tally.MOST_MODELS]),
        ("pairs of caller and project", [tally.MOST_CALLERS]),
        ("spenders in one minute", [spending.MOST_A_MINUTE]),
        ("sessions in one second", [spending.MOST_SESSIONS]),
        ("rows of spending that wait for the disk", [spent.MOST_WAITING]),
        ("sessions in the history", [booking.MOST_SESSIONS]),
        ("sessions that indicators follow", [session.MOST]),
        ("models, callers of indicators", [latency.MOST, tool_error.MOST]),
        ("samples of workers that have ended", [total.MOST_ENDED]),
        (
            "characters of a name that are kept: model, session, tool, user",
            [LONGEST_NAME],
        ),
        ("sightings that wait to be gathered", [desk.MOST_WAITING]),
        ("open incidents", [tracker.MOST_OPEN]),
        (
            "marks, fingerprints, steps, opinions of one incident",
            [
                tracker.MOST_MARKS,
                entry.MOST_FINGERPRINTS,
                entry.MOST_STEPS,
                entry.MOST_OPINIONS,
            ],
        ),
        (
            "histories that wait to be drawn as strips",
            [strip.MOST_WAITING, strip.MOST_BYTES // MB],
        ),
        ("alerts that wait to be written", [writer.MOST_EVENTS]),
        ("events that wait to be agreed on with other instances", [sharing.MOST_WAITING]),
        ("listeners on the dashboard", [feed.MOST_LISTENERS]),
        ("what waits for one listener", [feed.MOST_WAITING]),
        ("lines of the decision log, and of the access log, that wait", [scribe.MOST_WAITING]),
        ("spans that wait to be sent", [export.MOST_WAITING]),
        ("captured calls that wait", [capture.MOST_CALLS, capture.MOST_BYTES // MB]),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_the_page_says_the_bound_that_holds(what, bounds):
    said = [float(one.replace(",", "")) for one in re.findall(r"\d[\d,]*", ROWS[what])]
    assert said[: len(bounds)] == [float(bound) for bound in bounds]


def test_the_page_says_what_is_kept_of_answers_without_end():
    assert f"up to {openai_responses.MOST_KEPT // MB} MB of one are kept" in PAGE
    assert f"more than {ear.MOST_TEXTS:,} texts" in PAGE


def test_the_page_says_how_far_the_process_may_grow_before_a_collection():
    assert f"grown by {garbage.STEP // MB} MB" in PAGE


def test_the_page_says_how_many_attempts_there_are():
    assert f"{len(PLANS)} attempts through sockets" in PAGE
