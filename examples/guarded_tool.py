"""A tool function that is refused when it is called in a loop, without a gateway or a model."""

import logging
import sys

import looptrap

logging.basicConfig(stream=sys.stdout, format="%(message)s")  # where warnings go


@looptrap.tool
def find_part(number: int) -> str:
    """Search and find nothing, as a real tool might."""
    return f"part {number} is on no shelf"


with looptrap.session("run-42"):
    for call, number in enumerate([5, 5, 5, 5, 5, 6], 1):
        try:
            result = find_part(number)
        except looptrap.LoopDetectedError as refusal:
            result = str(refusal)  # what the model gets in place of a result
        print(f"call {call}: {result}")
