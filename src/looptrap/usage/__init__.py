"""What calls used and cost: counted as they are settled, kept by the minute, asked by dimension.

model     UsageTotals, SessionUsage, and the keys they are kept by. Pure
savings   what a loop costs a call, and what refusals saved. Pure
recorder  UsageRecorder: from settled calls to batches for the writer's thread. Pure
table     rows that add up, rolled up by the hour; UsageQuery asks them
"""
