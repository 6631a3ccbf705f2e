"""A LangGraph agent with a tool. `skillopt train ... --target langgraph_agent.py:agent`

pip install langgraph langchain-openai; set OPENAI_API_KEY, and OPENAI_BASE_URL for another server.
"""

import os

from langchain_core.messages import convert_to_openai_messages
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition


def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


model = ChatOpenAI(model=os.environ.get("AGENT_MODEL", "gpt-5.4-mini")).bind_tools([add])


async def think(state):
    return {"messages": [await model.ainvoke(state["messages"])]}


graph = StateGraph(MessagesState).add_node("think", think).add_node("tools", ToolNode([add]))
graph.add_edge(START, "think")
graph.add_conditional_edges("think", tools_condition, {"tools": "tools", END: END})
graph.add_edge("tools", "think")
app = graph.compile()


async def agent(task, skill):
    done = await app.ainvoke({"messages": [("system", skill), ("user", task.prompt)]})
    said = done["messages"]
    used = [one.usage_metadata for one in said if getattr(one, "usage_metadata", None)]
    usage = {key: sum(one[key] for one in used) for key in ("input_tokens", "output_tokens")}
    return {"answer": said[-1].text, "trace": convert_to_openai_messages(said), "usage": usage}
