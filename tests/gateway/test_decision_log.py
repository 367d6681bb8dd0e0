"""The decision log: what was decided, one line each, whoever reads it."""

import json
from threading import Event

import pytest
from msgspec.structs import replace

from looptrap.gateway.logs import MAX_WAITING_LINES, decision_log
from looptrap.incident.model import Sighting

SEEN = Sighting(
    time=1_700_000_000.25,
    request_id="lt-1",
    caller="key:ci",
    session="run 42",
    model="gpt-5.3",
    rule="identical-conversation",
    signal="conversation",
    action="block",
    count=6,
    fingerprint="1-abc",
    message="Blocked (recursive_loop_detected): identical request sent 6 times.",
)


def written(form, *sightings):
    lines = []
    log = decision_log(form, lines.append)
    for one in sightings:
        log.add(one)
    log.start()
    log.stop()
    return "".join(lines)


def test_text_is_one_line_a_decision_in_which_every_value_is_one_word():
    assert written("text", SEEN) == (
        "time=2023-11-14T22:13:20.250+00:00 decision=block reason=loop_detected"
        " rule=identical-conversation signal=conversation count=6 caller=key:ci"
        ' session="run 42" model=gpt-5.3 fingerprint=1-abc request_id=lt-1'
        ' message="Blocked (recursive_loop_detected): identical request sent 6 times."\n'
    )


def test_json_holds_the_same():
    line = json.loads(written("json", SEEN))
    assert (line["decision"], line["count"], line["session"]) == ("block", 6, "run 42")


def test_what_a_call_that_passed_cost_is_told_where_it_has_a_price():
    passed = replace(SEEN, action="warn", cost=2_500_000)
    assert json.loads(written("json", passed))["cost_usd"] == 0.0025
    assert "cost_usd" not in json.loads(written("json", SEEN))


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("model", ["a\nb", "a\x1b[31mb", 'a"b', "a=b c", "\ud800"])
def test_no_name_breaks_a_line(form, model):
    line = written(form, Sighting(time=0, action="block", model=model))
    assert line.count("\n") == 1
    assert "\x1b" not in line


def test_what_shadow_mode_would_have_done_says_so():
    assert "decision=block mode=shadow" in written(
        "text", Sighting(time=0, action="block", mode="shadow")
    )


def test_a_reader_who_is_stuck_costs_lines_and_nothing_else():
    is_read, lines = Event(), []

    def write(text):
        is_read.wait(10)
        lines.append(text)

    log = decision_log("text", write)
    log.start()
    for _ in range(3 * MAX_WAITING_LINES):
        log.add(SEEN)
    assert log.dropped >= MAX_WAITING_LINES
    is_read.set()
    log.stop()
    assert "".join(lines).count("\n") + log.dropped == 3 * MAX_WAITING_LINES
