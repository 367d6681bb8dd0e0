import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap.detect.canonical import LONG_TEXT, join, normalise


def plainly(text):
    """What normalising means for text of which people see every character, in simple words."""
    return " ".join(text.split()).casefold().encode("utf-8", "surrogatepass")


ascii_texts = st.text(st.characters(max_codepoint=127)) | st.text("aA \n\t")
texts = st.text() | ascii_texts


@given(ascii_texts | st.text("äöüßéñçøåÆ "))
def test_normalising_folds_case_and_white_space_and_nothing_else(text):
    assert normalise([text]) == plainly(text)


@given(st.lists(texts))
def test_normalising_together_is_normalising_each(many):
    assert normalise(many) == b"\xff".join(normalise([one]) for one in many)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("Fix\u200b the bu\u200dild", id="zero-width characters"),
        pytest.param("\ufeffFix the build", id="a byte-order mark"),
        pytest.param("Fix the bu\u00adild", id="a soft hyphen"),
        pytest.param("F\u0456x th\u0435 build", id="Cyrillic letters that look Latin"),
        pytest.param("Fix the buil\u0501", id="a Komi letter that looks Latin"),
        pytest.param("F\u03b9x the build", id="a Greek letter that looks Latin"),
        pytest.param("Ｆｉｘ ｔｈｅ ｂｕｉｌｄ", id="letters of full width"),
        pytest.param("Fix\u2003the\u00a0build", id="other white space"),
        pytest.param("Fix the build\U000e0041\U000e007f", id="tags"),
    ],
)
def test_what_looks_the_same_is_the_same(text):
    assert normalise([text]) == normalise(["Fix the build"])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("Почини сборку", "Почини проект", id="Russian"),
        pytest.param("Διόρθωσε τη δόμηση", "Διόρθωσε το τεστ", id="Greek"),
        pytest.param("请修复构建", "请修复测试", id="Chinese"),
    ],
)
def test_other_scripts_mean_what_they_say(one, other):
    assert normalise([one]) != normalise([other])


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
