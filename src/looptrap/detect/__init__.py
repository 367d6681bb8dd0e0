"""Detects loops. Pure: no I/O, no clock, no randomness.

scope             what two calls must share to count as equal; windows
canonical         one spelling for equal texts, with volatile tokens masked
near              prompts that repeat an earlier prompt with words added around it
fingerprint       keyed digests of caller, content and rule name
trajectory        the rounds inside one request's history; round: one turn with its results
remembered_round  a round of an earlier request, of which only digests are left
opening           what stands before the first round: a summary of an earlier part?
merged_turn       rounds that a framework wrote into one message; text_history: into a prompt
harness           messages of the program around an agent; harness_text: their forms; courtesy
harness_note      what that program adds to results
call_spelling     one spelling for calls that mean the same
summary           how a message says that it stands for an earlier part of the conversation
call_kind         what a tool call does: change, add, poll, step; failure: whether it failed
similarity        whether two texts are almost equal
signals           loop patterns in a history or an answer
redacted_message  messages reduced to digests and what the signals need
strip             rounds as cells in a row, for people
"""
