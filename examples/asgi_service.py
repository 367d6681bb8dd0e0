"""A service that agents call, behind the middleware: `uvicorn asgi_service:app`, for instance."""

from looptrap.asgi import LoopMiddleware


async def orders(scope, receive, send):
    """Take every order; a service of Starlette, FastAPI or MCP may stand here as well."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": 201, "headers": headers})
    await send({"type": "http.response.body", "body": b"ordered\n"})


app = LoopMiddleware(orders)
