"""Your own tasks: a JSONL, JSON or CSV file, a prompt template and a scorer, without code - or tasks and a
function from Python.

A row: `{"id": "7", "question": "What is 6 * 7?", "answer": "42"}`. Any further field can be used in the
template and by the scorer.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from pydantic import Field

from skillopt.errors import ConfigError, TaskError, suggest
from skillopt.files import as_usage_error, read_text
from skillopt.tasks.benchmark import OPTIMIZER_STAGES
from skillopt.tasks.data import CommonSettings, QuestionBenchmark, TaskLoader, load_splits, package_text
from skillopt.tasks.rows import DataRow
from skillopt.tasks.scorers import Scorer, ScorerSpec, as_text, get_scorer
from skillopt.tasks.splits import Splits, canonical_split, field_split, names_splits, parse_ratio, ratio_split
from skillopt.tasks.task import Split, Task
from skillopt.tasks.template import fill, placeholders

PROMPT_FIELDS = ("prompt", "question", "input", "task")
REFERENCE_FIELDS = ("reference", "answer", "answers", "expected", "expected_output")
DRAFTED_BY = "drafted_by"
"""The field of a row that a model drafted and that no person has kept yet."""
_DIVIDES = {"split_mode", "split_ratio", "limit"}
"""Settings that say how tasks are divided."""
_TEXT_FILES = (".md", ".txt")
_MEMORY = Path("tasks given from Python")
"""Stands for a file in messages about rows that came from none; their line is their place in the list."""


Rows: TypeAlias = Iterable[Task | Mapping[str, Any]]
GivenTasks: TypeAlias = Rows | Mapping[str, Rows]
"""Tasks from Python: one list, or one for each split."""


class OwnSettings(CommonSettings):
    """The `env.*` keys of your own tasks."""

    split_ratio: str = "2:2:1"
    """Weights of train, val and test under split_mode 'ratio'."""
    split_field: str | None = None
    """The field in which each row says its split (train, val or test; without any val, train is divided).
    Unset: 'split', where all rows have one there and nothing else divides them.
    """
    test_path: Path | None = None
    """File with the test tasks; data_path is then divided into train and val only."""
    prompt: str | None = Field(
        default=None,
        description=(
            "Template of the prompt, or a .md or .txt file with it; {field} is filled from the row. "
            f"Unset: the first of {', '.join(PROMPT_FIELDS)} that the row has."
        ),
    )
    scorer: str | list[str] = "exact_match"
    """A scorer's name (also 'checks' and 'judge'), 'module:function', 'file.py:function', 'cmd: program
    arguments', or a list of arguments.
    """
    pass_at: float | None = Field(default=None, gt=0, le=1)
    """The number from which a function's or command's score passes (hard = 1). Unset: 1."""
    scorer_options: dict[str, Any] = Field(default_factory=dict)
    """Options of the scorer, such as {absolute: 0.01} for numeric."""
    graded: bool | None = None
    """Whether a function or command gives partial credit, so that the gate reads soft."""
    id_field: str | None = None
    """The field with the task's id. Unset: 'id' or 'task_id', else a hash of the row."""
    reference_field: str | None = Field(
        default=None,
        description=f"The field with the reference. Unset: the first of {', '.join(REFERENCE_FIELDS)}.",
    )
    kind_field: str | None = None
    """The field with the task type, for figures per type."""
    system: str | None = None
    """Template of the system prompt with {skill}, or a .md or .txt file with it. Unset: ours."""
    prompts: Path | None = None
    """Folder with optimizer prompts of your own, one file a stage (merge.md). Unset: ours."""


