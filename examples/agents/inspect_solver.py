"""A solver of Inspect, as a program. `skillopt train ... --target "cmd: python3 inspect_solver.py"`

pip install inspect-ai openai; set OPENAI_API_KEY, and OPENAI_BASE_URL for another server. Inspect runs one
evaluation at a time in a process, so each task has a process of its own.
"""

import json
import os
import sys

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.solver import chain, generate, self_critique, system_message


def solver(skill):
    steps = [system_message(skill.replace("{", "{{").replace("}", "}}")), generate()]
    return chain(*steps, self_critique()) if os.environ.get("CRITIQUE") else chain(*steps)


asked = json.load(sys.stdin)
work = Task(dataset=[Sample(input=asked["task"]["prompt"])], solver=solver(asked["skill"]))
model = f"openai/{os.environ.get('AGENT_MODEL', 'gpt-5.4-mini')}"
(log,) = eval(work, model=model, display="plain", log_dir=asked["workspace"] + "/.inspect", score=False)
if log.status != "success" or not log.samples or log.samples[0].error:
    sys.exit(str(log.error or log.samples[0].error))
(sample,) = log.samples
used = list(log.stats.model_usage.values())
usage = {key: sum(getattr(one, key) for one in used) for key in ("input_tokens", "output_tokens")}
trace = [{"role": each.role, "content": each.text} for each in sample.messages]
print(json.dumps({"answer": sample.output.completion, "trace": trace, "usage": usage}))
