"""Is it going in circles? Pure: no I/O, no clock, no randomness.

scope         what must be the same for two calls to count as one more hit
canonical     one spelling for what is the same; mask: without what is volatile
fingerprint   keyed digests of who sends what, under which rule's name
window        the seconds in which hits count
near          prompts that are their predecessor once more
trajectory    the rounds inside one request's history; round: what each did, and what came back
observation   agents that call tools in plain text
likeness      when two texts are almost the same
signals       ways of going in circles that show there, one module each
evidence      what was seen, in names and counts
stand_in      messages of which nothing is left but what the signals ask
"""
