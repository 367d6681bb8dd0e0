"""Every parser, by name; one module for each kind of thing that is parsed."""

from fuzz.target import Target
from fuzz.targets import address, answer, call, capture, claim, config, header, store, wire

TARGETS: dict[str, Target] = {
    target.name: target
    for module in (call, answer, wire, header, claim, config, capture, store, address)
    for target in module.TARGETS
}
