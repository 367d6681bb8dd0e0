"""What all tests of the dashboard share: one browser a file, a new context a test."""

import os
from contextlib import ExitStack

import pytest
from playwright.sync_api import expect, sync_playwright
from tests.browser.picture import Pictures
from tests.browser.serving import watched
from tests.browser.tab import Tab

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

PATIENCE_MS = 10_000

NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser(find_part):
    """A browser of the system; which one, LOOPTRAP_CHROMIUM says."""
    path = os.environ.get("LOOPTRAP_CHROMIUM") or find_part(NAMES, "chromium")
    expect.set_options(timeout=PATIENCE_MS)
    # For one file only: while it runs, no other test can have a loop of its own on this thread.
    with sync_playwright() as playwright:
        one = playwright.chromium.launch(executable_path=path, headless=True, args=FLAGS)
        yield one
        one.close()


@pytest.fixture
def serve(tmp_path):
    """Start a gateway: `serve(toml, script=…, token=…, **flags)`."""
    with ExitStack() as stack:
        yield lambda toml="", **options: stack.enter_context(watched(tmp_path, toml, **options))


@pytest.fixture
def open_tab(browser):
    """Open the dashboard of a gateway in a tab of its own, in which nothing may go wrong."""
    tabs = []

    def open_(gateway, place="/", *, failures=False, **options):
        context = browser.new_context(
            **{"viewport": {"width": 1280, "height": 860}, "reduced_motion": "reduce", **options}
        )
        context.set_default_timeout(PATIENCE_MS)
        tab = Tab(context.new_page(), gateway.url, is_expecting_failures=failures)
        tabs.append((context, tab))
        tab.go(place)
        return tab

    yield open_
    for context, tab in tabs:
        tab.check()
        context.close()


@pytest.fixture
def pictures(request, tmp_path):
    """Where pictures of pages go: LOOPTRAP_PICTURES names a folder for those that readers see."""
    wanted = os.environ.get("LOOPTRAP_PICTURES")
    return Pictures(tmp_path, request.config.rootpath / wanted if wanted else None)
