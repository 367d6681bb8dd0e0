"""Looptrap inside a process: for clients of a gateway, and for processes that have none.

session         session: names the run that calls belong to, also in threads and tasks
refusal         the exception for a refusal, from an answer or from an SDK's exception
sdk_mixin       what the clients of all SDKs get from us; openai, anthropic: theirs

guard           guard: a client that is judged in its own process, by its HTTP client
enforcer        Enforcer: judges requests; GuardedCall: one that is sent, and its answer
history         LocalHistory: incidents, kept in SQLite

tool            tool: a function that is not called again in circles
tool_history    the calls and results of one run; tool_text: how they are written
litellm         judges the requests of LiteLLM's proxy

What only one public module needs is in that module: `looptrap.asgi`, `looptrap.langchain`,
`looptrap.langgraph`, `looptrap.litellm`.
"""
