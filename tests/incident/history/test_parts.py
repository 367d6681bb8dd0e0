"""Parts: what several instances saw of one incident adds up, in whatever order it is read."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.incident.history.keeping import NOON, incident

from looptrap.incident.history.incident_table import part_row, read_parts
from looptrap.incident.model import Incident, IncidentStep, merge_parts

times = st.floats(NOON, NOON + 1000)
steps = st.lists(
    st.builds(IncidentStep, times, st.sampled_from(["block", "warn", "stage 10", "closed"])),
    max_size=4,
)


@st.composite
def seen(draw):
    """Draw what up to four instances saw of one incident."""
    found = []
    for instance in draw(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4, unique=True)):
        fields = {name: draw(st.integers(0, 9)) for name in COUNTED}
        found.append(
            incident(
                instance=instance,
                opened=draw(times),
                last=draw(times),
                closed=draw(st.one_of(st.none(), times)),
                alarmed=draw(st.one_of(st.none(), times)),
                action=draw(st.sampled_from(["warn", "throttle", "nudge", "stop", "block"])),
                rule=draw(st.sampled_from(["x", "y"])),
                request_id=instance,
                steps=draw(steps),
                fingerprints=draw(st.lists(st.sampled_from("pqr"), max_size=3, unique=True)),
                **fields,
            )
        )
    return found


SUMMED = [
    "calls", "refused", "input_tokens", "output_tokens", "answered", "cost", "priced",
    "refused_tokens", "estimate", "estimated",
]  # fmt: skip
HIGHEST = ["count", "stage"]
COUNTED = [*SUMMED, *HIGHEST, "before"]


@given(data=st.data(), parts=seen())
def test_the_order_of_parts_never_matters(data, parts):
    assert merge_parts(data.draw(st.permutations(parts))) == merge_parts(parts)


@given(parts=seen())
def test_what_all_saw_is_added_up(parts):
    whole = merge_parts(parts)
    for name in SUMMED:
        assert getattr(whole, name) == sum(getattr(part, name) for part in parts)
    for name in HIGHEST:
        assert getattr(whole, name) == max(getattr(part, name) for part in parts)
    assert whole.opened == min(part.opened for part in parts)
    assert whole.last == max(part.last for part in parts)
    assert set(whole.fingerprints) == {one for part in parts for one in part.fingerprints}
    assert whole.paid == whole.before + sum(part.calls - part.refused for part in parts)


def test_calls_that_another_instance_saw_are_not_counted_twice():
    first = incident(instance="a", opened=NOON, calls=2, before=5, count=7, refused=0)
    joined = incident(instance="b", opened=NOON + 1, calls=1, before=7, count=8, refused=1)
    whole = merge_parts([joined, first])
    assert (whole.hits, whole.paid, whole.refused) == (8, 7, 1)


@given(parts=seen())
def test_it_is_closed_when_all_have_closed_it(parts):
    whole = merge_parts(parts)
    if any(part.closed is None for part in parts):
        assert whole.closed is None
    else:
        assert whole.closed == max(part.closed for part in parts)


@given(parts=seen())
def test_nothing_is_changed_by_adding_up(parts):
    before = msgspec.json.encode(parts)
    merge_parts(parts)
    assert msgspec.json.encode(parts) == before


def test_the_severest_action_describes_it_and_the_latest_of_such():
    parts = [
        incident(instance="a", action="warn", rule="w", last=NOON + 9, request_id="latest"),
        incident(instance="b", action="block", rule="early", last=NOON + 1),
        incident(instance="c", action="block", rule="late", last=NOON + 2),
    ]
    whole = merge_parts(parts)
    assert (whole.action, whole.rule, whole.request_id) == ("block", "late", "latest")
    assert whole.instance == "a, b, c"


def test_steps_stand_by_time_and_the_end_once():
    one = incident(
        instance="a",
        closed=NOON + 8,
        steps=[IncidentStep(NOON, "warn"), IncidentStep(NOON + 8, "closed")],
    )
    two = incident(instance="b", steps=[IncidentStep(NOON + 3, "block")])
    assert [step.what for step in merge_parts([two, one]).steps] == ["warn", "block"]
    two.closed = NOON + 9
    two.steps.append(IncidentStep(NOON + 9, "closed"))
    assert merge_parts([two, one]).steps[-1] == IncidentStep(NOON + 9, "closed")
    assert [step.what for step in merge_parts([two, one]).steps] == ["warn", "block", "closed"]


def test_fingerprints_stand_as_they_were_refused_the_latest_last():
    early = incident(instance="z", last=NOON + 1, fingerprints=["p", "q"])
    late = incident(instance="a", last=NOON + 2, fingerprints=["r", "p"])
    assert merge_parts([late, early]).fingerprints == ["q", "r", "p"]


def test_half_a_character_in_a_name_is_kept_as_a_question_mark():
    *_, session, _rule, _model, body = part_row(incident(session="half \ud800"))
    (read,) = read_parts([body])
    assert read.session == session == "half ?"


def test_a_part_that_cannot_be_read_hides_no_other(caplog):
    good = part_row(incident(1))[-1]
    assert [one.id for one in read_parts([b"\xff", good])] == ["00000001"]
    assert "cannot be read" in caplog.text


def test_fields_of_another_version_do_not_matter():
    older = {"id": "1", "instance": "a", "key": "k", "opened": 1.0, "last": 2.0}
    (read,) = read_parts([msgspec.msgpack.encode(older | {"later": 1})])
    assert isinstance(read, Incident)
    assert read.count == 0
