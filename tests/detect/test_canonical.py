from hypothesis import given
from hypothesis import strategies as st

from looptrap.detect.canonical import LONG_TEXT, join, normalise


def plainly(text):
    """What normalising means, in the simplest words."""
    return " ".join(text.split()).casefold().encode("utf-8", "surrogatepass")


texts = st.text() | st.text(st.characters(max_codepoint=127)) | st.text("aA \n\t")


@given(texts)
def test_normalising_folds_case_and_white_space_and_nothing_else(text):
    assert normalise([text]) == plainly(text)


@given(st.lists(texts))
def test_normalising_together_is_normalising_each(many):
    assert normalise(many) == b"\xff".join(map(plainly, many))


def test_digits_that_stand_apart_stay_apart():
    assert normalise(["gcd of 1 11"]) != normalise(["gcd of 11 1"])


def test_long_texts_are_compared_to_the_letter():
    long = "a" * (LONG_TEXT + 1)
    assert normalise([long]) == normalise([long])
    assert normalise([long]) != normalise([long.upper()])


@given(
    st.integers(1, 4).flatmap(lambda n: st.tuples(*[st.lists(texts, min_size=n, max_size=n)] * 2))
)
def test_no_two_lists_of_as_many_texts_are_joined_alike(lists):
    one, other = lists
    assert (join(one) == join(other)) == (one == other)


def test_a_separator_in_a_value_makes_no_two_lists_equal():
    assert join(["a|b", "c"]) != join(["a", "b|c"])
    assert join(["a\xff", "b"]) != join(["a", "\xffb"])
