"""An agent of the OpenAI Agents SDK. `skillopt train ... --target openai_agent.py:agent`

pip install openai-agents; set OPENAI_API_KEY, and OPENAI_BASE_URL for another server.
"""

import os

from openai import AsyncOpenAI

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled

set_tracing_disabled(True)
model = OpenAIChatCompletionsModel(os.environ.get("AGENT_MODEL", "gpt-5.4-mini"), AsyncOpenAI())


@function_tool
def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


async def agent(task, skill):
    worker = Agent(name="worker", instructions=skill, model=model, tools=[add])
    done = await Runner.run(worker, task.prompt)
    used = done.context_wrapper.usage
    trace = [str(item.raw_item) for item in done.new_items]
    usage = {"input_tokens": used.input_tokens, "output_tokens": used.output_tokens, "calls": used.requests}
    return {"answer": str(done.final_output), "trace": trace, "usage": usage}
