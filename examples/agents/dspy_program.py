"""A DSPy program whose instructions are the skill. `skillopt train ... --target dspy_program.py:agent`

pip install dspy; set OPENAI_API_KEY, and OPENAI_BASE_URL for another server.
"""

import os

import dspy

lm = dspy.LM(
    f"openai/{os.environ.get('AGENT_MODEL', 'gpt-5.4-mini')}",
    api_base=os.environ.get("OPENAI_BASE_URL"),
    cache=False,  # SkillOpt keeps every rollout itself, and may want several draws of one
)


def agent(task, skill):
    program = dspy.Predict(dspy.Signature("question -> answer", skill))
    with dspy.context(lm=lm, track_usage=True):
        done = program(question=task.prompt)
    used = list(done.get_lm_usage().values())
    usage = {key: sum(one.get(key) or 0 for one in used) for key in ("prompt_tokens", "completion_tokens")}
    return {"answer": done.answer, "usage": usage if used else None}
