"""Client, gateway and server of MCP: the same tool call is refused before it reaches the server."""

import re
import threading
from contextlib import contextmanager

import uvicorn
from mcp.server.mcpserver import MCPServer
from tests.frameworks.cast import FRAMEWORKS
from tests.frameworks.page import compare
from tests.frameworks.scene import ANSWER, PARTS, PASSED, honest, play, stuck

(MCP,) = [one for one in FRAMEWORKS if one.title == "MCP"]
SETTINGS = re.search(r"```toml\n(.*?)```", MCP.page.read_text("utf-8"), re.DOTALL)[1]
WAYS = {
    "429": SETTINGS,
    "400": f"block_status = 400\n{SETTINGS}",
    "stop": SETTINGS.replace('"block"', '"stop"'),
}


class Announcing(uvicorn.Server):
    """A server that says when it listens."""

    listening = None

    async def startup(self, sockets=None):
        await super().startup(sockets)
        self.listening.set()


@contextmanager
def catalogue():
    """Serve the one tool over streamable HTTP; give the server's URL and the parts asked for."""
    server, asked = MCPServer("catalogue", log_level="WARNING"), []

    @server.tool()
    def find_part(number: int) -> str:
        """Say whether a part is in stock."""
        asked.append(number)
        return "ERROR: the catalogue is offline" if number == 5 else f"part {number}: in stock"

    config = uvicorn.Config(
        server.streamable_http_app(), host="127.0.0.1", port=0, log_level="warning", ws="none"
    )
    serving = Announcing(config)
    serving.listening = threading.Event()
    thread = threading.Thread(target=serving.run, name="mcp-server", daemon=True)
    thread.start()
    try:
        assert serving.listening.wait(20)
        port = serving.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}", asked
    finally:
        serving.should_exit = True
        thread.join(20)


def perform(script, folder, settings):
    with catalogue() as (url, asked):
        toml = settings.replace("http://127.0.0.1:8000", url)
        assert toml != settings
        return play(MCP.command(folder), script, folder, toml=toml), asked


def test_a_stuck_agent_is_stopped_and_its_run_ends_cleanly(tmp_path):
    cells = []
    for way, settings in WAYS.items():
        played, asked = perform(stuck, tmp_path, settings)
        assert (played.status, played.errors) == (0, "")
        assert asked == [5] * PASSED, way
        assert played.refused == MCP.refused[way], way
        assert "identical tool call sent 6 times" in played.last
        cells.append(f"{played.refused}, `{played.last.partition(':')[0]}`")
    link = f"[{MCP.title}](../frameworks/{MCP.page.name})"
    compare(MCP.title, f"| {link} | `{MCP.catches}` | {' | '.join(cells)} |")


def test_an_honest_agent_never_notices(tmp_path):
    played, asked = perform(honest(), tmp_path, SETTINGS)
    assert (played.status, played.errors) == (0, "")
    assert played.last == f"answer: {ANSWER}"
    assert asked == list(PARTS)
    assert (played.refused, played.warned) == (0, 0)
