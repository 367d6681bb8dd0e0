"""The list of incidents: ten thousand of them, found by what is known of them."""

import csv
import json
import re
import time
from pathlib import Path

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
    links = tab.page.locator("tbody .row-link").evaluate_all("all => all.map(a => a.href)")
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


def test_incidents_are_grouped_and_a_group_opens_its_incidents(gateway, open_tab):
    tab = open_tab(gateway, "/incidents?state=all")
    expect(tab.page.get_by_text("10,000 incidents")).to_be_visible()
    tab.page.get_by_role("link", name="Rule").click()
    rows = tab.page.locator("tbody tr")
    expect(rows).to_have_count(4)
    expect(rows.first).to_contain_text("2,500")
    tab.page.get_by_label("Sort by").select_option("saved")
    expect(tab.page).to_have_url(re.compile("order=saved"))
    tab.page.get_by_role("link", name="cycle").click()
    expect(tab.page.get_by_text("2,500 incidents")).to_be_visible()
    expect(rows).to_have_count(100)
    expect(tab.page.get_by_label("Rule", exact=True)).to_have_value("cycle")
    tab.page.get_by_label("Time").select_option("24h")
    expect(tab.page.get_by_text("29 incidents", exact=True)).to_be_visible()


def test_a_custom_range_is_in_the_zone_of_the_viewer_and_in_the_address(gateway, open_tab):
    tab = open_tab(gateway, "/incidents?state=all&range=custom", timezone_id="Asia/Tokyo")
    tab.page.get_by_label("From").fill("2026-01-02T09:30")
    tab.page.get_by_label("From").blur()
    expect(tab.page).to_have_url(re.compile("since=2026-01-02T00%3A30"))
    tab.page.reload()
    expect(tab.page.get_by_label("From")).to_have_value("2026-01-02T09:30")
    tab.page.get_by_label("Until").fill("2026-01-02T10:30")
    tab.page.get_by_label("Until").blur()
    expect(tab.page.get_by_text("No incident matches these filters.")).to_be_visible()


def test_what_matches_is_saved_as_a_file(gateway, open_tab):
    tab = open_tab(gateway, "/incidents?state=all&caller=key:crawler&rule=cycle")
    for form in ("CSV", "JSON"):
        with tab.page.expect_download() as saved:
            tab.button(f"Export {form}").click()
        assert re.fullmatch(
            rf"incidents-\d{{4}}-\d\d-\d\d\.{form.lower()}", saved.value.suggested_filename
        )
        text = Path(saved.value.path()).read_text()
        found = json.loads(text) if form == "JSON" else list(csv.DictReader(text.splitlines()))
        assert len(found) == 834
        assert {(one["caller"], one["rule"]) for one in found} == {("key:crawler", "cycle")}


def test_many_are_acknowledged_after_it_is_said_how_many(gateway, open_tab):
    tab = open_tab(gateway, "/incidents?state=all&caller=key:support-bot&acknowledged=false")
    boxes = tab.page.locator("tbody input[type=checkbox]")
    boxes.nth(0).check()
    boxes.nth(1).check()
    expect(tab.page.get_by_text("2 incidents selected")).to_be_visible()
    tab.button("Acknowledge selected …").click()
    tab.button("Acknowledge 2 incidents").click()
    expect(tab.page.get_by_text("2 incidents acknowledged.")).to_be_visible()
    expect(tab.page.get_by_text("3,331 incidents")).to_be_visible()
    expect(tab.page.locator("tbody input:checked")).to_have_count(0)
    tab.button("Acknowledge all …").click()
    expect(tab.page.get_by_role("dialog")).to_contain_text("3,331 incidents of 1 caller")
    tab.button("Cancel").click()
    tab.button("Close all …").click()
    expect(tab.page.get_by_role("dialog")).to_contain_text("There are none that are open.")
    expect(tab.page.get_by_role("dialog").get_by_role("button", name="Close")).to_be_disabled()


def test_a_phone_folds_the_filters_and_says_how_many_are_set(gateway, open_tab):
    phone = {"width": 390, "height": 780}
    tab = open_tab(gateway, "/incidents?state=all&rule=cycle", viewport=phone)
    fold = tab.button("Filters (2)")
    expect(tab.page.get_by_label("Search")).to_be_visible()
    expect(tab.page.get_by_label("Caller")).to_be_hidden()
    fold.click()
    expect(tab.page.get_by_label("Caller")).to_be_visible()
    tab.page.get_by_label("Rule").fill("")
    expect(tab.button("Hide filters (1)")).to_be_visible()


def test_the_whole_list_fits_at_the_width_of_a_laptop(gateway, open_tab):
    tab = open_tab(gateway, "/incidents?state=all", viewport={"width": 1280, "height": 860})
    expect(tab.page.locator("tbody tr")).to_have_count(100)
    frame = tab.page.locator(".table-frame")
    assert frame.evaluate("one => one.scrollWidth - one.clientWidth") == 0
