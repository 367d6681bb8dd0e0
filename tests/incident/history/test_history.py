"""The history: what is put is found again, page by page and change by change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.incident.history.keeping import NOON, ids, incident, opened_history, outgoing

from looptrap.incident.history import incident_table
from looptrap.incident.model import Annotation, merge_parts

# What is put


def test_an_incident_is_read_as_it_was_put(history):
    put = incident(7, closed=NOON + 9, alarmed=NOON, cost=7, priced=1, fingerprints=["f"])
    history.put([put])
    assert history.incident("00000007") == put


def test_the_same_part_again_replaces_it(history):
    history.put([incident(1, calls=1), incident(2)])
    history.put([incident(1, calls=5, closed=NOON + 5)])
    assert history.incident("00000001").calls == 5
    assert len(history.incidents().items) == 2
    assert ids(history.open_incidents()) == ["00000002"]


def test_of_two_states_in_one_go_the_later_stays(history):
    history.put([incident(1, calls=1), incident(1, calls=2)])
    assert history.incident("00000001").calls == 2


def test_parts_of_several_instances_are_one_incident(history):
    parts = [incident(1, instance="a", calls=2), incident(1, instance="b", calls=3)]
    history.put(parts)
    assert history.incidents().items == [merge_parts(parts)]
    assert history.incident("00000001").calls == 5


def test_what_was_open_is_found_after_a_restart(keep):
    first = keep()
    first.put([incident(1), incident(2, instance="two"), incident(3, closed=NOON + 9)])
    first.close()
    again = keep()
    assert again.id == first.id
    assert ids(again.open_incidents()) == ["00000001", "00000002"]


def test_what_no_row_can_be_made_of_keeps_nothing_else_out(history, caplog):
    bad = outgoing(1)[0]
    bad.event.data["thing"] = object()
    history.put([incident(1)], [bad, *outgoing(2)])
    assert history.unwritable == 1
    assert [one.event.id for one in history.outbox.deliveries().items] == ["evt-2"]
    assert "cannot be encoded" in caplog.text


@pytest.mark.parametrize("number", [1, 8, 63, 64, 65, 300])
def test_any_number_of_incidents_goes_in(history, number):
    history.put([incident(n) for n in range(number)], outgoing(*range(number)))
    assert len(history.incidents(limit=1000).items) == number
    assert history.outbox.counts()["pending"] == number


# Incidents to be shown


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        pytest.param({}, [4, 3, 2, 1], id="all, the newest first"),
        pytest.param({"state": "open"}, [4, 3, 1], id="open, for one instance at least"),
        pytest.param({"state": "closed"}, [2], id="closed"),
        pytest.param({"caller": "bob"}, [3], id="of a caller"),
        pytest.param({"project": "shop"}, [2], id="of a project"),
        pytest.param({"session": "session-1"}, [1], id="of a session"),
        pytest.param({"rule": "cycle"}, [4], id="of a rule, as any instance describes it"),
        pytest.param({"since": NOON + 50}, [4, 1], id="with a call since"),
        pytest.param({"since": NOON + 50, "rule": "cycle"}, [4], id="several at once"),
        pytest.param({"state": "open", "caller": "bob", "since": NOON + 50}, [], id="none"),
    ],
)
def test_incidents_are_found_by(history, asked, found):
    history.put(
        [
            incident(1, last=NOON + 60),
            incident(2, closed=NOON + 9, project="shop"),
            incident(3, caller="bob"),
            incident(4, instance="a", closed=NOON + 9, last=NOON + 70),
            incident(4, instance="b", opened=NOON + 40, rule="cycle"),
        ]
    )
    assert ids(history.incidents(**asked).items) == [f"{number:08x}" for number in found]


@given(
    opened=st.lists(st.integers(0, 5), max_size=30),
    parts=st.lists(st.tuples(st.integers(0, 29), st.integers(0, 9)), max_size=20),
    size=st.integers(1, 7),
    data=st.data(),
)
def test_pages_show_each_incident_once_whatever_comes_in_between(opened, parts, size, data):
    history = opened_history()
    there = [incident(n, opened=NOON + when) for n, when in enumerate(opened)]
    there += [
        incident(n, instance=f"late-{when}", opened=NOON + opened[n] + when)
        for n, when in parts
        if n < len(opened)
    ]
    history.put(there)
    order = sorted({(min(p.opened for p in there if p.id == i), i) for i in ids(there)})
    seen, cursor, new = [], None, len(opened)
    while True:
        page = history.incidents(limit=size, cursor=cursor)
        assert len(page.items) <= size
        seen += ids(page.items)
        if (cursor := page.next_cursor) is None:
            break
        for _ in range(data.draw(st.integers(0, 3), label="new incidents")):
            history.put([incident(new, opened=NOON + 10)])
            new += 1
    history.close()
    assert seen == [incident_id for _, incident_id in reversed(order)]


@pytest.mark.parametrize("few", [0, 5_000], ids=["by time", "among few"])
@given(data=st.data())
def test_what_is_found_is_what_fits(few, data):
    names, times = st.sampled_from("xy"), st.integers(0, 9).map(lambda n: NOON + n)
    parts = {}
    for _ in range(data.draw(st.integers(0, 12))):
        number, instance = data.draw(st.integers(0, 6)), data.draw(names)
        closed = data.draw(st.none() | times)
        parts[number, instance] = incident(
            number, instance=instance, caller="xy"[number % 2], rule=data.draw(names),
            action="block", opened=data.draw(times), last=data.draw(times), closed=closed,
        )  # fmt: skip
    asked = {
        "state": data.draw(st.sampled_from(["open", "closed", "all"])),
        "caller": data.draw(st.none() | names),
        "rule": data.draw(st.none() | names),
        "since": data.draw(st.none() | times),
        "until": data.draw(st.none() | times),
    }
    history = opened_history()
    history.put(parts.values())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(incident_table, "MAX_SORTED_CANDIDATES", few)
        found = history.incidents(**asked).items
    history.close()
    by_id = {}
    for part in parts.values():
        by_id.setdefault(part.id, []).append(part)
    whole = [(merge_parts(seen), {part.rule for part in seen}) for seen in by_id.values()]
    fitting = [
        one
        for one, rules in whole
        if asked["state"] in ("all", "open" if one.closed is None else "closed")
        and asked["caller"] in (None, one.caller)
        and (asked["rule"] is None or asked["rule"] in rules)
        and (asked["since"] is None or one.last >= asked["since"])
        and (asked["until"] is None or one.opened < asked["until"])
    ]
    assert found == sorted(fitting, key=lambda one: (one.opened, one.id), reverse=True)


@pytest.mark.parametrize("cursor", ["", "x", "x~y", "12"])
def test_a_cursor_that_is_none_is_refused(history, cursor):
    with pytest.raises(ValueError):
        history.incidents(cursor=cursor)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("00000001", "00000001"),
        ("00abc", "00abc1ef"),
        ("00def", "00def"),
        ("0000000", None),
        ("x", None),
        ("", None),
        ("%", None),
    ],
    ids=["by id", "by its beginning", "an id that others begin with", "not only one", "none",
         "nothing", "a wildcard is none"],
)  # fmt: skip
def test_one_incident_is_found(history, asked, found):
    history.put([incident(1), incident(2)])
    history.put([incident(id=one) for one in ("00abc1ef", "00def", "00def1")])
    one = history.incident(asked)
    assert (one and one.id) == found


# Changes


def test_changes_come_in_their_order_each_incident_as_it_is_now(history):
    history.put([incident(n) for n in (1, 2, 3)])
    history.put([incident(1, calls=7)])
    found, last = history.changes(0)
    assert [(one.id[-1], one.calls) for one in found] == [("2", 1), ("3", 1), ("1", 7)]
    assert last == history.last_change()
    assert history.changes(last) == ([], last)


def test_changes_are_followed_in_pieces(history):
    history.put([incident(n) for n in range(10)])
    seen, after = [], 0
    while True:
        some, after = history.changes(after, 3)
        if not some:
            break
        seen += ids(some)
    assert seen == [f"{n:08x}" for n in range(10)]


def test_changes_are_followed_as_whole_incidents(history):
    history.put([incident(1, instance="a", calls=1), incident(1, instance="b", calls=2)])
    (whole,), _ = history.changes(0)
    assert whole.calls == 3


def test_a_change_number_is_never_given_twice(keep, clock):
    history = keep(keep=60)
    history.put([incident(1, closed=NOON)])
    before = history.last_change()
    clock.now += 1000
    history.sweep()
    assert history.incident("00000001") is None
    history.put([incident(2)])
    assert history.last_change() > before


# Orders and groups


def priced(number, cents, refused=0, **fields):
    """Return an incident of which one call cost so many cents, and others were refused."""
    return incident(number, cost=cents * 10**7, priced=1, refused=refused, **fields)


@pytest.mark.parametrize(
    ("order", "found"),
    [
        pytest.param("newest", [4, 3, 2, 1], id="the latest opened first"),
        pytest.param("cost", [1, 3, 2, 4], id="the most expensive first, unpriced last"),
        pytest.param("count", [2, 4, 3, 1], id="the most hits first"),
        pytest.param("saved", [3, 1, 2, 4], id="what saved most first"),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 10])
def test_incidents_come_in_an_order_page_by_page(history, order, found, size):
    history.put(
        [
            priced(1, 9, refused=1, calls=3),
            priced(2, 1, count=50),
            priced(3, 2, refused=9, calls=10),
            incident(4, instance="a", calls=8),
            incident(4, instance="b", calls=7),
        ]
    )
    seen, cursor = [], None
    while True:
        page = history.incidents(order=order, limit=size, cursor=cursor)
        seen += ids(page.items)
        if (cursor := page.next_cursor) is None:
            break
    assert seen == [f"{number:08x}" for number in found]


def test_incidents_are_found_by_model_ids_and_the_time_they_opened_before(history):
    history.put([incident(n, model="big" if n % 2 else "small") for n in range(6)])
    assert ids(history.incidents(model="big").items) == ["00000005", "00000003", "00000001"]
    assert ids(history.incidents(until=NOON + 2).items) == ["00000001", "00000000"]
    assert ids(history.incidents(ids=["00000004", "nothing"]).items) == ["00000004"]
    assert history.incident_ids(2, model="small") == ["00000004", "00000002"]


def test_groups_have_the_sums_of_their_incidents(history):
    history.put(
        [
            priced(1, 10, refused=2, caller="ann", rule="cycle", calls=5, last=NOON + 90),
            priced(2, 5, caller="ann", rule="cycle", calls=2, closed=NOON + 9),
            incident(3, caller="ann", rule="repeat", calls=1),
            incident(4, caller="bob", rule="repeat", instance="a", calls=1),
            incident(4, caller="bob", rule="repeat", instance="b", calls=1),
        ]
    )
    ann, bob = history.incident_groups("caller", order="count").items
    assert (ann.by, ann.incidents, ann.open, ann.hits) == ({"caller": "ann"}, 3, 2, 8)
    assert (ann.opened, ann.last) == (NOON + 1, NOON + 90)
    assert (ann.refused, ann.spent_usd, ann.saved_usd) == (2, 0.15, 0.2)
    assert (bob.incidents, bob.hits, bob.spent_usd) == (1, 2, None)
    [everything] = history.incident_groups("all").items
    assert (everything.by, everything.incidents, everything.callers) == ({}, 4, 2)
    names = {(*one.by.values(), one.incidents) for one in history.incident_groups("rule").items}
    assert names == {("cycle", 2), ("repeat", 2)}
    [both] = history.incident_groups("caller,rule,model", rule="cycle").items
    assert both.by == {"caller": "ann", "rule": "cycle", "model": ""}


def test_of_no_incident_there_is_no_group(history):
    assert history.incident_groups("all") == ([], None)
    assert history.incident_groups("rule", caller="nobody") == ([], None)


def test_groups_are_paged(history):
    history.put([incident(n, caller=f"caller-{n}") for n in range(7)])
    seen, cursor = [], None
    while True:
        page = history.incident_groups("caller", limit=3, cursor=cursor)
        seen += [one.by["caller"] for one in page.items]
        if (cursor := page.next_cursor) is None:
            break
    assert seen == [f"caller-{n}" for n in reversed(range(7))]


@pytest.mark.parametrize("cursor", ["", "x", "-1", "1.5", "1~x"])
def test_a_cursor_that_is_none_of_groups_is_refused(history, cursor):
    with pytest.raises(ValueError):
        history.incident_groups("caller", cursor=cursor)


@pytest.mark.parametrize(
    ("piece", "found"),
    [
        ("50%_done!", ["00000001"]),
        ("%", ["00000001"]),
        ("_", ["00000001"]),
        ("!", ["00000001"]),
        ("KEY", ["00000002"]),
        ("Ärger", ["00000002"]),
        ("ärger", []),
        ("rule", ["00000002", "00000001"]),
        ("a'b\\", ["00000001"]),
        ("x" * 60_000, []),
    ],
    ids=["several", "percent", "underscore", "escape", "upper case", "other letters", "their case",
         "all", "quote", "long"],
)  # fmt: skip
def test_incidents_are_found_by_a_piece_of_a_name(history, piece, found):
    names = {"rule": "rule-conversation", "model": "gpt"}
    history.put(
        [
            incident(1, caller="50%_done!", session="a'b\\", **names),
            incident(2, caller="key-7", session="Ärger", **names),
        ]
    )
    assert ids(history.incidents(q=piece).items) == found


def test_absurd_figures_do_not_break_a_list(history):
    huge = (1 << 63) - 1
    history.put([incident(n, cost=huge, priced=1, count=huge) for n in range(3)])
    assert len(history.incidents(order="cost").items) == 3
    [whole] = history.incident_groups("all", order="saved").items
    assert whole.incidents == 3
    assert whole.hits > 1 << 53


def test_incidents_that_are_closed_are_closed_for_all_instances(history):
    history.put([incident(1, instance=name) for name in "ab"] + [incident(2)])
    kinds = {"time": NOON + 60, "by": "admin", "kind": "close"}
    history.put(
        annotations=[Annotation(id=one, incident=one, **kinds) for one in ("00000001", "nothing")]
    )
    one = history.incident("00000001")
    assert (one.closed, one.steps[-1].what) == (NOON + 60, "closed")
    assert ids(history.incidents(state="open").items) == ["00000002"]
    assert [part.id for part in history.open_incidents()] == ["00000002"]


def test_incidents_of_an_earlier_version_are_listed_when_it_is_opened(keep):
    history = keep()
    history.put([incident(n, caller="ann") for n in range(5)])
    with history._database.write() as connection:
        connection.execute("DELETE FROM incident")
    history.close()
    again = keep()
    assert len(again.incidents().items) == 5
    assert again.incident_groups("caller").items[0].incidents == 5
