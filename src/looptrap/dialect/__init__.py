"""What each API says: requests, answers, errors and streams, in one neutral form.

model                Request, Call, Message, ToolCall, ToolResult, Usage, Outcome, Refusal
dialect              Dialect: what a dialect can do, a field for each verb
registry             DIALECTS, ENDINGS (the ends of paths), read(request)
answer               answers in a call's dialect: errors, final messages, nudges, ends of streams
usage_meter          UsageMeter: what a passing answer used

openai_chat          Chat Completions
openai_responses     Responses
openai_completions   legacy Completions, and Embeddings
anthropic            Messages
gemini               generateContent
bedrock              Converse and InvokeModel
mcp                  JSON-RPC tools/call
http                 anything else

content              canonical JSON, flattened text, broken messages: what all dialects read alike
opaque               bodies that are not read: judged by their bytes
path                 paths as a lenient server understands them
header               what clients say in headers: the session, a retry
body                 read_body(body): calls inside a process, recognised by shape
captured             calls as lines of a capture, and the calls that such lines were
descriptor           descriptor(name): what distinguishes calls (caller, model, header:…)
output_limit         the most that a call lets its model write
stream               framing, StreamParser, AnswerReader: a passing answer, event by event
growing_text         one text of an answer as it grows
splice               insertion into JSON that leaves every other byte as it was sent
usage                how counts are found in an answer, and read alike
fake_answer          ModelAnswer: a fake model's turn, before it takes a dialect's form
"""
