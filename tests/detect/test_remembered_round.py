"""Remembered rounds say of each other what the rounds themselves say, and hold nothing readable."""

import json
from dataclasses import dataclass
from hashlib import blake2b, md5, sha1, sha256

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from looptrap.detect.remembered_round import (
    MAX_GIST_CHARS,
    ROUND_BYTES,
    RememberedRound,
    RoundDigester,
    RoundRecord,
    Trait,
    records_of,
)
from looptrap.detect.round import Round
from looptrap.dialect.model import Message, ToolCall, ToolResult

SECRET = b"s" * 32
DIGESTER = RoundDigester(SECRET)
LINK = bytes(range(14))

COMPARED = (
    "is_empty",
    "is_report",
    "is_poll",
    "is_deferred",
    "is_step",
    "is_search",
    "made_change",
    "made_addition",
    "reports_success",
    "only_looks",
)
"""What signals ask of one round."""

NAMES = st.sampled_from(
    ["bash", "read_file", "write_file", "get_status", "run_tests", "scroll", "create_issue", "x"]
)
COMMANDS = st.sampled_from(
    ["ls", "cat a.py", "pytest -x", "sleep 5", "sed -i s/a/b/ f", "rm -r build", "git status", ""]
)
RESULTS = st.one_of(
    st.sampled_from(
        [
            "",
            "[]",
            "ok",
            "Done.",
            "a.py\nb.py",
            "No matches found",
            "3 failed, 40 passed",
            "2 failed, 41 passed",
            "All tests passed",
            "Error: no such file or directory: a.py",
            "Traceback (most recent call last):\n  File x\nKeyError: 'a'",
            "Job 4 is still running",
            "429 too many requests, try again later",
            "exit code: 1",
            "exit code: 0\nbuilt",
        ]
    ),
    st.text(max_size=60),
)


@dataclass(frozen=True)
class Used:
    """One call of a tool, and its result; None while there is none."""

    name: str
    arguments: str
    result: str | None
    is_error: bool = False


USES = st.builds(
    Used,
    NAMES,
    COMMANDS.map(lambda command: json.dumps({"command": command}, separators=(",", ":"))),
    st.none() | RESULTS,
    st.booleans(),
)


def brief_record(digester, round_, link=LINK):
    signature = digester.signature(round_)
    return records_of(digester.pack_brief(round_, link[:4], signature, 0, 0, 0, 0, 0))[0]


def shell(command, result, *, is_error=False):
    """Return a round with one shell command."""
    return made(Used("bash", json.dumps({"command": command}), result, is_error))


def made(*uses, text=""):
    """Return a round as a request shows it: the results come in one message each, in order."""
    calls = tuple(ToolCall(f"id{at}", one.name, one.arguments) for at, one in enumerate(uses))
    results = [
        Message("tool", "", (), (ToolResult(f"id{at}", one.result, one.is_error),))
        for at, one in enumerate(uses)
        if one.result is not None
    ]
    return Round(Message("assistant", text, calls), results[::-1])


def remembered(round_, before=None, digester=DIGESTER):
    """Return what is left of a round once it is remembered."""
    record = digester.record(round_, LINK, before)
    assert records_of(record.pack()) == [record]
    return RememberedRound(record, {digester.names(round_.names): round_.names})


def brief(round_):
    """Return a round remembered when its call was new."""
    record = brief_record(DIGESTER, round_)
    return RememberedRound(record, {record.names: round_.names})


ROUNDS = st.lists(USES, min_size=1, max_size=3).map(lambda uses: made(*uses))


class TestAlone:
    @given(round_=ROUNDS)
    @example(round_=made(text="I think that is all."))
    def test_a_round_has_the_same_traits_once_it_is_remembered(self, round_):
        kept = remembered(round_)
        asked = COMPARED if round_.calls else set(COMPARED) & {"is_empty", "is_report", "is_search"}
        assert {name: getattr(kept, name) for name in asked} == {
            name: getattr(round_, name) for name in asked
        }
        assert (kept.failure is None) == (round_.failure is None)
        assert len(kept.calls) == len(round_.calls)
        assert kept.names == round_.names

    def test_a_tool_that_is_not_known_by_name_any_more_is_called_a_tool(self):
        record = DIGESTER.record(shell("ls", "a"), LINK)
        assert RememberedRound(record, {}).names == {"a tool"}

    @pytest.mark.parametrize("count", [0, 1, 255, 256, 300])
    def test_a_round_may_have_any_number_of_calls(self, count):
        round_ = made(*(Used("bash", str(at), "ok") for at in range(count)))
        assert len(remembered(round_).calls) == min(count, 255)


