"""Fuzzing: whatever bytes arrive, no parser raises anything but what it documents.

`targets`    what is fuzzed: a function of bytes each, which fails when a law is broken
`mutation`   how good inputs are changed: as JSON where they are some, as bytes otherwise
`growth`     how much longer a function takes on longer input
`engine`     the long run: atheris where it is installed, else mutations at random

`tests/fuzz` gives each target up to 300 inputs in `make test-all` and a quarter of them in
`make test`; `make fuzz` goes on for hours.
"""
