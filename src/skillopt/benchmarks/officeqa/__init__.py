"""OfficeQA: questions about U.S. Treasury Bulletins, answered by searching the documents that belong to each.

A row: `{"uid": "UID0001", "question": "...", "answer": "507.3", "difficulty": "easy", "source_files":
"treasury_bulletin_1941_01.txt", "source_docs":
"https://fraser.stlouisfed.org/title/treasury-bulletin-407/january-1941-6529?page=15"}`; `id`, `ground_truth`
and `category` are second names. The documents lie in `env.data_dirs` (unset: the folder that
`OFFICEQA_DOCS_DIR` names).
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import Field

from skillopt.benchmarks.officeqa._environment import DocumentTools, Library
from skillopt.benchmarks.officeqa._load import OfficeQALoader
from skillopt.benchmarks.officeqa._score import TOLERANCE, OfficeAnswer
from skillopt.errors import ConfigError
from skillopt.files import expand_home
from skillopt.tasks.benchmark import AGENT_PROMPT, Environment
from skillopt.tasks.data import (
    CommonSettings,
    QuestionBenchmark,
    TaskLoader,
    load_splits,
    package_text,
    published_defaults,
)
from skillopt.tasks.task import Task

_text = partial(package_text, folder="officeqa")


class OfficeQASettings(CommonSettings):
    """The `env.*` keys of OfficeQA."""

    usual = Path("data/officeqa_split")

    data_dirs: list[str] = Field(default_factory=list)
    """Folders with the documents; unset is the one that OFFICEQA_DOCS_DIR names."""
    search_mode: Literal["offline"] = "offline"
    """Where evidence comes from: the documents, never the network."""
    use_local_tools: bool = True
    """Let the target list, read and search the documents; off is one reply."""
    max_tool_turns: int = Field(default=24, ge=1)
    """Replies of the target; one that needs more has failed."""
    oracle_pages: bool = True
    """Show the pages that a row's source_docs name, where parsed documents are in jsons/."""
    tolerance: float = Field(default=TOLERANCE, ge=0)
    """Relative error of an amount that still counts as right."""


class OfficeQA(QuestionBenchmark):
    """Questions with their documents."""

    name = "officeqa"
    Settings = OfficeQASettings
    defaults = published_defaults(workers=4)
    has_environment = True
    offers_documents = True

    def __init__(self, settings: OfficeQASettings) -> None:
        named = settings.data_dirs or [os.environ.get("OFFICEQA_DOCS_DIR", "")]
        if not any(named):
            raise ConfigError(
                "OfficeQA needs the folder with its documents: env.data_dirs, or OFFICEQA_DOCS_DIR."
            )
        tools = settings.use_local_tools
        loader = OfficeQALoader(
            Library([expand_home(one) for one in named]),
            _text("task.md"),
            shows_pages=settings.oracle_pages,
            shows_documents=tools,
        )
        scorer = OfficeAnswer(tolerance=settings.tolerance)
        super().__init__(
            splits=load_splits(settings, TaskLoader(loader.task, scorer.check_task)),
            scorer=scorer,
            system=_text("system_tools.md" if tools else "system.md"),
            prompts={AGENT_PROMPT: _text("system_agent.md")} if tools else {},
            seed_skill=_text("skill.md"),
        )
        self._settings = settings

    @classmethod
    def harness(cls, settings: OfficeQASettings) -> str:
        """Documents are searched by tool calls."""
        return "tool_loop" if settings.use_local_tools else "chat"

    def open(self, task: Task) -> Environment | None:
        """The tools over this task's documents, or these themselves for an agent with tools."""
        tools, turns = self._settings.use_local_tools, self._settings.max_tool_turns
        return DocumentTools(task.files, turns) if tools else None


PLUGIN = OfficeQA