class OwnBenchmark(QuestionBenchmark):
    """Your tasks with your scorer."""

    name = "own"
    Settings = OwnSettings
    defaults: ClassVar[Mapping[str, Any]] = {"train.strategy": "proof"}  # measured: docs/decisions/064
    own_scorer = True

    def __init__(
        self, settings: OwnSettings, scorer: ScorerSpec | None = None, tasks: GivenTasks | None = None
    ) -> None:
        """`scorer` and `tasks` come from Python and go before those that the settings name."""
        given = settings.system
        system = package_text("own_system.md") if given is None else _template(given, "env.system")
        if "skill" not in placeholders(system):
            raise ConfigError("env.system has no {skill}, so the target would never see the skill. Add it.")
        reader, checker = _Reader(settings), _scorer(settings, scorer)
        loader = TaskLoader(reader.task, reader.checked(checker), reader.begin)
        if tasks is not None:
            splits = _from_memory(settings, tasks, replace(loader, begin=len), reader)
        elif settings.test_path is not None:
            splits = _with_test(settings, settings.test_path, loader)
        else:
            splits = load_splits(settings, loader, divide=partial(_divided, settings))
        super().__init__(
            scorer=checker,
            splits=splits,
            system=system,
            seed_skill=package_text("own_skill.md"),
            prompts={} if settings.prompts is None else _prompts(settings.prompts),
        )
        is_one_list = not isinstance(tasks, Mapping) and not (settings.split_dir or settings.test_path)
        self.undivided = is_one_list and _is_undivided(settings, splits.all)

    @classmethod
    def from_tasks(
        cls, tasks: GivenTasks, *, scorer: ScorerSpec | None = None, settings: OwnSettings | None = None
    ) -> OwnBenchmark:
        """From Python: a list of tasks or rows, split by ratio, or a mapping of split names to such lists.

        `scorer` may be a function or a scorer object; unset, `settings.scorer` is used. Rows are read as
        those of a file are.
        """
        return cls(settings or OwnSettings(), scorer, tasks)


PLUGIN = OwnBenchmark


def read_tasks(settings: OwnSettings) -> tuple[list[Task], list[str]]:
    """The tasks of `data_path`, undivided, and what is wrong with rows that give none."""
    reader, checker = _Reader(settings), _scorer(settings, None)
    loader = TaskLoader(reader.task, reader.checked(checker), reader.begin)
    assert settings.data_path is not None, "the caller named a file"
    return loader.tasks(settings.data_path), list(map(str, loader.bad))


