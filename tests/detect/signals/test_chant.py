"""An answer that repeats itself, and all that merely looks like one."""

import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from looptrap.detect.signals.chant import MAX_UNIT_CHARS, MAX_VALUE_CHARS, MIN_CUT_CHARS, Chant
from looptrap.dialect.stream import MAX_TAIL_CHARS, tail_of

case = pytest.param
chant = Chant()

SORRY = "I am sorry, I cannot find that file. Let me try once more. "
PARAGRAPH = (
    "Wait. The invoice was sent twice because the first call timed out while the second was under"
    " way.\n\nSo the customer has paid one of them, and the other should be void. Let me check the"
    " ledger again to be sure that nothing else is open.\n\n"
)
STORY = "The keeper climbed the stairs, lit the lamp and wrote the weather into his book. " * 2


def count(text):
    evidence = chant(text)
    return evidence.count if evidence is not None else 0


def numbered(line, times=150):
    """Return lines that differ in a number."""
    return "".join(line.format(n) + "\n" for n in range(1, times + 1))


def prose(words, seed=7):
    """Return text in which nothing is said twice in a row."""
    author = random.Random(seed)
    alphabet = "abcdefghijklmnoprstuw"
    known = ["".join(author.choices(alphabet, k=author.randint(2, 9))) for _ in range(400)]
    return " ".join(author.choices(known, k=words))


@pytest.mark.parametrize(
    ("text", "times"),
    [
        case(SORRY * 80, 80, id="a sentence"),
        case(STORY + SORRY * 80, 80, id="a sentence, after a good beginning"),
        case(SORRY * 80 + SORRY[:20], 80, id="a sentence that has begun once more"),
        case(PARAGRAPH * 16, 16, id="a block of paragraphs"),
        case("okay then " * 400, 400, id="two words"),
        case("the " * 1_100, 1_100, id="one word"),
        case((SORRY.strip() + "\n") * 80, 80, id="a line"),
        case("".join([SORRY, SORRY.upper(), SORRY.replace(" ", "\n")] * 27), 81, id="case, space"),
        case("- Check the logs of the server again.\n" * 110, 110, id="one and the same bullet"),
        case(numbered("Attempt {}: let me try that once more."), 150, id="a counted attempt"),
        case(numbered("This is try #{}, which must work now. "), 150, id="a numbered try"),
        case("Мне очень жаль, я не могу найти этот файл. " * 90, 90, id="Russian"),
        case("申し訳ありませんが、そのファイルが見つかりません。" * 200, 200, id="Japanese"),
        case("मुझे खेद है, मुझे वह फ़ाइल नहीं मिल रही है। " * 110, 110, id="Hindi, with its marks"),
        case("```\nmake test\n```\n" + SORRY * 80, 80, id="after a block of code"),
        case((SORRY * 2 + "\n```\nmake\n```\n") * 40, 40, id="with a little code in each"),
    ],
)
def test_a_chant_is_counted(text, times):
    # All of these but the longest fit into what is looked at.
    seen = times if len(text) <= MAX_TAIL_CHARS else times * MAX_TAIL_CHARS // len(text)
    assert abs(count(text) - seen) <= 1
    assert len(text) > MAX_TAIL_CHARS or count(text) == times


@pytest.mark.parametrize(
    ("text", "times"),
    [
        case("I must not talk in class. \n" * 40, 5, id="forty short lines"),
        case("I must not talk in class. \n" * 39, 0, id="thirty-nine"),
        case(SORRY * 35, 5, id="35 times a sentence"),
        case(SORRY * 60, 60, id="60 times a sentence"),
        case(PARAGRAPH * 10, 5, id="ten times a block of paragraphs"),
        case(PARAGRAPH * 13, 13, id="13 times a block of paragraphs"),
        case("okay then " * 85, 5, id="two words, 85 times"),
        case("okay then " * 60, 0, id="two words, 60 times"),
    ],
)
def test_a_short_chant_is_warned_of_before_it_is_cut(text, times):
    """The default preset warns at 4 and cuts at 6."""
    assert count(text) == times


