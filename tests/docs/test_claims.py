"""What the README and the report claim of detection is what the default preset and the data say."""

import re

from bench import report
from tests.docs.test_readme import README, ROOT

from looptrap.database.postgres_schema import SEARCHED
from looptrap.policy import preset
from looptrap.policy.action import Action

RESULTS = ROOT / "bench" / "RESULTS.md"

BY_ITSELF = {
    *("conversation", "cycle", "failing", "noisy_repeat", "idle", "compaction"),
    *("turn_budget", "chant"),
}
"""What the README gives a line of its own."""


def refused_at():
    """Return from which count on the default preset refuses, by what is watched."""
    [policy] = preset.load(preset.DEFAULT)
    steps = {rule.watch: dict(rule.ladder.steps) for rule in policy.rules}
    return {watch: step[Action.BLOCK] for watch, step in steps.items() if Action.BLOCK in step}


def test_the_readme_says_after_how_many_rounds_each_loop_is_refused():
    page, counts = README.read_text("utf-8"), refused_at()
    rounds = [count for watch, count in counts.items() if watch not in BY_ITSELF]
    assert f"**refused** after {min(rounds)} to {max(rounds)} rounds" in page
    assert re.search(rf"\| cycles .* \| \*\*refused\*\* on the {counts['cycle']}rd time", page)
    assert re.search(
        rf"\| one failure .* \| \*\*refused\*\* after {counts['failing']} rounds", page
    )
    assert re.search(
        rf"\| the same job .* \| \*\*refused\*\* after {counts['noisy_repeat']} rounds", page
    )
    assert f"in the same few words | **refused** after {counts['idle']} turns" in page
    assert f"**refused** on the {counts['conversation']}th time" in page
    assert f"more than {counts['turn_budget']} tool calls" in page
    assert re.search(
        rf"\| the same calls after each compaction .* after the {counts['compaction']}rd", page
    )


def test_the_report_and_the_readme_say_who_labelled_the_runs():
    explained = report.EXPLAINED["quality"]
    assert explained in RESULTS.read_text("utf-8")
    for page in (explained, README.read_text("utf-8")):
        said = " ".join(page.split())
        assert re.search(r"[Tt]wo language models judged .* independently", said)
        assert re.search(r"only (?:the 94 )?runs on which both agreed are scored", said)
        assert "people read and labelled" not in said


def test_the_page_on_postgresql_makes_the_index_that_a_gateway_makes():
    page = (ROOT / "docs" / "postgres.md").read_text("utf-8")
    assert f"USING gin (\n  lower({SEARCHED}) gin_trgm_ops)" in page


def test_the_glossary_is_short_and_names_each_term_once():
    page = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    terms = re.findall(r"^\| ([A-Z][^|]*) \|", page, re.MULTILINE)
    assert 30 < len(terms) <= 40
    assert len(set(terms)) == len(terms)
