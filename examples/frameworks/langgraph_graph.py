"""A small agent as a graph of LangGraph; a refusal of the gateway is its last message."""

from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from looptrap.langgraph import ending


def find_part(number: int) -> str:
    """Say whether a part is in stock."""
    return "ERROR: the catalogue is offline" if number == 5 else f"part {number}: in stock"


llm = ChatOpenAI(model="gpt-5.4-mini").bind_tools([find_part])  # OPENAI_BASE_URL is the gateway


@ending
def model(state: MessagesState) -> dict:
    return {"messages": [llm.invoke(state["messages"])]}


graph = StateGraph(MessagesState)
graph.add_node("model", model)
graph.add_node("tools", ToolNode([find_part]))
graph.add_edge(START, "model")
graph.add_conditional_edges("model", tools_condition)
graph.add_edge("tools", "model")

result = graph.compile().invoke({"messages": [("user", "Are all parts in stock?")]})
last = result["messages"][-1]
refused = last.response_metadata.get("looptrap")
print(f"{'stopped' if refused else 'answer'}: {last.text}")
