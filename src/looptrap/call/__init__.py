"""What arrived: the neutral Call, and one reader a dialect.

model                Request, Call, Message, ToolCall, ToolResult, Outcome
read                 read(request): the table of path endings and who reads them
body                 read_body(body): the same for calls inside a process, told by shape
path                 paths as a lenient server understands them
header               what clients say in headers: the session, a retry
captured             calls as lines of a capture, and the calls that such lines were
descriptor           descriptor(name): what tells one call from another (caller, model, header:…)
content              canonical JSON, flattened text, broken messages: what all dialects read alike
openai_chat          Chat Completions
openai_responses     Responses
openai_completions   legacy Completions, and Embeddings
anthropic            Messages
gemini               generateContent
bedrock              Converse and InvokeModel
mcp                  JSON-RPC tools/call
opaque               bodies that are not read: judged by their bytes
http                 anything else
"""
