"""Which commands are tools, which settings an agent may choose, and which tools a person switches on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, NamedTuple

from skillopt.mcp.schema import Arguments, CommandTree, arguments_of, find_command, first_paragraph

_TASKS = ("env", "data_path", "split_dir", "skill_init", "out_root", "budget", "limit", "workers", "seed")
_TRAINING = ("num_epochs", "batch_size", "edit_budget", "use_gate", "gate_metric", "eval_test")
_MODELS = ("optimizer_model", "target_model", "backend")
_SESSIONS = ("scope", "source", "lookback_hours", "max_sessions")
_NIGHT = (
    *(*_SESSIONS, "max_tasks", "model", "target", "optimizer", "backend"),
    *("max_tokens", "max_dollars", "max_minutes", "edit_budget", "preferences", "target_skill_path"),
)
_CONFIG = ("config", "cfg_options")
_MEASURED = ("skill", "target", "against", "split", "repeats", "run")
_PROPOSAL = ("proposal", "skill", "edit")
_ASKED = "Only when the person asked for exactly this."
_REST = "Any other setting goes into cfg_options as key=value."


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandTool:
    """A command as a tool.

    It takes the options named in `takes` and no others: an option that is new on the command line is not a
    model's before somebody decided so (`tests/mcp_server/test_tools.py` lists the others), and a client sends
    every schema to its model.
    """

    name: str
    runs: tuple[str, ...] = ()
    """The words of its command, where they are not those of its name."""
    takes: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    """What the tool always says, instead of an argument."""
    more: str = ""
    """What an agent should know beyond the command's help."""
    says: str = ""
    """What it does, where it is less than the command."""
    switch: str | None = None
    """The word of `--allow` that a person has to say before this tool exists."""
    reads_only: bool = False
    """Whether nothing is changed; never said where a config is loaded, whose scorer may be a program."""
    calls_models: bool = False
    is_long: bool = False
    part: str | None = None
    """The part of the command's JSON object that is the result."""
    statuses: Mapping[int, str] = field(default_factory=dict)
    """Exit codes by which this command reports a finding, not a failure."""

    @property
    def command(self) -> tuple[str, ...]:
        """The words of its command: `sleep_dry_run` is `sleep dry-run`, `skillopt_train` is `train`."""
        group, _, word = self.name.partition("_")
        return self.runs or (("sleep", word.replace("_", "-")) if group == "sleep" else (word,))


TOOLS: tuple[CommandTool, ...] = (
    CommandTool(name="sleep_status", reads_only=True),
    CommandTool(
        name="sleep_proposals",
        runs=("sleep", "status"),
        part="proposals",
        reads_only=True,
        says=(
            "List the proposals of past nights: which wait for the person's decision, for which skills, and"
            " how the files stand."
        ),
    ),
    CommandTool(
        name="sleep_harvest",
        takes=("since", *_SESSIONS),
        reads_only=True,
        says=(
            "Read the sessions of the person's agents and say what was read, kept and dropped. Nothing is"
            " written or sent."
        ),
    ),
    CommandTool(name="sleep_dry_run", takes=("tasks_file", *_NIGHT), reads_only=True),
    CommandTool(
        name="sleep_run",
        takes=("tasks_file", "restart", *_NIGHT),
        calls_models=True,
        is_long=True,
        more="Adopting what it proposes is the person's decision: show them sleep_diff.",
    ),
    CommandTool(name="sleep_diff", takes=_PROPOSAL, reads_only=True),
    CommandTool(name="sleep_adopt", takes=_PROPOSAL, switch="adopt", more=_ASKED),
    CommandTool(name="sleep_discard", takes=_PROPOSAL, switch="adopt", more=_ASKED),
    CommandTool(name="sleep_undo", takes=("proposal", "force"), switch="undo", more=_ASKED),
    CommandTool(name="sleep_schedule", takes=("hour", "minute", "scheduler", *_NIGHT), switch="schedule"),
    CommandTool(name="sleep_unschedule", switch="schedule"),
    CommandTool(
        name="skillopt_train",
        takes=(*_CONFIG, *_MODELS, *_TASKS, *_TRAINING),
        calls_models=True,
        is_long=True,
        more=f"Ask skillopt_estimate first what it will cost, and set a budget. {_REST}",
    ),
    CommandTool(
        name="skillopt_eval",
        takes=(*_CONFIG, *_MEASURED, *(name for name in _TASKS if name != "skill_init")),
        calls_models=True,
        is_long=True,
        more=_REST,
    ),
    CommandTool(
        name="skillopt_estimate",
        takes=(*_CONFIG, "target_reply", "optimizer_reply", *_MODELS, *_TASKS, *_TRAINING),
        more=_REST,
    ),
    CommandTool(
        name="skillopt_noise",
        takes=(*_CONFIG, "skill", "draws", "gain", "target_model", "backend", *_TASKS),
        calls_models=True,
        is_long=True,
        more=_REST,
    ),
    CommandTool(
        name="skillopt_doctor",
        takes=(*_CONFIG, "no_calls", *_MODELS, "env", "data_path", "split_dir", "skill_init"),
        calls_models=True,
        statuses={2: "needs_fixing", 3: "needs_fixing"},
        more=_REST,
    ),
    CommandTool(name="skillopt_runs", runs=("runs", "list"), takes=("folders", "compare"), reads_only=True),
    CommandTool(
        name="skillopt_explain",
        runs=("runs", "explain"),
        takes=("run", "step"),
        reads_only=True,
        statuses={1: "differs"},
    ),
    CommandTool(name="skillopt_diff", runs=("runs", "diff"), takes=("a", "b"), reads_only=True),
    CommandTool(
        name="skillopt_list_configs",
        runs=("config", "list"),
        fixed=("configs",),
        reads_only=True,
        says=(
            "List the packaged configs, by the name that skillopt_train, skillopt_eval and skillopt_estimate"
            " take as config."
        ),
        part="configs",
    ),
)
SWITCHES: Mapping[str, tuple[str, ...]] = {
    switch: tuple(tool.name for tool in TOOLS if tool.switch == switch)
    for switch in dict.fromkeys(tool.switch for tool in TOOLS if tool.switch is not None)
}
"""What `--allow` takes, and the tools that exist only then."""


class ToolSpec(NamedTuple):
    """What a client is told of a tool."""

    name: str
    description: str
    schema: dict[str, Any]


def offered(allow: Collection[str]) -> list[CommandTool]:
    """The tools that exist with these switches on."""
    return [tool for tool in TOOLS if tool.switch is None or tool.switch in allow]


class Toolbox:
    """All tools with what they take, read off the command tree when first asked for; needs no MCP package."""

    def __init__(self, tree: CommandTree) -> None:
        self._tree = cache(tree)

    @cached_property
    def arguments(self) -> Mapping[str, Arguments]:
        """What every tool takes, by the tool's name."""
        return {tool.name: arguments_of(self._tree, tool.command, tool.takes) for tool in TOOLS}

    def specs(self, allow: Collection[str] = ()) -> list[ToolSpec]:
        """The tools a client sees, with the switches of `allow` on."""
        return [
            ToolSpec(tool.name, tool.says or self._helped(tool), self.arguments[tool.name].schema())
            for tool in offered(allow)
        ]

    def _helped(self, tool: CommandTool) -> str:
        helped = first_paragraph(find_command(self._tree, tool.command))
        return f"{helped} {tool.more}".rstrip()
