"""The same protection inside a process, without a gateway: one line around the client.

Set OPENAI_API_KEY, then run this file.
"""

import openai

import looptrap

client = looptrap.guard(openai.OpenAI())
question = [{"role": "user", "content": "Is the door closed? Answer yes or no."}]

with looptrap.session("nightly-build"):  # calls of this run count together
    for number in range(1, 11):
        try:
            answer = client.chat.completions.create(model="gpt-5.4-mini", messages=question)
        except looptrap.LoopDetectedError as refusal:
            print(f"call {number}: refused by {refusal.rule} after {refusal.hit_count} equal calls")
            break
        print(f"call {number}: {answer.choices[0].message.content}")
