"""The tree is the architecture: imports point up the page, files stay readable, and the folder is the
registry.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parent.parent / "src"
PACKAGE = SRC / "skillopt"
PACKAGES = ("skillopt", "skillopt_sleep", "skillopt_webui")
LONGEST = 400

# One line a layer, lowest first; a module may import the lines above its own, not its neighbours. Two modules
# of `config` stand far below the rest of it: the engine takes its settings as the schema has them. The list of
# all kinds of plug-ins stands far above their ground, and a door above what it opens. A name without a package
# is one of `skillopt`; nights are a package of their own, between it and its faces.
LAYERS = [
    "errors",
    "config.service",
    "registry redact files process",
    "config.sections",
    "config.schema",
    "process.sandbox messages skill executors",
    "money events",
    "tasks",
    "transcripts",
    "programs",
    "agents",
    "models",
    "benchmarks trackers",
    "harnesses",
    "evaluation",
    "gate optimizer",
    "train",
    "runs",
    "config",
    "run registry.kinds",
    "changes",
    "skillopt_sleep",
    "doctor",
    "testing",
    "skillopt_webui",
    "mcp",
    "cli",
    "__init__ __main__ run.__main__ skillopt_sleep.__main__ skillopt_webui.app",
    "skillopt_sleep.experiments",
]
LAYER_OF = {name: number for number, line in enumerate(LAYERS) for name in line.split()}
FACES = ("doctor", "mcp", "cli", "skillopt_webui")
PRIVATE = re.compile(rf"((?:{'|'.join(PACKAGES)})(?:\.[a-z]\w*)*)\._[a-z]")
PLUGIN_FOLDERS = ("models/providers", "benchmarks", "executors", "harnesses", "trackers", "agents")


def test_imports_only_point_up_the_page() -> None:
    assert not list(layer_violations(SRC))


def test_what_has_an_underscore_is_used_in_its_own_package_alone() -> None:
    assert not list(private_imports(SRC))


def test_no_two_public_classes_share_a_name() -> None:
    assert not shared_class_names(SRC)


def test_no_source_file_is_too_long_to_read() -> None:
    assert not list(long_files(SRC))


def test_every_file_of_a_plugin_folder_is_a_plugin() -> None:
    assert not list(missing_plugins(PACKAGE))


@pytest.mark.parametrize(
    ("path", "line", "complaint"),
    [
        ("tasks/task.py", "from skillopt.models import Model", "tasks imports models, which stands below it"),
        (
            "tasks/task.py",
            "if TYPE_CHECKING:\n    import skillopt.gate.policies",
            "tasks imports gate, which stands below it",
        ),
        (
            "gate/policies.py",
            "def late():\n    from skillopt import optimizer",
            "gate imports optimizer, its neighbour",
        ),
        ("skill/edits.py", "from ..messages import Reply", "skill imports messages, its neighbour"),
        ("config/load.py", "from skillopt.run import open_run", "config imports run, which stands below it"),
        (
            "config/schema.py",
            "from skillopt.config.load import load",
            "config.schema imports config, which stands below it",
        ),
        (
            "train/trainer.py",
            "from skillopt import optimize",
            "train imports __init__, which stands below it",
        ),
        ("mcp/server.py", "from skillopt.testing import World", "only cli may import testing"),
        ("__main__.py", "import skillopt.testing", "only cli may import testing"),
        ("run/job.py", "import skillopt_sleep.plan", "run imports skillopt_sleep, which stands below it"),
        ("testing/world.py", "from skillopt_sleep import plan", "only faces may import skillopt_sleep"),
        ("utils/text.py", "", "utils is on no layer: add it to LAYERS in tests/test_layers.py"),
        (
            "gate/policies.py",
            "import skillopt.gait",
            "gait is on no layer: add it to LAYERS in tests/test_layers.py",
        ),
    ],
)
def test_an_import_that_points_down_is_named(tmp_path: Path, path: str, line: str, complaint: str) -> None:
    file = tmp_path / "skillopt" / path
    file.parent.mkdir(exist_ok=True, parents=True)
    file.write_text(line)
    assert [complaint in found for found in layer_violations(tmp_path)] == [True]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("registry.py", "from skillopt.errors import UnknownName"),
        ("gate/policies.py", "from ._rows import rows\nfrom skillopt.tasks.task import Task\nimport json"),
        ("changes/plan.py", "from skillopt import __version__, config\nfrom skillopt.run import open_run"),
        ("cli/demo.py", "from skillopt.testing import World"),
        ("gate/gate.py", "from skillopt.config.schema import GateConfig"),
        ("config/load.py", "from skillopt.config.schema import Config"),
        ("__init__.py", "from skillopt.cli import main"),
        ("cli/sleep.py", "from skillopt_sleep import run_night"),
        ("../skillopt_sleep/night.py", "from skillopt.run import open_run\nfrom .plan import NightPlan"),
        ("../skillopt_sleep/__main__.py", "from skillopt.cli import main"),
    ],
)
def test_an_import_that_points_up_is_fine(tmp_path: Path, path: str, line: str) -> None:
    file = tmp_path / "skillopt" / path
    file.parent.mkdir(exist_ok=True, parents=True)
    file.write_text(line)
    assert not list(layer_violations(tmp_path))


@pytest.mark.parametrize(
    ("path", "line", "is_fine"),
    [
        ("cli/data.py", "from skillopt.tasks._rows import load", False),
        ("cli/data.py", "def late():\n    from skillopt.tasks import _rows", False),
        ("cli/data.py", "import skillopt.tasks._rows", False),
        ("models/stack/slots.py", "from skillopt.models.wires._retry import again", False),
        ("tasks/manifest.py", "from skillopt.tasks._rows import load", True),
        ("tasks/scorers/exact.py", "from skillopt.tasks._rows import load", True),
        ("cli/sleep.py", "from skillopt_sleep._keys import read_key", False),
        ("cli/data.py", "from skillopt import __version__", True),
    ],
)
def test_an_import_of_another_package_s_own_module_is_named(
    tmp_path: Path, path: str, line: str, is_fine: bool
) -> None:
    file = tmp_path / "skillopt" / path
    file.parent.mkdir(parents=True)
    file.write_text(line)
    assert [path in found for found in private_imports(tmp_path)] == ([] if is_fine else [True])


def test_a_class_name_that_two_files_share_is_named(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("class Same:\n    class Inner: ...\nclass _Own: ...\nclass Single: ...")
    (tmp_path / "two.py").write_text("class Same: ...\nclass _Own: ...\nclass Inner: ...")
    assert shared_class_names(tmp_path) == {"Same": ["one.py", "two.py"]}


def test_a_long_file_and_a_file_without_plugin_are_named(tmp_path: Path) -> None:
    (tmp_path / "trackers").mkdir()
    (tmp_path / "trackers" / "mine.py").write_text("x = 1\n" * (LONGEST + 1))
    (tmp_path / "trackers" / "_wire.py").write_text("")
    (tmp_path / "trackers" / "port.py").write_text("")
    (tmp_path / "trackers" / "other.py").write_text("from typing import Any\nPLUGIN: Any = print\n")
    assert [found.split(":")[0] for found in long_files(tmp_path)] == ["trackers/mine.py"]
    assert [found.split(":")[0] for found in missing_plugins(tmp_path)] == ["trackers/mine.py"]


def layer_violations(source: Path) -> Iterator[str]:
    """Every import of ours that the layers forbid, and every module that stands on no layer."""
    for package in PACKAGES:
        for file in sorted((source / package).rglob("*.py")):
            parts = file.relative_to(source).with_suffix("").parts
            if parts != ("skillopt", "__init__"):  # that one is lazy, and allowed to name everything
                yield from violations_of(file, parts)


def violations_of(file: Path, parts: tuple[str, ...]) -> Iterator[str]:
    """The forbidden imports of one file, whose path below the sources is `parts`."""
    where, module = "/".join(parts) + ".py", module_of(parts)
    if module not in LAYER_OF:
        yield f"{where}: {module} is on no layer: add it to LAYERS in tests/test_layers.py"
        return
    for line, target in imports(file, parts):
        if target == module:
            continue
        if target not in LAYER_OF:
            yield f"{where}:{line}: {target} is on no layer: add it to LAYERS in tests/test_layers.py"
        elif target == "testing" and module not in ("cli", "skillopt_sleep.experiments"):
            yield f"{where}:{line}: only cli may import testing"
        elif LAYER_OF[target] == LAYER_OF[module]:
            yield f"{where}:{line}: {module} imports {target}, its neighbour"
        elif LAYER_OF[target] > LAYER_OF[module]:
            yield f"{where}:{line}: {module} imports {target}, which stands below it"
        elif target == "skillopt_sleep" and module.partition(".")[0] not in (*FACES, target):
            yield f"{where}:{line}: only faces may import skillopt_sleep"


def imports(file: Path, parts: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Line and module of every import of ours in a file, wherever in it: also in functions and under
    TYPE_CHECKING.
    """
    for node in import_lines(file):
        if isinstance(node, ast.Import):
            dotted = [alias.name for alias in node.names]
        else:
            folder = parts[: len(parts) - node.level] if node.level else ()
            base = ".".join([*folder, *filter(None, [node.module])])
            dotted = [f"{base}.{alias.name}" for alias in node.names]
        for top, *rest in (name.split(".") for name in dotted):
            if top in PACKAGES and not (len(rest) == 1 and rest[0].startswith("__")):
                # `from skillopt import optimize` names no module: it lands in the package itself.
                is_name = not rest or (
                    isinstance(node, ast.ImportFrom) and len(rest) == 1 and rest[0] not in LAYER_OF
                )
                yield node.lineno, module_of([top] if is_name else [top, *rest])


