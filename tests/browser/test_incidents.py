"""The list of incidents: ten thousand of them, found by what is known of them."""

import time

import pytest
from playwright.sync_api import expect
from tests.browser.scene import past_incidents
from tests.browser.serving import watched

from looptrap.incident.history import IncidentHistory
from looptrap.incident.setting import IncidentSettings

MANY = 10_000
FRAME_MS = 1_000
"""What the page may take at most to answer a key, on a machine that does other things too."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    history = IncidentHistory(str(folder / "history.db"), IncidentSettings())
    history.open()
    history.put(past_incidents(time.time(), MANY))
    history.close()
    with watched(folder) as one:
        yield one


def test_ten_thousand_incidents_are_paged_through(gateway, open_tab):
    tab = open_tab(gateway, "/incidents?state=all")
    rows = tab.page.locator("tbody tr")
    expect(rows).to_have_count(100)
    for pages in range(2, 11):
        tab.button("Load more").click()
        expect(rows).to_have_count(100 * pages)
    links = tab.page.locator("tbody td:first-child a").evaluate_all("all => all.map(a => a.href)")
    assert len(set(links)) == 1_000
    took = tab.page.evaluate(
        """() => new Promise((resolve) => {
            const begin = performance.now();
            document.querySelector("tbody a").focus();
            requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - begin)));
        })"""
    )
    assert took < FRAME_MS
    tab.page.keyboard.press("ArrowDown")
    expect(tab.page.locator("tbody tr:nth-child(2) a").first).to_be_focused()


@pytest.mark.parametrize(
    ("typed", "rows", "first"),
    [
        pytest.param({"Search": "run--9099"}, 1, "run--9099", id="the oldest, by its session"),
        pytest.param({"Search": "CRAWLER"}, 100, "key:crawler", id="one of three callers"),
        pytest.param({"Caller": "key:ci-fixer", "Rule": "cycle"}, 100, "key:ci-fixer", id="exact"),
        pytest.param({"Rule": "nothing"}, 0, "No incident matches these filters.", id="none"),
    ],
)
def test_incidents_are_found_by_what_is_known(gateway, open_tab, typed, rows, first):
    tab = open_tab(gateway, "/incidents?state=all")
    for label, text in typed.items():
        tab.page.get_by_label(label, exact=True).fill(text)
    expect(tab.page.locator("main")).to_contain_text(first)
    expect(tab.page.locator("tbody tr")).to_have_count(rows)
    tab.page.reload()
    expect(tab.page.locator("tbody tr")).to_have_count(rows)


def test_where_nothing_is_open_the_list_is_calm(gateway, open_tab):
    tab = open_tab(gateway, "/incidents")
    expect(tab.page.get_by_text("Nothing is looping.")).to_be_visible()
    tab.page.get_by_role("link", name="Show past incidents").click()
    expect(tab.page.locator("tbody tr")).to_have_count(100)
