"""Remarks and changes in the history: kept once, dropped with what they are about."""

import pytest
from tests.incident.history.keeping import NOON, ids, incident

from looptrap.incident.history import audit, retention
from looptrap.incident.model import Annotation

DAY = 86_400.0


def said(number, kind="note", text="so", *, of=1, time=NOON):
    return Annotation(
        id=f"{number:x}", incident=f"{of:08x}", time=time, by="admin", kind=kind, text=text
    )


def test_a_remark_that_comes_twice_is_one_and_one_change(history):
    history.put([incident(1)])
    history.put(annotations=[said(1)])
    last = history.last_change()
    history.put(annotations=[said(1)])
    assert history.last_change() == last
    assert len(history.annotations(["00000001"])["00000001"].notes) == 1


def test_an_incident_that_is_spoken_of_has_changed(history):
    history.put([incident(1), incident(2)])
    last = history.last_change()
    history.put(annotations=[said(1)])
    found, _ = history.changes(last)
    assert ids(found) == ["00000001"]


def test_what_is_spoken_of_stays_as_it_was_for_all_who_saw_it(history):
    history.put([incident(1, calls=3), incident(1, instance="two", calls=4)])
    history.put(annotations=[said(1, "label", "confirmed")])
    assert history.incident("00000001").calls == 7


def test_of_many_labels_only_the_latest_is_kept_whenever_it_comes(history):
    history.put([incident(1)])
    history.put(annotations=[said(9, "label", "confirmed", time=NOON + 9)])
    history.put(annotations=[said(n, "label", "false_alarm", time=NOON + n) for n in range(5)])
    assert history.annotations(["00000001"])["00000001"].label == "confirmed"
    with history._database.read() as connection:
        assert connection.execute("SELECT count(*) FROM remark").fetchone() == (1,)


def test_a_remark_may_come_before_what_it_is_about(history):
    history.put(annotations=[said(1)])
    history.sweep()
    history.put([incident(1)])
    assert history.annotations(["00000001"])["00000001"].notes


def test_half_a_character_is_kept_as_a_question_mark(history):
    history.put([incident(1)], annotations=[said(1, text="half \ud800")])
    assert history.annotations(["00000001"])["00000001"].notes[0].text == "half ?"


def test_remarks_go_with_the_incident(keep, clock):
    history = keep(keep=DAY)
    history.put([incident(1, closed=NOON), incident(2)], annotations=[said(1), said(2, of=2)])
    clock.now = NOON + 2 * DAY
    history.sweep()
    assert history.annotations(["00000001", "00000002"]).keys() == {"00000002"}


def test_only_so_many_remarks_wait_for_their_incident(keep, monkeypatch):
    monkeypatch.setattr(retention, "MAX_ORPHANS", 3)
    history = keep()
    history.put(annotations=[said(n, of=n) for n in range(9)])
    history.sweep()
    assert len(history.annotations(f"{n:08x}" for n in range(9))) == 3


def test_an_incident_is_found_by_what_it_was_refused_under(history):
    mine, theirs = f"1-{'a' * 32}", f"1-{'b' * 32}"
    history.put(
        [
            incident(1, fingerprints=[mine]),
            incident(2, fingerprints=[theirs], message=f"not {mine}"),
            incident(3, fingerprints=[mine], closed=NOON),
        ]
    )
    assert history.refused_under(mine) == ["00000001"]


# Changes


def add(history, number, **more):
    history.audit.add("tool.put", f"t{number}", by="admin", source="::1", **more)


def test_changes_are_kept_with_what_was_before(history):
    add(history, 1, before=None, after={"exempt": True})
    (entry,) = history.audit.entries().items
    assert (entry.time, entry.by, entry.source) == (NOON, "admin", "::1")
    assert (entry.what, entry.target) == ("tool.put", "t1")
    assert (entry.before, entry.after) == (None, {"exempt": True})


def test_what_is_very_long_is_told_by_its_length(history):
    add(history, 1, after={"text": "x" * audit.MAX_VALUE_BYTES})
    (entry,) = history.audit.entries().items
    assert entry.after == {"left_out_bytes": audit.MAX_VALUE_BYTES + len('{"text":""}')}


def test_half_a_character_harms_no_change(history):
    add(history, "\ud800", after={"\ud800": ["\ud800"]})
    (entry,) = history.audit.entries().items
    assert (entry.target, entry.after) == ("t?", {"?": ["?"]})


def test_who_follows_goes_on_where_they_were(history):
    for number in range(3):
        add(history, number)
    assert [one.target for one in history.audit.since(1)] == ["t1", "t2"]
    assert history.audit.last() == 3
    assert history.audit.since(3) == []


def test_old_changes_go_and_of_very_many_the_oldest(keep, clock, monkeypatch):
    history = keep(keep=DAY)
    add(history, 0)
    clock.now = NOON + 2 * DAY
    for number in range(1, 9):
        add(history, number)
    history.sweep()
    assert [one.target for one in history.audit.since(0)] == [f"t{n}" for n in range(1, 9)]
    monkeypatch.setattr(audit, "MAX_ENTRIES", 3)
    history.sweep()
    assert [one.target for one in history.audit.since(0)] == ["t6", "t7", "t8"]


@pytest.mark.parametrize("cursor", ["x", ""])
def test_a_cursor_that_is_none_is_refused(history, cursor):
    with pytest.raises(ValueError, match="invalid literal"):
        history.audit.entries(cursor=cursor)