class TestTwo:
    @given(round_=ROUNDS)
    def test_the_same_calls_with_the_same_results_repeat(self, round_):
        kept = remembered(round_)
        assert kept.repeats(remembered(round_))
        assert kept.has_same_result(remembered(round_))
        assert kept.repeats(brief(round_))
        assert brief(round_).repeats(kept)

    @given(one=ROUNDS, other=ROUNDS)
    def test_rounds_repeat_when_they_are_remembered_only_if_they_do_when_they_are_shown(
        self, one, other
    ):
        if remembered(one).repeats(remembered(other)):
            assert one.repeats(other)

    @given(uses=st.lists(USES, min_size=2, max_size=4), data=st.data())
    def test_the_order_of_parallel_calls_does_not_matter(self, uses, data):
        shuffled = data.draw(st.permutations(uses))
        one, other = made(*uses), made(*shuffled)
        assert remembered(one).repeats(remembered(other)) == one.repeats(other)

    @given(one=ROUNDS, other=ROUNDS)
    def test_equal_calls_are_equal_and_others_are_not(self, one, other):
        kept, other_kept = remembered(one), remembered(other)
        assert (kept.signature == other_kept.signature) == (one.signature == other.signature)

    @pytest.mark.parametrize(
        ("one", "other", "are_same"),
        [
            ("at 2026-11-16T10:00:00Z: 4 files", "at 2026-11-17T23:59:01Z: 4 files", True),
            ("run 2f1c8c5e-7f1b-4c7e-9b59-0d1a2b3c4d5e ended", None, True),
            ("4 passed in 0.31s, of all that were there", None, True),
            ("Error: connection to db refused after 31 ms", None, True),
            ("attempt 3: nothing has changed here", None, True),
            ("4 files", "5 files", False),
            ("step 3 of 9", "step 4 of 9", False),
            ("Error: no column a", "Error: no column b", False),
            ("2 failed, 40 passed", "1 failed, 41 passed", False),
        ],
    )
    def test_results_are_the_same_where_only_volatile_tokens_differ(self, one, other, are_same):
        if other is None:
            other = (
                one.replace("2f1c8c5e", "9a9a9a9a")
                .replace("0.31s", "0.77s")
                .replace("31 ms", "47 ms")
                .replace("attempt 3", "attempt 4")
            )
        shown = shell("make", one), shell("make", other)
        kept = remembered(shown[0]), remembered(shown[1])
        assert shown[0].has_same_result(shown[1]) is are_same
        assert kept[0].has_same_result(kept[1]) is are_same
        assert kept[1].has_same_result(kept[0]) is are_same

    @pytest.mark.parametrize("where", ["begin", "middle", "end"])
    @pytest.mark.parametrize("what", ["2026-11-16T10:00:00Z", "4 files"])
    def test_in_the_middle_of_a_long_result_everything_counts(self, where, what):
        other = what.replace("10:00", "11:11").replace("4", "5")
        filler = ["line of a log\n" * MAX_GIST_CHARS, "line of a log\n" * MAX_GIST_CHARS]
        place = {"begin": 0, "middle": 1, "end": 2}[where]
        one_text, other_text = (
            "".join([*filler[:place], text, *filler[place:]]) for text in (what, other)
        )
        kept = remembered(shell("cat log", one_text)), remembered(shell("cat log", other_text))
        is_volatile = "T" in what and where != "middle"
        assert kept[0].has_same_result(kept[1]) is is_volatile

    @pytest.mark.parametrize(
        ("one", "other", "are_alike"),
        [
            ("Error: no such file: a.py", "Error: no such file: a.py", True),
            (
                "TypeError: cannot read properties of undefined (reading 'map') at render",
                "TypeError: cannot read properties of undefined (reading 'map') at mount",
                True,
            ),
            ("KeyError: 'a'", "PermissionError: [Errno 13] access to /etc/shadow is denied", False),
            ("2 failed, 40 passed", "1 failed, 41 passed", False),
            ("Error: no such file: a.py", "a.py\nb.py", False),
            ("a.py", "a.py", False),
        ],
    )
    def test_failures_are_as_alike_as_they_were(self, one, other, are_alike):
        shown = shell("make", one), shell("make all", other)
        assert shown[0].fails_like(shown[1], 80.0) is are_alike
        assert remembered(shown[0]).fails_like(remembered(shown[1]), 80.0) is are_alike

    @pytest.mark.parametrize(
        ("one", "other", "is_variant"),
        [
            (("cat src/app/a.py", "No such file"), ("cat src/app/a.py ", "No such file"), True),
            (("cat a.py", "No such file"), ("psql -c 'select 1 from t'", "No such file"), False),
            (("grep -rn foo src", ""), ("grep -rn foo src", ""), True),
            (("grep -rn foo src", ""), ("grep -rn bar lib", ""), False),
            (("ls", "a"), ("ls", "a"), False),
        ],
    )
    def test_a_variant_of_a_call_that_brings_nothing_is_one(self, one, other, is_variant):
        shown = shell(*one), shell(*other)
        assert shown[0].is_variant_of(shown[1]) is is_variant
        assert remembered(shown[0]).is_variant_of(remembered(shown[1])) is is_variant

    @pytest.mark.parametrize(
        ("one", "other", "are_alike"),
        [
            ("I will now look at the tests.", "I will now look at the tests.", True),
            ("I will now look at the tests.", "The invoice of March is missing a page.", False),
        ],
    )
    def test_rounds_of_words_alone_say_the_same_as_before(self, one, other, are_alike):
        shown = made(text=one), made(text=other)
        assert shown[0].says_like(shown[1]) is are_alike
        assert remembered(shown[0]).says_like(remembered(shown[1])) is are_alike
        assert not remembered(shown[0]).says_like(remembered(shell("ls", one)))

    def test_an_append_that_adds_the_same_again_is_remembered_as_one(self):
        first, second = (
            made(Used("append_line", '{"line":"- buy milk"}', "- buy milk\n" * times))
            for times in (20, 21)
        )
        kept = remembered(first), remembered(second, before=first)
        assert second.writes_again(first)
        assert kept[1].writes_again(kept[0])
        assert kept[1].has_similar_result(kept[0])
        assert not kept[0].writes_again(kept[1])


