"""How many examples a property test is tried with: a quarter by default, all in `make test-all`."""

import os

from hypothesis import HealthCheck, settings

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "fast")
SHARE = {"fast": 0.25, "full": 1.0}[PROFILE]
USUAL = 60


def examples(number: int) -> int:
    """Return how many of `number` examples this run tries."""
    return max(1, round(number * SHARE))


def load_profile() -> None:
    """Try the same examples in every fast run and in CI, and others in every other full run."""
    settings.register_profile(
        PROFILE,
        deadline=None,
        max_examples=examples(USUAL),
        derandomize=PROFILE == "fast" or "CI" in os.environ,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile(PROFILE)