class _Reader:
    """Turns rows into tasks as the settings say."""

    def __init__(self, settings: OwnSettings) -> None:
        self._settings = settings
        self._template = None if settings.prompt is None else _template(settings.prompt, "env.prompt")
        self._copies: Counter[str] = Counter()
        self._names: Sequence[str] = ()

    def begin(self, rows: Sequence[DataRow]) -> None:
        """Find out which names of the template are fields of a file."""
        fields = list(dict.fromkeys(field for row in rows for field in row.data))
        self._names = self._placeholders(fields)

    def from_memory(self, given: Iterable[Task | Mapping[str, Any]], loader: TaskLoader) -> list[Task]:
        """Tasks as they are, rows read like those of a file."""
        items = list(given)
        for place, item in enumerate(items, start=1):
            if not isinstance(item, (Task, Mapping)):
                raise TaskError(
                    f"Task {place} of the list is {type(item).__name__}; give a Task, or a mapping of fields."
                )
        tasks = {place: item for place, item in enumerate(items, start=1) if isinstance(item, Task)}
        rows = [
            DataRow(path=_MEMORY, line=place, data=item if isinstance(item, Mapping) else {})
            for place, item in enumerate(items, start=1)
        ]
        if to_read := [row for row in rows if row.line not in tasks]:
            self.begin(to_read)
        as_given = replace(loader, to_task=lambda row: tasks.get(row.line) or self.task(row))
        return as_given.usable(rows, [])

    def _placeholders(self, fields: Sequence[str]) -> list[str]:
        """The template's names that are fields. Others stay, unless they look like a mistyped field."""
        if self._template is None:
            return []
        names = placeholders(self._template)
        for name in names:
            if name not in fields and (hint := suggest(name, fields)).startswith("Did you mean"):
                raise TaskError(f"env.prompt names {{{name}}}, which is no field of the rows. {hint}")
        known = [name for name in fields if f"{{{name}}}" in self._template]
        if not known:
            raise TaskError(
                "env.prompt names no field of the rows, so all tasks would be the same. Write one of"
                f" {', '.join(f'{{{field}}}' for field in fields)} into it."
            )
        return known

    def task(self, row: DataRow) -> Task:
        """The task of a row."""
        settings = self._settings
        if DRAFTED_BY in row.data:
            raise row.error(
                f"was drafted by {row.data[DRAFTED_BY]}, and nobody has kept it yet: skillopt tasks review"
                f" {row.path}"
            )
        reference_field = settings.reference_field or next(
            (field for field in REFERENCE_FIELDS if field in row.data), None
        )
        if reference_field is None and (near := _near(row, REFERENCE_FIELDS)):
            raise row.error(f"has no reference{near}. Rename it, or set env.reference_field.")
        if reference_field in self._names:
            raise row.error(
                f"env.prompt shows {{{reference_field}}}, which is the reference: the target would be told"
                " the answer. Remove it."
            )
        kind = self._field(row, settings.kind_field, "env.kind_field")
        return Task(
            id=self._id(row),
            prompt=self._prompt(row),
            reference=self._field(row, reference_field, "env.reference_field"),
            kind="" if kind is None else as_text(kind),
            data={name: value for name, value in row.data.items() if name != reference_field},
        )

    def checked(self, scorer: Scorer) -> Callable[[Task], None]:
        """The scorer's word on a task; where no field was taken for the reference, with those there are."""

        def check(task: Task) -> None:
            try:
                scorer.check_task(task)
            except TaskError as error:
                if task.reference is not None or self._settings.reference_field or not task.data:
                    raise
                fields = ", ".join(map(str, task.data))
                hint = f"The row has {fields}: env.reference_field names the one with the answer."
                raise TaskError(f"{error} {hint}") from error

        return check

    def _prompt(self, row: DataRow) -> str:
        if self._template is not None:
            values = {name: as_text(self._field(row, name, "env.prompt")) for name in self._names}
            return fill(self._template, values)
        field = next((field for field in PROMPT_FIELDS if field in row.data), None)
        if field is None:
            raise row.error(
                f"has no field {', '.join(PROMPT_FIELDS[:-1])} or {PROMPT_FIELDS[-1]}"
                f"{_near(row, PROMPT_FIELDS) or _others(row.data)}. Add one, or set env.prompt to a template"
                f"{_example(row.data)}."
            )
        prompt = as_text(row.data[field])
        if not prompt.strip():
            raise row.error(f"the field {field!r} is empty. Write what the target is asked.")
        return prompt

    def _id(self, row: DataRow) -> str:
        field = self._settings.id_field
        own = row.data.get("id", row.data.get("task_id"))
        value = own if field is None else self._field(row, field, "env.id_field")
        if value is None and field is None:
            content = json.dumps(dict(row.data), sort_keys=True, default=str)
            digest = hashlib.sha256(content.encode()).hexdigest()[:12]
            self._copies[digest] += 1  # equal rows may repeat inside a split; each needs its own id
            return digest if self._copies[digest] == 1 else f"{digest}-{self._copies[digest]}"
        if isinstance(value, bool) or not isinstance(value, (str, int)) or not str(value).strip():
            raise row.error(f"the id {value!r} is no text or number. Give the task an id.")
        return str(value)

    def _field(self, row: DataRow, field: str | None, key: str) -> Any:
        if field is None:
            return None
        if field not in row.data:
            raise row.error(f"has no field {field!r}, which {key} names. {suggest(field, row.data)}")
        return row.data[field]


def _from_memory(settings: OwnSettings, tasks: GivenTasks, loader: TaskLoader, reader: _Reader) -> Splits:
    """The splits of tasks given from Python, as their mapping says or else divided."""
    if isinstance(tasks, Mapping):
        parts: dict[Split, tuple[Task, ...]] = {"train": (), "val": (), "test": ()}
        for name, rows in tasks.items():
            split = canonical_split(name)
            if parts[split]:
                raise TaskError(f"Two of {', '.join(map(repr, tasks))} are the {split} split. Keep one.")
            parts[split] = tuple(reader.from_memory(rows, loader))
        splits = Splits(train=parts["train"], val=parts["val"], test=parts["test"])
    else:
        splits = _divided(settings, reader.from_memory(tasks, loader))
    return replace(splits, bad_rows=tuple(map(str, loader.bad))).limited(settings.limit)