VERSES = "".join(
    f"{prose(30, seed)}\nOh, carry me home, carry me over the sea,\nand never let go of me.\n\n"
    for seed in range(30)
)
ROW = "| invoice | open | nobody has looked at it |\n"
LOG = "2026-03-01 12:00:0{} worker-7 heartbeat received from the scheduler, all is well\n"
CODE = "    assert total(items) == expected_total, 'the totals differ'\n"
FENCED = "print('waiting for the server to come up again')\n"


@pytest.mark.parametrize(
    "text",
    [
        case("", id="nothing"),
        case("ok", id="hardly anything"),
        case("ha " * 8, id="a laugh"),
        case(SORRY * 20, id="twenty times a sentence: somebody may have wanted that"),
        case("I must not talk in class. \n" * 30, id="thirty lines for a schoolboy"),
        case("In stock.\n" * 60, id="sixty short answers"),
        case(prose(3_000), id="prose"),
        case(VERSES, id="a refrain with new verses between"),
        case(SORRY * 80 + STORY, id="a chant that is over"),
        case("| name | state | why |\n|---|---|---|\n" + ROW * 150, id="rows of a table"),
        case("invoice\topen\tnobody looked at it\n" * 150, id="values between tabs"),
        case("invoice,open,nobody-looked-at-it\n" * 150, id="comma-separated values"),
        case('{"name": "invoice", "state": "open"}\n' * 150, id="lines of JSON"),
        case('[{"name":"invoice","state":"open"}' + ',{"name":"invoice","state":"open"}' * 150,
             id="JSON in one line"),
        case('  "state": "open",\n  "owner": "nobody at all",\n' * 100, id="fields of JSON"),
        case("<li>Nothing to report here today</li>\n" * 150, id="markup"),
        case("".join(LOG.format(n % 10) for n in range(100)), id="log lines"),
        case("[12:00:01] heartbeat received from the scheduler\n" * 150, id="log lines, bracketed"),
        case("INFO heartbeat received from the scheduler\n" * 150, id="log lines with a level"),
        case("Mar  1 12:00:01 host sshd: connection closed\n" * 150, id="syslog"),
        case("Here it is:\n\n```python\n" + FENCED * 100 + "```\n", id="code in a fence"),
        case("Here it is:\n\n```python\n" + FENCED * 100, id="code in a fence that is open"),
        case("~~~\n" + FENCED * 100, id="code in a fence of tildes"),
        case("````md\n```\n" + FENCED * 80 + "```\n" + FENCED * 80, id="a fence inside a fence"),
        case("```\n" + FENCED * 400, id="code in a fence that began long ago"),
        case(CODE * 100, id="code that is set in"),
        case("counter.add(item);\n" * 250, id="code that is not"),
        case("$ make test --quiet\n" * 250, id="commands"),
        case('  File "loop.py", line 3, in recurse\n' * 150, id="a trace of a recursion"),
        case("https://example.com/a/long/link/to/nowhere\n" * 150, id="links"),
        case(numbered("{}. Not spam, says the filter"), id="a numbered list of equal verdicts"),
        case(numbered("Item {}: in stock, ready to ship"), id="a list of items"),
        case(numbered("- pump {}: needs no service this year"), id="a bulleted list of pumps"),
        case("".join(f"- To the user, say: {prose(6, n)}\n" for n in range(120)),
             id="a list whose lines begin alike"),
        case("not spam\n" * 600, id="a column of labels"),
        case("positive\nnegative\n" * 400, id="a column of two labels"),
        case("-" * 6_000, id="a rule"),
        case("=-" * 3_000, id="a rule of two characters"),
        case(("*" * 40 + "\n") * 150, id="rules"),
        case("." * 6_000, id="progress dots"),
        case("a" * 6_000, id="one letter"),
        case("ACAC" * 2_000, id="one word of many letters"),
        case("0 1 1 0\n" * 1_000, id="a matrix"),
        case("+------+------+\n| ok   | ok   |\n" * 150, id="boxes"),
        case("║  o  ║  o  ║  ═══════  ║\n" * 300, id="boxes that are drawn"),
        case("🎉✨ " * 2_000, id="confetti"),
    ],
)  # fmt: skip
def test_what_repeats_by_its_nature_is_no_chant(text):
    assert chant(text) is None


