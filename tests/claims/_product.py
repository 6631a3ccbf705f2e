"""All that the claims use of the product: the one file here that follows a change of the code's shape."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import skillopt
import skillopt.cli
import skillopt.run as api
from _loopback import (
    Answer,
    Call,
    Logged,
    LoopbackProvider,
    Misbehaviour,
    Quota,
    seeded_latency,
    world_answers,
)
from optimizer._made import aware, made_optimizer
from skillopt import register
from skillopt.agents import agent, driver, source
from skillopt.agents import driver as driver_of
from skillopt.benchmarks import benchmarks
from skillopt.benchmarks.own import OwnBenchmark
from skillopt.benchmarks.world import PLUGIN as WORLD
from skillopt.benchmarks.world import WorldBenchmark, WorldSettings
from skillopt.cli import _run, app
from skillopt.config.load import load
from skillopt.config.roles import resolve_role
from skillopt.errors import (
    BudgetSpent,
    ConfigError,
    Fault,
    Interrupted,
    ModelError,
    ProviderDown,
    RunConflict,
    ScoringError,
    SkillError,
    SkillOptError,
    Stopped,
    TaskError,
    UnusableReplies,
    UsageError,
    UserError,
)
from skillopt.evaluation.compare import compare
from skillopt.evaluation.runner import Evaluator, rows_of
from skillopt.evaluation.runner import PlannedRow as Row
from skillopt.evaluation.stage import Evaluation
from skillopt.events import (
    Arrived,
    Blamed,
    Checkpoint,
    EpochEnded,
    Event,
    Judged,
    Minibatch,
    Notice,
    Proved,
    Reflected,
    RunStarted,
    Sink,
    StageClosed,
    StageOpened,
    TestMeasured,
    Updated,
)
from skillopt.events.state import State
from skillopt.gate.gate import SkillMeasurement as Measured
from skillopt.gate.gate import Verdict
from skillopt.harnesses._own_agent import answered
from skillopt.harnesses.chat import Chat
from skillopt.mcp import SWITCHES, TOOLS
from skillopt.mcp.tools import McpTool
from skillopt.messages import Message, Reply, Request, Tool, Usage, as_plain
from skillopt.models import PROVIDERS
from skillopt.models.handoff.folder import QuestionFolder
from skillopt.models.port import Model, ModelSpec, Provider
from skillopt.models.port import ModelSpec as RoleSpec
from skillopt.models.providers import azure
from skillopt.models.providers.azure import Token
from skillopt.models.reading import Unusable, read
from skillopt.models.stack import hedged
from skillopt.models.stack.hedged import SHARE, Hedged
from skillopt.models.stack.limited import Retry
from skillopt.models.world.rules import FAMILIES, HARMFUL, SEED_SKILL, chance, code_of, family_of, needs_of
from skillopt.money import HEDGE_STAGE, Amount
from skillopt.optimizer import replies
from skillopt.optimizer.epoch import pairs_of
from skillopt.optimizer.reflect import Reflection
from skillopt.process import Finished
from skillopt.programs.port import AgentReport
from skillopt.programs.run import fresh_place
from skillopt.redact import redact_transcript
from skillopt.run import Job, open_run, prepare
from skillopt.run.addresses import asked_by, at_kept, kept_addresses
from skillopt.run.estimation import estimate
from skillopt.run.evaluation import evaluate
from skillopt.runs.database import Database
from skillopt.runs.explain import find
from skillopt.runs.explain import replay as gather
from skillopt.runs.log import DATABASE, EVENTS, read_events
from skillopt.runs.reader import is_run, read_run
from skillopt.runs.status import RunStatus
from skillopt.runs.tail import StoredTexts
from skillopt.skill.document import Document
from skillopt.skill.edits import apply, parse_edit
from skillopt.skill.folder import load_skill
from skillopt.skill.spec import violations
from skillopt.tasks.benchmark import Benchmark
from skillopt.tasks.manifest import read_manifest
from skillopt.tasks.rollout import Invalid, Score, Scored, Trajectory, storable
from skillopt.tasks.scorers.own import CommandScorer
from skillopt.tasks.task import SPLITS, Task
from skillopt.tasks.triggers import load_queries
from skillopt.testing import FunctionModel, WorldRules
from skillopt.trackers.port import TrackerPlugin
from skillopt.train.closing import after_verdict as adopt
from skillopt.train.plan import Plan, cosine
from skillopt.transcripts import Homes, harvest
from skillopt_sleep.proposal import Proposal as NightProposal
from skillopt_sleep.settings import NightSettings, read_settings
from skillopt_sleep.tasks_file import read_tasks

SkillAware, OptimizerSettings, Optimizer = (
    aware,
    dict,
    lambda model, settings: made_optimizer(model, **settings),
)
"""The optimizer takes sections of the configuration; these sort settings by name into them."""


class _TypedTool:
    """A typed tool, whose line of a call was made from what its arguments gave."""

    def __init__(self, tool: McpTool) -> None:
        self.name, self.schema, self.command, self._tool = tool.name, tool.schema, _words_of(tool), tool

    def check(self, given: Mapping[str, Any]) -> None:
        self._tool.read(given, _PROJECT)

    def line(self, given: Mapping[str, Any], project: str) -> list[str]:
        return self._tool.line(self._tool.read(given, _PROJECT))


class Toolbox:
    """All typed tools with what they take."""

    def __init__(self, tree: object) -> None:
        self.arguments = {tool.name: _TypedTool(tool) for tool in TOOLS}

    def specs(self, allow: Collection[str]) -> list[_TypedTool]:
        return list(self.arguments.values())


_PROJECT = Path("/p")


def _words_of(tool: McpTool) -> list[str]:
    return [word for word in tool.command.split() if not word.startswith("-")]
