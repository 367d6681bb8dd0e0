"""What differs from one result to the next without meaning anything: times, ids, addresses."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime, timedelta
from random import Random

LETTERS = "ABCDEFGHJKMNPQRSTUVWXYZabcdefghjkmnpqrstuvwxyz23456789"


class Noise:
    """Draws meaningless values; its clock only goes forward."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.now = datetime(2026, 11, 3, 8, 4, tzinfo=UTC) + timedelta(
            seconds=rng.randrange(900_000)
        )

    def hex(self, length: int = 8) -> str:
        """Return a hexadecimal id, which begins with a digit so that it is known as one."""
        rest = "".join(self.rng.choice("0123456789abcdef") for _ in range(length - 1))
        return f"{self.rng.randrange(1, 10)}{rest}"

    def uuid(self) -> str:
        return "-".join(self.hex(length) for length in (8, 4, 4, 4, 12))

    def word(self, length: int = 24) -> str:
        """Return letters and digits, as in the ids of providers."""
        return "".join(self.rng.choice(LETTERS) for _ in range(length))

    def seconds(self, low: float = 0.2, high: float = 9.0) -> str:
        return f"{self.rng.uniform(low, high):.2f}"

    def pid(self) -> int:
        return self.rng.randrange(2_000, 64_000)

    def address(self) -> str:
        return f"0x7f{self.hex(10)}"

    def stamp(self, passes: float = 11.0) -> str:
        """Return the time after some more seconds."""
        self.now += timedelta(seconds=passes * self.rng.uniform(0.6, 1.5))
        return f"{self.now:%Y-%m-%dT%H:%M:%S}.{self.rng.randrange(1000):03d}Z"

    def clock(self, passes: float = 11.0) -> str:
        return self.stamp(passes)[11:19]


def picture(content: str) -> str:
    """Return a placeholder for the screenshot of some content: equal for equal content."""
    seed = Random(content)
    pixels = bytes(seed.randrange(256) for _ in range(180))
    return b64encode(b"\x89PNG\r\n\x1a\n" + pixels).decode()
