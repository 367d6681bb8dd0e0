"""The page: one file that needs nothing else, and no run can write into it."""

import re
from html.parser import HTMLParser

import pytest
from tests.replay.recorded import honest, line, policies, stuck

from looptrap.replay.replay import Replay
from looptrap.replay.report import bar_chart, line_chart, render_html, summary_tables
from looptrap.replay.ruleset import Ruleset

VOID = {"meta", "rect", "line", "circle", "polyline"}
EVIL = "</td><script>alert('\"&')</script>"


class Reader(HTMLParser):
    """Notes every tag, and fails when one is not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader


@pytest.fixture
def summary(tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_bytes(
        b"\n".join(
            [
                line(stuck(6), id=EVIL, judged={"label": "loop", "first_loop_step": 1}),
                line(honest(4), id="fine", judged={"label": "ok"}),
            ]
        )
    )
    replay = Replay(Ruleset(policies(warn=2, block=3)), sweeps=True)
    list(replay.play_file(path))
    return replay.summary


def test_a_run_cannot_write_into_the_page(summary):
    reader = read(render_html(summary, EVIL))
    assert "script" not in {tag for tag, _ in reader.tags}
    assert EVIL in reader.texts  # as text, in the table of flagged runs


def test_nothing_is_loaded_from_anywhere(summary):
    html = render_html(summary, "preset default")
    reader = read(html)
    assert {"link", "script", "img", "iframe"}.isdisjoint(tag for tag, _ in reader.tags)
    assert not {"src", "href"} & {name for _, attributes in reader.tags for name in attributes}
    assert not re.search(r"https?:|url\(|@import", html)


def test_has_the_figures_of_the_summary_and_both_plots(summary):
    reader = read(render_html(summary, "preset default"))
    for table in summary_tables(summary):
        assert table.heading in reader.texts
        for row in table.rows:
            assert set(row) <= set(reader.texts)
    assert [tag for tag, _ in reader.tags].count("svg") == 2


def test_a_page_about_nothing_is_a_page():
    reader = read(render_html(Replay(Ruleset(policies(block=3))).summary, "preset default"))
    assert "svg" not in {tag for tag, _ in reader.tags}


def test_bars_are_as_long_as_their_counts():
    reader = read(bar_chart({"repeat": 8, EVIL: 2}, "signals"))
    widths = [float(attributes["width"]) for tag, attributes in reader.tags if tag == "rect"]
    assert widths[0] == 4 * widths[1]
    assert EVIL in reader.texts


def test_lines_leave_out_what_is_unknown():
    reader = read(line_chart(["a", "b", "c"], {"one": [0.0, None, 1.0]}, "shares"))
    dots = [attributes for tag, attributes in reader.tags if tag == "circle"]
    assert len(dots) == 2
    assert float(dots[0]["cy"]) > float(dots[1]["cy"])  # more is higher up
