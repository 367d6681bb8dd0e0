"""When two texts are the same but for noise."""

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap.detect.similarity import differs_only_in_noise, shares_most_words

LONG = "\n".join(f"row {n}: {n * 7919 % 1000}" for n in range(3_000))
FLAT = ", ".join(f'"{n}": {n * 7919 % 1000}' for n in range(3_000))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param("took 3s", "took 11s", True, id="a duration"),
        pytest.param("pump 5", "pump 6", False, id="a number"),
        pytest.param("a\n\nb", "a\nb", True, id="an empty line more"),
        pytest.param(f"{LONG}\nat 10:02\nend", f"{LONG}\nat 11:40\nend", True, id="a time at last"),
        pytest.param(f"{LONG}\na\n{LONG}", f"{LONG}\nb\n{LONG}", False, id="amid a long text"),
        pytest.param(f"{FLAT} 10:02 {FLAT}", f"{FLAT} 11:40 {FLAT}", True, id="a time in one line"),
        pytest.param(f"{FLAT} a {FLAT}", f"{FLAT} b {FLAT}", False, id="amid one long line"),
        pytest.param(f"10:02 {FLAT} a", f"11:40 {FLAT} b", False, id="a time, and more"),
        pytest.param("x" * 5_000, "x" * 5_004, False, id="one that hardly grows"),
        pytest.param("[image 3f2a90c1d2e4b586]", "[image 3f2a90c1d2e4b587]", False, id="images"),
    ],
)
def test_noise(one, other, expected):
    assert differs_only_in_noise(one, other) is expected
    assert differs_only_in_noise(other, one) is expected


@given(text=st.text(max_size=300))
def test_a_text_is_the_same_as_itself_in_other_white_space(text):
    assert differs_only_in_noise(text, text)
    assert differs_only_in_noise(f"{text} ", text)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param("keyerror: 'parser'", "keyerror: 'lexer'", False, id="another name"),
        pytest.param("sh: a: command not found", "sh: b: command not found", True, id="an echo"),
    ],
)
def test_most_words_in_common(one, other, expected):
    assert shares_most_words(one, other) is expected


def test_long_texts_are_compared_in_no_time():
    begun = process_time()
    for number in range(20):
        assert differs_only_in_noise(f"{LONG}\n10:{number:02}", f"{LONG}\n11:{number:02}")
        logs = ["\n".join(f"{hour}:{n % 60:02} {n}" for n in range(4_000)) for hour in (10, 11)]
        assert differs_only_in_noise(*logs)
    # To mask all of these texts would take seconds.
    assert process_time() - begun < 2
