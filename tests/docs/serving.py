"""The gateway as it is installed, in a process of its own, for what the documentation shows."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOOPTRAP = Path(sys.executable).with_name("looptrap")


@contextmanager
def served(upstream: str, folder: Path) -> Iterator[str]:
    """Run `looptrap serve` in front of a provider; give the URL that its banner names."""
    command = [LOOPTRAP, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    with subprocess.Popen(
        [*command, "--upstream", upstream],
        cwd=folder,
        env=clean_environment(),
        stderr=subprocess.PIPE,
        text=True,
    ) as gateway:
        try:
            assert gateway.stderr is not None
            banner = gateway.stderr.readline()
            found = re.search(r"guards (http://\S+)", banner)
            assert found, banner + gateway.stderr.read()
            yield found[1]
        finally:
            gateway.terminate()
            gateway.communicate(timeout=20)


def clean_environment() -> dict[str, str]:
    """Return the environment without what would configure Looptrap or bend its clients."""
    ours = ("LOOPTRAP_", "LOOP_GUARD_", "OPENAI_", "ANTHROPIC_")
    proxies = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(ours) and name.upper() not in proxies
    }
