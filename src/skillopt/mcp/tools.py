"""The tools: what each of them takes, all of it typed, and the command or function that answers it.

A tool takes its arguments and nothing else: no free options, no addresses, no programs, no models by name.
Which models train, and where keys go, stands in a config of the project, which is the person's.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from skillopt.config.files import packaged_configs
from skillopt.errors import UsageError, suggest
from skillopt.mcp.arguments import (
    LONGEST,
    UNSET,
    AdoptArguments,
    Arguments,
    ConfiguredArguments,
    DiffArguments,
    DryRunArguments,
    EstimateArguments,
    EvaluateArguments,
    HarvestArguments,
    RunNightArguments,
    RunsArguments,
    ScheduleArguments,
    TrainArguments,
    UndoArguments,
)
from skillopt.mcp.place import Denied
from skillopt.mcp.resources import run_rows


@dataclass(frozen=True, slots=True)
class McpTool:
    """A tool, and the command that a call becomes; `answer` stands for one that needs no process."""

    name: str
    says: str
    takes: type[Arguments] = Arguments
    command: str = ""
    answer: Callable[[Any, Path], Any] | None = None
    switch: str = ""
    """The word of `--allow` that a person has to say before this tool exists."""
    reads_only: bool = False
    """True if nothing is changed; never said where a config is loaded, whose scorer may be a program."""
    is_long: bool = False
    """True if it calls models."""
    persons: tuple[str, ...] = ()
    """Options of the command that stay the person's, as they are written there but for the dashes."""

    @property
    def schema(self) -> dict[str, Any]:
        """The input schema, without what says nothing to a model."""
        schema = self.takes.model_json_schema()
        for one in schema["properties"].values():
            one.pop("title")
            if one.get("default", UNSET) is UNSET:
                one.pop("default", None)
        return {
            key: schema[key]
            for key in ("type", "properties", "required", "additionalProperties")
            if key in schema
        }

    def read(self, given: Mapping[str, Any], project: Path) -> Arguments:
        """The arguments of a call. Raises `Denied` for what is a person's to say, and `UsageError` where an
        argument is unknown, missing or of another kind.
        """
        self._check_names(given)
        try:
            return self.takes.model_validate(
                {name: value for name, value in given.items() if value is not None}, context=project
            )
        except ValidationError as error:
            faults = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
            raise UsageError(f"{'; '.join(faults)[:LONGEST]}.") from error

    def line(self, arguments: Arguments) -> list[str]:
        """The command line of a call: a word for each option with its value, so that no value can be read as
        an option.
        """
        words, places = self.command.split(), list[str]()
        for name, value in arguments.model_dump(exclude_unset=True, exclude={"project"}).items():
            if name == "proposal":
                places = ["--", value]
            elif name == "restart":
                words += ["--restart"] if value else []
            else:
                each = value if isinstance(value, list) else [value]
                words += [f"--{name}={str(one).lower() if isinstance(one, bool) else one}" for one in each]
        return [*words, *places]

    def _check_names(self, given: Mapping[str, Any]) -> None:
        unknown = [name for name in given if name not in self.takes.model_fields]
        refused = {name: option for name in unknown if (option := self._persons_option(name, given[name]))}
        if refused:
            config = [shlex.quote(str(given["config"])[:200])] if "config" in given else ["CONFIG"]
            words = [word for word in self.command.split() if not word.startswith("-")]
            words += config if issubclass(self.takes, ConfiguredArguments) else []
            raise Denied(
                f"{self.name} does not take {', '.join(refused)}: that is a person's to say, by"
                f" `{' '.join(['skillopt', *words, *refused.values()])}`."
            )
        if unknown:
            name = unknown[0][:200]
            raise UsageError(f"There is no argument {name!r}. {suggest(name, self.takes.model_fields)}")

    def _persons_option(self, name: str, value: Any) -> str:
        """How a person says on the command line what an agent may not; empty where there is no such thing."""
        if option := next((one for one in self.persons if one.split()[0] == name), ""):
            return f"--{option.replace('_', '-')}"
        if not issubclass(self.takes, ConfiguredArguments) or len(name) > 200:
            return ""
        if name in ("cfg_options", "extra_args"):
            keys = (
                [one.partition("=")[0].strip() for one in value if isinstance(one, str)]
                if isinstance(value, list)
                else []
            )
            return " ".join(f"-o {shlex.quote(key[:200])}=VALUE" for key in keys or ["KEY"])
        from skillopt.config.keys import flag_leaf, flag_names

        if name not in flag_names() and flag_leaf(name) is None:
            return ""
        return f"-o {name}=VALUE" if "." in name else f"--{name} VALUE"


