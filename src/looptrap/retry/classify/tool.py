"""Tools that fail: the model hears of it and plans anew, nothing waits."""

from __future__ import annotations

from looptrap.retry.failure import Failure


def classify_tool(exit_code: int | None = None, status: int | None = None) -> Failure | None:
    """Return the failure of a tool by its exit code or HTTP status; None where neither is one."""
    if exit_code:
        # Shells and `subprocess` tell a signal by a negative code.
        reason = f"exit_{exit_code}" if exit_code > 0 else f"signal_{-exit_code}"
        return Failure("tool", reason, f"the tool ended with exit code {exit_code}")
    if status is not None and status >= 400:
        return Failure("tool", f"http_{status}", f"the tool answered with status {status}")
    return None
