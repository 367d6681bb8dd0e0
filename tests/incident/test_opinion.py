"""What each rule said last, and the latest rounds: kept of an incident, and put together."""

from looptrap.incident.model import NO_STRIP, RoundKind, Sighting, Strip, merge_parts
from looptrap.incident.tracker import MAX_RULE_DECISIONS, Tracker, sighting_keys

STRIP = Strip((RoundKind("aaaaaaaa", ("run",)),), (0, 0))
LONGER = Strip((RoundKind("aaaaaaaa", ("run",)),), (0, 0, 0))


def tracker(instance="one"):
    return Tracker(instance, quiet=300.0, new_id=lambda: "inc_1")


def seen(time=0.0, rule="stuck", **more):
    given = {
        "time": time, "caller": "key:ci", "session": "s", "policy": "p", "rule": rule,
        "signal": "repeat", "action": "block", "count": 5, "threshold": 5, "fingerprint": "1h-ab",
    }  # fmt: skip
    return Sighting(**given | more)


def only(one):
    (part,) = one.take_changed()
    return part


def said(part):
    return [(one.rule, one.count, one.action) for one in part.opinions]


def test_every_rule_is_there_with_what_it_said_last():
    one = tracker()
    one.add(seen(1.0, count=3, action="warn"))
    one.add(seen(2.0, "other", count=6))
    one.add(seen(3.0, count=5))
    assert said(only(one)) == [("other", 6, "block"), ("stuck", 5, "block")]


def test_rules_of_the_same_name_in_two_policies_are_two():
    one = tracker()
    one.add(seen(1.0))
    one.add(seen(2.0, policy="q", count=9))
    assert [opinion.policy for opinion in only(one).opinions] == ["p", "q"]


def test_of_very_many_rules_the_latest_stay():
    one = tracker()
    for number in range(MAX_RULE_DECISIONS + 5):
        one.add(seen(float(number), f"rule-{number}"))
    names = [rule for rule, _, _ in said(only(one))]
    assert names == [f"rule-{number}" for number in range(5, MAX_RULE_DECISIONS + 5)]


def test_what_instances_heard_is_put_together():
    parts = []
    for instance, time, count in (("one", 1.0, 4), ("two", 2.0, 7)):
        here = tracker(instance)
        here.add(seen(time, count=count))
        here.add(seen(time, f"only-{instance}"))
        parts.append(only(here))
    for order in (parts, parts[::-1]):
        whole = {rule: count for rule, count, _ in said(merge_parts(order))}
        assert whole == {"stuck": 7, "only-one": 5, "only-two": 5}


def test_a_strip_is_of_the_incident_that_its_marks_lead_to():
    one = tracker()
    one.add(seen())
    assert only(one).strip == NO_STRIP
    one.set_strip(sighting_keys(seen()), STRIP)
    assert only(one).strip == STRIP


def test_a_strip_that_comes_when_all_is_over_is_left_out():
    one = tracker()
    one.add(seen())
    one.tick(1000.0)
    one.take_changed()
    one.set_strip(sighting_keys(seen()), STRIP)
    assert one.take_changed() == []


def test_of_several_instances_the_strip_that_was_seen_last_is_shown():
    parts = []
    for instance, time, strip in (("a", 3.0, NO_STRIP), ("b", 2.0, LONGER), ("c", 1.0, STRIP)):
        here = tracker(instance)
        here.add(seen(time))
        here.set_strip(sighting_keys(seen()), strip)
        parts.append(only(here))
    for order in (parts, parts[::-1]):
        assert merge_parts(order).strip == LONGER
