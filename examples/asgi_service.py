"""A service that agents call, behind the middleware: `uvicorn asgi_service:app`."""

from looptrap.asgi import LoopMiddleware


async def orders(scope, receive, send):
    """Accept every order; use your Starlette, FastAPI or MCP application instead."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": 201, "headers": headers})
    await send({"type": "http.response.body", "body": b"ordered\n"})


app = LoopMiddleware(orders)
