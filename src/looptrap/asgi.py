"""For services that agents call: `app = LoopMiddleware(app)` in front of any ASGI application."""

from looptrap.client.asgi import LoopMiddleware

__all__ = ["LoopMiddleware"]
