"""Looptrap where agents live: in clients of a gateway, and in processes that have none.

session     session: names the run that calls belong to, in threads and tasks too
refusal     what a refused client was told, as an exception; caught: what frameworks made of it
door        what the vendors' clients get of ours, whatever the vendor
openai      OpenAI's clients and exceptions, with ours in them; anthropic: Anthropic's

guard       guard: a client that is judged in its own process
configured  guard_of: a guard as a configuration describes it
keeper      Keeper: judges what a client is about to send
passage     Passage: one call that was let through, and its answer
http        the HTTP client that stands between an SDK and its own
journal     Journal: what is kept of incidents, in SQLite

tool        tool: a function that is not called again in circles; toolbox, trail: how that is told
text        what goes into a tool and comes out, as a history has it; handed: what does not count
asgi        the middleware of a service that agents call; inbound, outbound: what it gets and says
langchain   agents of LangChain that end where they are refused; langgraph: graphs; last_word: how
litellm     the judgement of LiteLLM's proxy; litellm_hook: how it asks
"""
