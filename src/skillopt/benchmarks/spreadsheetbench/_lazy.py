"""Decides what is said when the packages for workbooks are not installed."""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from skillopt.errors import ConfigError

ENGINE = "formualizer"


def openpyxl() -> Any:
    """The package that reads workbooks, imported when it is first needed."""
    try:
        return importlib.import_module("openpyxl")
    except ImportError as error:
        raise ConfigError("'spreadsheetbench' needs openpyxl: pip install 'skillopt[spreadsheet]'") from error


def engine_version() -> str:
    """Name and version of what calculates formulas: another one may give another score."""
    try:
        return f"{ENGINE}-{version(ENGINE)}"
    except PackageNotFoundError as error:
        raise ConfigError(
            f"'spreadsheetbench' needs {ENGINE}: pip install 'skillopt[spreadsheet]'"
        ) from error