def test_evidence_tells_lengths_and_counts_only():
    evidence = chant(SORRY * 80)
    assert evidence.signal == "chant"
    assert evidence.what == "the same 46 characters said 80 times in a row"


words = st.text("abcdefghijklmnopqrstuvwxyzäß", min_size=2, max_size=9)
sentences = st.lists(words, min_size=4, max_size=40).map(lambda one: " ".join(one) + ". ")


def squeezed(text):
    return "".join(text.split()).lower()


def unit_of(text):
    """Return the shortest text of which the squeezed one consists."""
    text = squeezed(text)
    return text[: (text + text).index(text, 1)]


@given(unit=sentences, extra=st.integers(0, 20), before=st.sampled_from(["", "1. ", STORY]))
def test_a_unit_is_counted_as_often_as_it_was_said(unit, extra, before):
    single = unit_of(unit)
    assume(len(set(single)) > 2)
    assume(unit.split()[0] not in ("info", "warn", "error"))  # a line of a log begins so
    times = MIN_CUT_CHARS // len(squeezed(unit)) + 1 + extra
    text = before + unit * times
    assume(len(text) <= MAX_TAIL_CHARS)
    found = times * len(squeezed(unit)) // len(single)
    # What stands before may happen to end as the unit does.
    assert found <= count(text) <= found + (1 if before else 0)


@given(st.randoms(use_true_random=False), st.integers(0, 2_000))
def test_text_that_says_nothing_twice_in_a_row_never_trips(author, size):
    said = [f"{author.getrandbits(64):x}" for _ in range(size)]
    assert chant(" ".join(said)) is None


@given(st.integers(0, len(PARAGRAPH) * 2), st.integers(0, len(PARAGRAPH)))
def test_where_a_chant_is_broken_off_changes_little(at, more):
    text = PARAGRAPH * 17
    assert abs(count(text[at:]) - count(text[at : len(text) - more])) <= 2
    whole = count(text)
    assert abs(whole - count(text[: len(text) - more])) <= 1


@given(st.integers(0, 3 * len(SORRY)))
def test_one_character_more_changes_the_count_by_one_at_most(at):
    text = STORY + SORRY * 80
    end = len(text) - at
    assert 0 <= count(text[:end]) - count(text[: end - 1]) <= 1


@given(st.text(max_size=300), st.integers(1, 60))
def test_any_text_can_be_looked_at(unit, times):
    chant(unit * times)


def test_the_longest_unit_is_found_as_often_as_a_rule_may_ask():
    unit = prose(700)[: MAX_UNIT_CHARS * 7 // 6]
    assert len(squeezed(unit)) <= MAX_UNIT_CHARS
    assert count(unit + " " + (unit + " ") * 20) >= 6


@given(st.integers(MAX_TAIL_CHARS, 3 * MAX_TAIL_CHARS), st.sampled_from(["```py", "~~~", "````"]))
def test_the_end_of_code_is_known_as_code_however_long_it_is(size, fence):
    text = f"So:\n{fence}\n" + FENCED * 800
    assert chant(tail_of(text[:size])) is None
    # As it is heard: piece by piece, each time what is left of the last.
    latest = ""
    for at in range(0, len(text), 1_000):
        latest = tail_of(latest + text[at : at + 1_000])
        assert len(latest) <= MAX_TAIL_CHARS + len(fence) + 1
    assert chant(latest) is None
    mark = fence.removesuffix("py")
    assert chant(tail_of(f"{latest}{mark}\n" + SORRY * 160)) is not None


def test_a_line_that_is_longer_than_a_value_counts():
    line = "x" * 5 + " " + "y" * MAX_VALUE_CHARS + "\n"
    assert count(line * 200) == 200
