"""Remarks: what they come to does not depend on who heard them first."""

from hypothesis import given
from hypothesis import strategies as st

from looptrap.incident.model import NO_ANNOTATIONS, Annotation, collect_annotations

REMARKS = st.builds(
    Annotation,
    id=st.text("0123456789abcdef", min_size=4, max_size=4),
    incident=st.just("inc_1"),
    time=st.integers(0, 9).map(float),
    by=st.just("admin"),
    kind=st.sampled_from(["acknowledge", "label", "note", "release"]),
    text=st.sampled_from(["", "false_alarm", "confirmed", "a note"]),
)


def remark(time, kind, text=""):
    return Annotation(id=f"{time}", incident="inc_1", time=time, by="admin", kind=kind, text=text)


@given(data=st.data(), remarks=st.lists(REMARKS, unique_by=lambda one: one.id))
def test_their_order_does_not_matter(data, remarks):
    assert collect_annotations(data.draw(st.permutations(remarks))) == collect_annotations(remarks)


def test_the_first_who_takes_care_and_the_latest_label_hold():
    found = collect_annotations(
        [
            remark(5.0, "label", "confirmed"),
            remark(2.0, "acknowledge"),
            remark(1.0, "acknowledge"),
            remark(4.0, "label", "false_alarm"),
        ]
    )
    assert found.acknowledged.time == 1.0
    assert found.label == "confirmed"


def test_a_label_that_is_taken_back_or_unknown_is_none():
    for text in ("", "of a later version"):
        assert (
            collect_annotations(
                [remark(1.0, "label", "confirmed"), remark(2.0, "label", text)]
            ).label
            is None
        )


def test_of_nothing_there_is_nothing():
    assert collect_annotations([]) == NO_ANNOTATIONS
