"""The same protection inside a process, without a gateway: ask before every call."""

from looptrap import Guard, LoopDetectedError

guard = Guard.from_preset("default")


def ask_model(request: dict[str, object]) -> str:
    """Stand in for an SDK; this one never says anything new."""
    return f"{request['model']} says: try again."


request = {
    "model": "gpt-5.4-mini",
    "messages": [{"role": "user", "content": "Is the build green? Answer yes or no."}],
}

for number in range(1, 11):
    try:
        guard.check(request, caller="nightly-build")
    except LoopDetectedError as refusal:
        print(f"call {number}: refused by {refusal.rule} after {refusal.hit_count} equal calls")
        break
    print(f"call {number}: {ask_model(request)}")
