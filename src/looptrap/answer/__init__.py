"""What is said and heard in the dialects of the providers, whoever stands in between.

answer       Answer: a whole answer of our own
wording      what clients and models are told, in one place
refuse       refusal, failure: errors in the shape of each dialect
stop         final_message: the last message of a run, one module a dialect
nudge        nudged: one message spliced in at the end of a body
splice       insertion into JSON that leaves every other byte as it was sent

hearing      what a passing answer says, one module a dialect; cut: how its stream is ended
listener     Listener: hears an answer while it passes, and cuts it
bill         Bill: what an answer used
usage        UsageReader: tokens, read from an answer's passing bytes; tokens: how dialects count
"""