class TestResultsThatComeLater:
    """The provider keeps the calls: they are remembered with its answer, then joined."""

    @staticmethod
    def completed(round_):
        calls = DIGESTER.calls_record(round_.assistant_message, LINK)
        return DIGESTER.completed(calls, [one for one in round_.results if one is not None])

    @given(use=USES.filter(lambda use: use.result is not None))
    def test_one_call_is_remembered_as_if_it_had_been_shown_with_its_result(self, use):
        round_ = made(use)
        record = self.completed(round_)._replace(traits=0)
        assert record == DIGESTER.record(round_, LINK)._replace(traits=0)
        kept = RememberedRound(self.completed(round_), {record.names: round_.names})
        assert {name: getattr(kept, name) for name in COMPARED} == {
            name: getattr(round_, name) for name in COMPARED
        }

    def test_a_nudge_at_the_end_of_a_result_is_not_part_of_it(self):
        plain = self.completed(shell("ls", "a.txt"))
        assert self.completed(shell("ls", "a.txt\n\n[looptrap]\nThis is the third time.")) == plain


class TestRecord:
    @given(
        st.tuples(
            *(st.binary(min_size=size, max_size=size) for size in (4, 6, 5, 5, 4, 16, 12, 3)),
            st.integers(0, 2**32 - 1),
            *[st.integers(0, 255)] * 3,
            *[st.integers(0, 65_535)] * 2,
            st.integers(0, 2**32 - 1),
        ),
        st.binary(max_size=ROUND_BYTES - 1),
    )
    def test_records_are_read_as_they_were_packed_and_what_is_torn_is_left(self, fields, torn):
        record = RoundRecord(*fields)
        assert len(record.pack()) == ROUND_BYTES
        assert records_of(record.pack() * 2 + torn) == [record, record]

    @given(st.binary(min_size=1, max_size=4 * ROUND_BYTES))
    def test_any_bytes_are_rounds_that_can_be_compared(self, data):
        rounds = [RememberedRound(record, {}) for record in records_of(data)]
        for one in rounds:
            for other in rounds:
                one.repeats(other)
                one.is_variant_of(other)
                one.fails_like(other, 80.0)
                one.says_like(other)
                one.has_similar_result(other)

    def test_every_trait_has_a_place(self):
        assert sum(Trait).bit_count() == len(Trait)
        assert max(Trait) < 2**32


