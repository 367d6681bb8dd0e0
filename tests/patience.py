"""How long tests wait for what has to happen."""

PATIENCE = 60.0
"""Seconds before a test gives something up: only one that fails, on however busy a machine."""

STORE_TIMEOUT = 5.0
"""Seconds that a shared store may take where a test is not about one that is away."""