_NIGHT = tuple(f"{name} MODEL" for name in ("model", "target", "optimizer", "judge", "reader"))
_ASKED = "Only when the person asked for exactly this."
TOOLS: tuple[McpTool, ...] = (
    McpTool(
        "sleep_status",
        "Say how the nights of the project ended, where every proposal stands, and what is scheduled.",
        command="sleep status --json",
        reads_only=True,
    ),
    McpTool(
        "sleep_harvest",
        "Read the sessions of the person's agents and say what was read, kept and dropped. Nothing is written"
        " or sent.",
        takes=HarvestArguments,
        command="sleep harvest --json",
        reads_only=True,
        persons=("since TIME", "output FILE"),
    ),
    McpTool(
        "sleep_dry_run",
        "Harvest and mine, and say what a night would work on and cost. Nothing is written or sent.",
        takes=DryRunArguments,
        command="sleep dry-run --json",
        reads_only=True,
        persons=(*_NIGHT, "preferences TEXT"),
    ),
    McpTool(
        "sleep_run",
        "Run a night: harvest, mine, train behind the gate, stage a proposal. The same call goes on with a"
        " night that was stopped. Adopting is the person's decision: show them sleep_diff.",
        takes=RunNightArguments,
        command="sleep run --json --plain",
        is_long=True,
        persons=(*_NIGHT, "preferences TEXT", "reviewed", "log FILE"),
    ),
    McpTool(
        "sleep_diff",
        "Show what adopting would change, and what of it is flagged.",
        takes=DiffArguments,
        command="sleep diff",
        reads_only=True,
    ),
    McpTool(
        "sleep_adopt",
        "Write the changes of a proposal to the live files: what held-out tasks show to help and is not"
        f" flagged. The person takes any other by its number. {_ASKED}",
        takes=AdoptArguments,
        command="sleep adopt --json",
        switch="adopt",
        persons=("edit N", "yes"),
    ),
    McpTool(
        "sleep_undo",
        f"Take the last adoption back, byte for byte. {_ASKED}",
        takes=UndoArguments,
        command="sleep undo --json",
        switch="undo",
        persons=("force",),
    ),
    McpTool(
        "sleep_schedule",
        "Run a night of this project every night, with exactly the options given here. Nothing is adopted by"
        " it.",
        takes=ScheduleArguments,
        command="sleep schedule",
        switch="schedule",
        persons=(*_NIGHT, "preferences TEXT", "scheduler NAME"),
    ),
    McpTool(
        "sleep_unschedule",
        "Take the schedule of this project out again; nobody else's entry is touched.",
        command="sleep unschedule",
        switch="schedule",
        persons=("all",),
    ),
    McpTool(
        "skillopt_train",
        "Train a skill. The same call goes on where it stopped. Ask skillopt_estimate first what it will"
        " cost, and set a budget.",
        takes=TrainArguments,
        command="train --json --plain",
        is_long=True,
        persons=("force", "target MODEL", "optimizer MODEL", "from RUN", "effort NAME", "same_model"),
    ),
    McpTool(
        "skillopt_eval",
        "Measure skills, alone or in pairs. Nothing is paid twice in one folder.",
        takes=EvaluateArguments,
        command="eval --json --plain",
        is_long=True,
        persons=("force", "target MODEL", "same_model"),
    ),
    McpTool(
        "skillopt_estimate",
        "Say what a run will take in calls, tokens and dollars, before anything is sent.",
        takes=EstimateArguments,
        command="estimate --json",
        persons=(
            "force",
            "target MODEL",
            "optimizer MODEL",
            "measure",
            "noise",
            "draws N",
            "gain SHARE",
            "skill PATH",
            "effort NAME",
        ),
    ),
    McpTool(
        "skillopt_runs",
        "List runs, the newest first: scores, spending, where they stand.",
        takes=RunsArguments,
        answer=lambda given, project: {"runs": run_rows(project, given.folders)},
        reads_only=True,
    ),
    McpTool(
        "skillopt_list_configs",
        "List the packaged configs, by the name that the other tools take as config.",
        answer=lambda given, project: {"configs": packaged_configs()},
        reads_only=True,
    ),
)
SWITCHES: Mapping[str, tuple[str, ...]] = {
    switch: tuple(tool.name for tool in TOOLS if tool.switch == switch)
    for switch in dict.fromkeys(tool.switch for tool in TOOLS if tool.switch)
}
"""What `--allow` takes, and the tools that exist only then."""
