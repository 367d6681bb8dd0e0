"""An agent that repeats one question, through the gateway: the refusal ends its run.

Start the gateway with `looptrap serve`, set ANTHROPIC_API_KEY, then run this file.
"""

import os

import anthropic

client = anthropic.Anthropic(
    base_url=os.environ.get("ANTHROPIC_BASE_URL", "http://127.0.0.1:4100"),
    default_headers={"X-Looptrap-Session": "nightly-build"},  # calls of this run count together
)
question = [{"role": "user", "content": "Is the build green? Answer yes or no."}]

for number in range(1, 11):
    try:
        answer = client.messages.create(model="claude-haiku-4-5", max_tokens=100, messages=question)
    except anthropic.APIStatusError as error:
        detail = error.response.json().get("detail", {})
        if detail.get("error") != "recursive_loop_detected":
            raise  # a limit or failure of the provider
        print(f"call {number}: refused by {detail['rule']} after {detail['hit_count']} equal calls")
        break
    print(f"call {number}: {answer.content[0].text}")