def _with_test(settings: OwnSettings, test_path: Path, loader: TaskLoader) -> Splits:
    """The splits where a file of its own holds the test."""
    for key in ("split_dir", "split_field"):
        if getattr(settings, key) is not None:
            raise ConfigError(f"env.test_path and env.{key} both say what is test. Keep one of them.")
    train, val, _ = parse_ratio(settings.split_ratio)
    without_test = settings.model_copy(update={"split_ratio": f"{train}:{val}:0", "limit": 0})
    rest = load_splits(without_test, loader)
    test = tuple(loader.tasks(test_path))
    return replace(rest, test=test, bad_rows=tuple(map(str, loader.bad))).limited(settings.limit)


def _divided(settings: OwnSettings, tasks: Sequence[Task]) -> Splits:
    """As the rows say, where they do, else by ratio."""
    ratio, seed = settings.split_ratio, settings.split_seed
    field = _split_field(settings, tasks)
    return ratio_split(tasks, ratio, seed) if field is None else field_split(tasks, field, ratio, seed)


def _split_field(settings: OwnSettings, tasks: Sequence[Task]) -> str | None:
    is_said = {"split_mode", "split_ratio"} & settings.model_fields_set
    if settings.split_field is None and not is_said and names_splits(tasks, "split"):
        return "split"
    return settings.split_field


def _is_undivided(settings: OwnSettings, tasks: Sequence[Task]) -> bool:
    return not _DIVIDES & settings.model_fields_set and _split_field(settings, tasks) is None


def _scorer(settings: OwnSettings, given: ScorerSpec | None) -> Scorer:
    return get_scorer(
        settings.scorer if given is None else given,
        pass_at=settings.pass_at,
        graded=settings.graded,
        options=settings.scorer_options,
    )


def _near(row: DataRow, wanted: Sequence[str]) -> str:
    """The field of a row that was probably meant as one of those wanted, as part of a sentence."""
    lower = {str(name).strip().lower(): str(name) for name in row.data}
    for name in wanted:
        if close := get_close_matches(name, lower, n=1, cutoff=0.8):
            return f", but {lower[close[0]]!r}, which may be meant as {name!r}"
    return ""


def _others(fields: Mapping[str, Any]) -> str:
    """The second half of an error sentence: the names of the fields that do exist."""
    return f", but {', '.join(map(str, fields))}" if fields else ""


def _example(fields: Mapping[str, Any]) -> str:
    """A template that these fields allow, as part of a sentence."""
    field = next((name for name in fields if name not in (*REFERENCE_FIELDS, "id", "task_id")), None)
    return "" if field is None else f" such as '{{{field}}}'"


def _template(text: str, key: str) -> str:
    """The text itself, or that of the file it names: one line that ends in .md or .txt."""
    if "\n" in text or not text.lower().endswith(_TEXT_FILES):
        return text
    remedy = "Correct the path, or write the template itself."
    with as_usage_error(f"{key}: the file {text}", "read", remedy, ConfigError):
        return Path(text).read_text(encoding="utf-8")


def _prompts(folder: Path) -> dict[str, str]:
    """The prompts of a folder by their stage."""
    remedy = "Name a folder with files such as merge.md."
    with as_usage_error(f"env.prompts: {folder}", "read", remedy, ConfigError):
        files = sorted(path for path in folder.iterdir() if path.suffix == ".md")
        found = {path.stem: read_text(path) for path in files}
    if not found:
        raise ConfigError(f"env.prompts: {folder} holds no .md file. Add one for a stage, such as merge.md.")
    for stage in found:
        if stage not in OPTIMIZER_STAGES:
            raise ConfigError(
                f"env.prompts: no stage is named {stage!r} ({folder / stage}.md)."
                f" {suggest(stage, OPTIMIZER_STAGES)}"
            )
    return found