SECRETS = ("hunter2-hunter2", "AKIAIOSFODNN7EXAMPLE", "4111 1111 1111 1111", "Zoë Ωmega")


class TestPrivacy:
    ROUND = made(
        Used(f"get_{SECRETS[0]}", json.dumps({"key": SECRETS[1]}), f"Error: denied {SECRETS[2]}"),
        Used("bash", SECRETS[3], SECRETS[3]),
        text=SECRETS[0],
    )

    def records(self, digester=DIGESTER):
        ids = digester.digest(b"id")
        full = digester.record(self.ROUND, ids)
        calls = digester.calls_record(self.ROUND.assistant_message, ids)
        found = [one for one in self.ROUND.results if one is not None]
        return [full, brief_record(digester, self.ROUND, ids), digester.completed(calls, found)]

    def test_no_text_is_in_a_record_nor_a_hash_of_it_that_anyone_can_make(self):
        packed = b"".join(record.pack() for record in self.records())
        for secret in SECRETS:
            words = [secret, *secret.split(), *secret.lower().split("-")]
            for text in {*words, json.dumps({"key": secret})}:
                data = text.encode()
                hashes = [make(data).digest() for make in (md5, sha1, sha256, blake2b)]
                hashes += [blake2b(data, digest_size=size).digest() for size in (4, 5, 6, 16)]
                assert data[:4] not in packed
                assert [one for one in hashes if one[:4] in packed] == []

    def test_another_key_gives_other_bytes(self):
        keyed = self.records(), self.records(RoundDigester(b"t" * 32))
        digests = ("link", "signature", "result", "failure", "names", "failure_words")
        for one, other in zip(*keyed, strict=True):
            for name in digests:
                mine = getattr(one, name)
                assert mine != getattr(other, name) or not any(mine), name

    @given(result=st.text(max_size=200), other=st.text(max_size=200))
    def test_a_record_has_one_size_whatever_the_texts(self, result, other):
        sizes = {len(DIGESTER.record(shell(other, text), LINK).pack()) for text in (result, other)}
        assert sizes == {ROUND_BYTES}


ODD_TEXTS = {
    "nothing": "",
    "NUL": "\0",
    "NULs around": "\0error\0: a\0",
    "a lone surrogate": "\ud800",
    "a failure with a lone surrogate": "Error: cannot read \udcff\udc00.txt",
    "separators": "\xff\xfe\x1f",
    "a megabyte": "x" * 1_000_000,
    "a megabyte of failures": "Error: no\n" * 100_000,
    "a megabyte in one line of words": "word " * 200_000,
    "right to left": "\u202eerror\u202c",
    "placeholders": "<uuid> <time>",
}


class TestOddTexts:
    @pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS)
    def test_any_text_is_remembered_as_name_argument_result_and_answer(self, text):
        for round_ in (
            made(Used(text, text, text)),
            made(Used(text, text, text, is_error=True), Used("bash", text, None)),
            made(text=text),
        ):
            kept = remembered(round_)
            assert kept.repeats(remembered(round_))
            if round_.calls:
                brief(round_)
                TestResultsThatComeLater.completed(round_)

    @given(text=st.text(st.characters(exclude_categories=()), max_size=50))
    def test_any_text_at_all(self, text):
        round_ = made(Used(text, text, f"Error: {text}"))
        assert remembered(round_).repeats(remembered(round_))
        assert TestResultsThatComeLater.completed(round_).call_count == 1