def module_of(parts: Sequence[str]) -> str:
    """The name that a module has in `LAYERS`: that of its room, or its own where it has a layer."""
    inner = parts if parts[0] != "skillopt" else parts[1:] or ["__init__"]
    own = ".".join(inner[:2])
    return own if own in LAYER_OF else inner[0]


@cache
def import_lines(file: Path) -> list[ast.Import | ast.ImportFrom]:
    """Every import statement of a file, wherever in it."""
    nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    return [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))]


def private_imports(source: Path) -> Iterator[str]:
    """Every import of a module with an underscore by a file that is not in the same package or below it."""
    for file in sorted(source.rglob("*.py")):
        for node in import_lines(file):
            base = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            names = [base + alias.name for alias in node.names]
            for found in {match[1] for name in names if (match := PRIVATE.match(name))}:
                if not file.is_relative_to(source.joinpath(*found.split("."))):
                    yield f"{file.relative_to(source)}:{node.lineno}: imports a module of {found}'s own"


def shared_class_names(root: Path) -> dict[str, list[str]]:
    """Every public name of a class that more than one module defines, with the files."""
    found: dict[str, list[str]] = {}
    for file in sorted(root.rglob("*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(str(file.relative_to(root)))
    return {name: files for name, files in found.items() if len(files) > 1}


def long_files(root: Path) -> Iterator[str]:
    """Every source file over the limit."""
    for file in sorted(root.rglob("*.py")):
        lines = len(file.read_text(encoding="utf-8").splitlines())
        if lines > LONGEST:
            yield (
                f"{file.relative_to(root)}: {lines} lines; look for the second reason to change (limit"
                f" {LONGEST})"
            )


def missing_plugins(package: Path) -> Iterator[str]:
    """Every file or folder of a plug-in folder that the registry would offer and could not load."""
    for folder in PLUGIN_FOLDERS:
        for file in sorted([*(package / folder).glob("*.py"), *(package / folder).glob("*/__init__.py")]):
            name = file.stem if file.parent == package / folder else file.parent.name
            if not name.startswith("_") and name != "port" and "PLUGIN" not in top_level_names(file):
                yield (
                    f"{file.relative_to(package)}: defines no PLUGIN; give it one, or an underscore if it is"
                    " machinery"
                )


def top_level_names(file: Path) -> set[str]:
    """The names a module binds at its top level."""
    names: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names
