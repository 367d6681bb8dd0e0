"""What went wrong with a delivery, and what that means for the next one."""

from __future__ import annotations


class DeliveryError(Exception):
    """An event did not get through. Its text is fit for logs: nothing of a URL's path or query."""

    def __init__(
        self, reason: str, *, retry_after: float | None = None, is_final: bool = False
    ) -> None:
        """With `is_final` the receiver wants no more of it; `retry_after` is its own wish."""
        super().__init__(reason)
        self.reason = reason
        self.retry_after = retry_after
        self.is_final = is_final
