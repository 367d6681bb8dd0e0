"""Tests of what is installed elsewhere are left out, unless that is chosen."""

from tests.frameworks.cast import CHOSEN, HERE


def pytest_collection_modifyitems(config, items):
    """Keep the tests whose environment, by their mark `env`, is one of the chosen."""
    kept, left_out = [], []
    for item in items:
        mark = item.get_closest_marker("env")
        is_ours = mark is None or mark.args[0] in CHOSEN or mark.args[0] == HERE
        (kept if is_ours else left_out).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept
