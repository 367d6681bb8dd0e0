"""On PYTHONPATH, this module reports the number of asyncio tasks of a process.

At SIGUSR2 it writes their number to a file named after its pid, in the folder LOOPTRAP_INSIDE.
"""

import asyncio
import gc
import os
import signal
from pathlib import Path


def _tell(_number: int, _frame: object) -> None:
    tasks = [one for one in gc.get_objects() if isinstance(one, asyncio.Task) and not one.done()]
    file = Path(os.environ["LOOPTRAP_INSIDE"]) / str(os.getpid())
    file.with_suffix(".new").write_text(str(len(tasks)))
    file.with_suffix(".new").replace(file)


if "LOOPTRAP_INSIDE" in os.environ:
    signal.signal(signal.SIGUSR2, _tell)
