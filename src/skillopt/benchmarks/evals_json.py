"""The evals that a skill brings along in `evals/evals.json`: each prompt is a task, and a judge decides on
its assertions.

`{"skill_name": "csv-analyzer", "evals": [{"id": 1, "prompt": "Find the top 3 months in ...",
"expected_output": "A table of ...", "files": ["evals/files/sales.csv"], "assertions": ["The table names
March"]}]}`. `expectations` are assertions too. An assertion is a sentence, an object that has one under
`text`, or one with `type` and `value`. A case without any is judged by its expected output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from skillopt.errors import ConfigError, TaskError
from skillopt.tasks.data import CommonSettings, QuestionBenchmark, TaskLoader, load_splits, package_text
from skillopt.tasks.rows import DataRow, load_rows
from skillopt.tasks.scorers import get_scorer
from skillopt.tasks.task import Task

FILE = Path("evals") / "evals.json"
ASSERTIONS = ("assertions", "expectations")
_SENTENCES = ("text", "assertion", "expectation", "criterion", "description", "check")
_PROMPTS = ("prompt", "query", "input")
_LISTS = ("evals", "cases")
_MOST_SHOWN = 100_000
"""Characters of a file that still fit into a prompt."""


class EvalsSettings(CommonSettings):
    """The `env.*` keys of a skill's own evals."""

    split_ratio: str = "2:2:1"
    """Weights of train, val and test under split_mode 'ratio'."""
    data_path: Path | None = None
    """The skill's folder, or its evals.json; unset is the folder of the skill to start from."""
    skill_init: Path | None = None
    """Skill to start from."""
    show_files: bool = True
    """Put the text of a case's files into its prompt; off leaves them to an agent, as files."""


class Evals(QuestionBenchmark):
    """The cases of a skill, judged by their assertions."""

    name = "evals_json"
    Settings = EvalsSettings
    defaults: ClassVar[Mapping[str, Any]] = {"train.strategy": "proof"}

    def __init__(self, settings: EvalsSettings) -> None:
        if settings.data_path is None and settings.split_dir is None:
            if settings.skill_init is None:
                raise ConfigError(
                    "There are no evals: set env.data_path to a skill's folder or its evals.json, or"
                    " env.skill_init to the skill."
                )
            settings = settings.model_copy(update={"data_path": settings.skill_init})
        scorer, reader = get_scorer("judge"), _Reader(show_files=settings.show_files)
        loader = TaskLoader(reader.task, scorer.check_task, reader.begin)
        super().__init__(
            splits=load_splits(settings, loader, load=load_evals),
            scorer=scorer,
            system=package_text("evals_system.md"),
            seed_skill=package_text("own_skill.md"),
        )


PLUGIN = Evals


def load_evals(path: Path, bad: list[TaskError]) -> list[DataRow]:
    """The cases of a skill: of `evals/evals.json` in its folder, or of the file itself."""
    folder = path.parent if path.name == "SKILL.md" else path
    if not folder.is_dir():
        return load_rows(path, _LISTS, bad)
    found = next((file for file in (folder / FILE, folder / FILE.name) if file.is_file()), None)
    if found is None:
        name = FILE.as_posix()
        raise TaskError(f"{folder} holds no {name}. Write the skill's evals, or name them in env.data_path.")
    return load_rows(found, _LISTS, bad)


class _Reader:
    """Turns cases into tasks; a case without an id is named by its place."""

    def __init__(self, *, show_files: bool) -> None:
        self._show_files = show_files
        self._place = 0

    def begin(self, rows: Sequence[DataRow]) -> None:
        """Count the cases of another file."""
        self._place = 0

    def task(self, row: DataRow) -> Task:
        """The task of a case."""
        self._place += 1
        prompt = next((row.data[name] for name in _PROMPTS if name in row.data), None)
        if not isinstance(prompt, str) or not prompt.strip():
            raise row.error("'prompt' is missing or empty. Write what the user asks.")
        criteria = [_sentence(row, one) for name in ASSERTIONS for one in _list(row, name)]
        unique = list(dict.fromkeys(criteria))
        expected = row.data.get("expected_output")
        if expected is not None and not isinstance(expected, str):
            raise row.error("'expected_output' is no text. Write what success looks like.")
        if not criteria and not (expected or "").strip():
            raise row.error(
                "has neither assertions nor an expected_output, so nothing can be judged. Add one of them."
            )
        files = [_file(row, name) for name in _list(row, "files")]
        shown = [_shown(row, path) for path in files] if self._show_files else []
        expected = (expected or "").strip()
        return Task(
            id=str(row.data.get("id", row.data.get("name", self._place))),
            prompt="".join([prompt.strip(), *shown]),
            reference=expected or None,
            files=() if self._show_files else tuple(files),
            data={"rubric": unique or [f"The result is what was expected: {expected}"]},
        )


def _list(row: DataRow, field: str) -> list[Any]:
    value = row.data.get(field)
    if value is None:
        return []
    if not isinstance(value, list):
        raise row.error(f"{field!r} is no list. Correct it.")
    return value


def _sentence(row: DataRow, assertion: Any) -> str:
    if isinstance(assertion, str) and assertion.strip():
        return assertion.strip()
    if isinstance(assertion, Mapping):
        told = [assertion[key] for key in _SENTENCES if isinstance(assertion.get(key), str)]
        if said := next((text.strip() for text in told if text.strip()), ""):
            return str(said)
        if isinstance(assertion.get("type"), str) and assertion.get("value") not in (None, ""):
            return f"The output: {assertion['type'].replace('_', ' ')} {assertion['value']!r}"
    raise row.error(f"{assertion!r} is no assertion. Write a sentence, or an object with one under 'text'.")


def _file(row: DataRow, name: Any) -> Path:
    if not isinstance(name, str) or not name.strip():
        raise row.error(f"{name!r} in 'files' is no path. Correct it.")
    beside = row.path.parent
    root = beside.parent if beside.name == FILE.parent.name else beside
    found = next((path for folder in (root, beside) if (path := folder / name).is_file()), None)
    if found is None:
        raise row.error(f"there is no file {name!r} in {root}. Add it, or correct the path.")
    if not found.resolve().is_relative_to(root.resolve()):
        raise row.error(f"the file {name!r} lies outside of {root}. Put it into the skill's folder.")
    return found


def _shown(row: DataRow, path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        text = None
    if text is None or len(text) > _MOST_SHOWN:
        why = "is no text" if text is None else "is too long for a prompt"
        raise row.error(
            f"{path.name} {why}. Set env.show_files to false and let an agent read it, such as"
            " claude_code/... as target."
        )
    return f"\n\n## File {path.name}\n\n{text.rstrip()}"
