"""A guard as a configuration describes it, for those who have no gateway."""

from __future__ import annotations

import logging

from looptrap.config import Config
from looptrap.config.kind import MEMORY
from looptrap.engine import Guard
from looptrap.money.price import Prices

log = logging.getLogger("looptrap")


def guard_from_config(settings: Config) -> Guard:
    """Return a guard with these settings; what means nothing in one process is logged."""
    for warning in settings.warnings:
        log.warning("%s", warning)
    if settings.store != MEMORY:
        log.warning("store: is not used without a gateway, calls are counted in this process only")
    return Guard(
        settings.policies,
        projects=settings.projects,
        kill_switches=settings.kill_switches,
        tools=settings.tools,
        budgets=settings.budgets,
        prices=Prices(settings.prices, settings.price_fallback),
        session_headers=settings.session_headers,
    )
