"""Agents that look at a screen or a page, and click."""

from tests.detect.runs import Use
from tests.harness.steps import case, each, prose, screen, tree, word


def click(number, result="Clicked."):
    return Use("browser_click", {"element": f"{word(number)} button", "ref": f"e{number}"}, result)


def snapshot(page):
    return Use("browser_snapshot", {}, page)


def computer(action, image, **arguments):
    return Use("computer", {"action": action} | arguments, image)


def scrolls(result="Pressed PageDown."):
    return Use("browser_press_key", {"key": "PageDown"}, result)


QUIET = [
    case(each(lambda n: computer("screenshot", screen(n)), times=20), id="ever new screenshots"),
    case(
        each(
            lambda n: computer("left_click", screen(2 * n), coordinate=[n * 10, 40]),
            lambda n: computer("screenshot", screen(2 * n + 1)),
            times=14,
        ),
        id="click and look",
    ),
    case(
        each(lambda n: computer("scroll", screen(n), direction="down"), times=20),
        id="the same scrolling, ever new screens",
    ),
    case(each(lambda n: snapshot(tree(n)), times=20), id="large pages, almost equal"),
    case(
        each(lambda n: scrolls(), lambda n: snapshot(tree(n)), times=14),
        id="the same key and a nod, then another part of the page",
    ),
    case(
        each(
            lambda n: Use(
                "browser_click",
                {"element": "Next page", "ref": "e9"},
                tree(n, f"Next page {prose(n)}"),
            ),
            times=20,
        ),
        id="the next page, by the same click",
    ),
    case([scrolls()] * 12, id="twelve times page down"),
    case(
        each(lambda n: Use("browser_type", {"ref": f"e{n}", "text": word(n)}, "Typed."), times=20),
        id="a long form filled in",
    ),
    case(
        [*[computer("wait", screen(1), duration=2)] * 6, computer("screenshot", screen(2))],
        id="waiting for a page to load",
    ),
]

HONEST = [
    case(
        each(click, lambda n: snapshot(tree(1)), times=7),
        id="seven buttons tried, the page stays",
    ),
    case(
        [*[click(1, "Error: element is not visible")] * 4, snapshot(tree(1)), click(2)],
        id="four clicks on what is not visible yet",
    ),
]

LOOPS = [
    case(
        [computer("left_click", screen(1), coordinate=[10, 40])] * 12,
        6,
        id="the same click, the screen stays",
    ),
    case([click(1), snapshot(tree(1))] * 10, 8, id="the same click, the page stays"),
    case([computer("screenshot", screen(1))] * 12, 6, id="the same screenshot over and over"),
    case([click(1, "Error: element not found")] * 12, 6, id="a button that is not there"),
    case(
        each(lambda n: click(n, f"Error: no element matches ref e{n}"), times=20),
        9,
        id="buttons that are not there",
    ),
    case([scrolls()] * 60, 30, id="page down without end"),
    case([Use("scroll_down", {}, tree(1))] * 12, 6, id="scrolling at the end of a page"),
]
