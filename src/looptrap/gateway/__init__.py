"""The gateway: judges what passes through, and answers what must not.

answer    Answer: what the gateway sends of its own
wording   what clients and models are told, in one place
refuse    refusal, failure: errors in the shape of each dialect
stop      final_message: the last message of a run, one module a dialect
nudge     nudged: one message spliced in at the end of a body
splice    insertion into JSON that leaves every other byte as it was sent
"""
