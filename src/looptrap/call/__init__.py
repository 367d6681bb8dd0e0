"""What arrived: the neutral Call, and one reader a dialect.

model               Request, Call, Message, ToolCall, ToolResult, Outcome
"""
