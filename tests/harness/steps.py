"""What runs of all harnesses are made of: words, pages, and steps that come in numbers."""

import pytest

WORDS = (
    "parser lexer token grammar syntax visitor walker emitter linker loader buffer stream socket"
    " thread mutex widget ledger invoice basket coupon courier parcel pallet harbour anchor rudder"
    " compass lantern canvas easel marble pewter saffron thistle walnut yarrow zephyr bramble"
).split()

case = pytest.param


def word(number):
    return WORDS[number % len(WORDS)]


def each(*makers, times):
    """Return the steps that these make, for each number in turn."""
    return [maker(number) for number in range(times) for maker in makers]


def prose(number, length=12):
    """Words that no other number has in this order."""
    return " ".join(word(number * 7 + step * (number % 5 + 1)) for step in range(length))


def source(number, lines=40):
    """Lines of code, others for each number."""
    return "\n".join(
        f"    {word(line)}_{number} = {word(line * 3 + number)}({line * 7919 % 1000})"
        for line in range(lines)
    )


def screen(number):
    """An image as tools return it: the same number, the same picture."""
    url = f"data:image/png;base64,{number * 7919:064x}"
    return [{"type": "image_url", "image_url": {"url": url}}]


def tree(number, changed=""):
    """A large accessibility tree; only what stands in its middle differs."""
    menu = "\n".join(f"  - link '{word(n)} department {n}' [ref=e{n}]" for n in range(150))
    return f"- banner\n{menu}\n- main: {changed or prose(number)}\n{menu}\n- contentinfo"
