"""A loader with nothing of the machine in it, and a benchmark that is only here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field

from skillopt.config.load import Resolved, load
from skillopt.config.roles import resolve_role
from skillopt.config.sections import RoleName
from skillopt.errors import ConfigError, UnknownName
from skillopt.models.port import ModelSpec
from skillopt.registry import Registry

Load = Callable[..., Resolved]


class ToySettings(BaseModel):
    """The `env` keys of the toy benchmark."""

    split_dir: Path | None = Field(None, description="Folder with splits.")
    split_ratio: str = Field("2:1:7", description="Weights.")
    difficulty: int = Field(1, ge=1, description="How hard.")
    labels: list[str] = Field(default_factory=list, description="Words.")
    prompt: str | None = Field(None, description="Template or file.")
    mode: str = Field("single", description="How.")
    sandbox: str = Field("strict", description="A name that is also an old name of a codex key.")


class ToyPlugin:
    """A plug-in as a stranger would write one."""

    Settings = ToySettings
    defaults: Mapping[str, Any] = {"evaluation.repeats": 3, "env.workers": 7}


class ToyRegistry(Registry):
    """Holds the toy only."""

    def __init__(self) -> None:
        super().__init__("benchmark", "skillopt.benchmarks")

    def names(self) -> list[str]:
        return ["toy"]

    def get(self, name: str) -> Any:
        if name != "toy":
            raise UnknownName(self.what, name, self.names())
        return ToyPlugin()


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    """The working directory of the test's user."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def write(cwd: Path) -> Callable[[str, str], Path]:
    """Write a file below the working directory."""

    def write(name: str, text: str) -> Path:
        path = cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def run(cwd: Path) -> Load:
    """`load` with nothing given but what the test gives."""

    def run(
        config: str | None = None,
        *,
        flags: Mapping[str, object] | None = None,
        options: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
        dotenv: bool = True,
    ) -> Resolved:
        return load(
            config,
            flags=flags or {},
            options=options,
            environ=environ or {},
            cwd=cwd,
            dotenv=dotenv,
            registry=ToyRegistry(),
        )

    return run


@pytest.fixture
def role() -> Callable[[Resolved, RoleName], ModelSpec]:
    """What a role is built from."""

    def role(resolved: Resolved, name: RoleName = "target") -> ModelSpec:
        return resolve_role(resolved.config, name)

    return role


@pytest.fixture
def fails(run: Load) -> Callable[..., str]:
    """The message of a load that must fail."""

    def fails(*args: Any, **kwargs: Any) -> str:
        with pytest.raises(ConfigError) as caught:
            run(*args, **kwargs)
        assert caught.value.__cause__ is None  # a pydantic cause would carry input values into a traceback
        return str(caught.value)

    return fails
