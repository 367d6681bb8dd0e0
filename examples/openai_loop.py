"""An agent that repeats one question, through the gateway: the refusal ends its run.

Start the gateway with `looptrap serve`, set OPENAI_API_KEY, then run this file.
"""

import os

import openai

client = openai.OpenAI(base_url=os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:4100/v1"))
question = [{"role": "user", "content": "Is the build green? Answer yes or no."}]

for number in range(1, 11):
    try:
        answer = client.chat.completions.create(model="gpt-5.4-mini", messages=question)
    except openai.APIStatusError as error:
        if error.code != "recursive_loop_detected":
            raise  # a limit or failure of the provider
        detail = error.response.json()["detail"]
        print(f"call {number}: refused by {detail['rule']} after {detail['hit_count']} equal calls")
        break
    print(f"call {number}: {answer.choices[0].message.content}")
