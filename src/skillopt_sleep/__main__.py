"""`python -m skillopt_sleep run`: the same as `skillopt sleep run`."""

from __future__ import annotations

import sys

from skillopt.cli import main as skillopt


def main() -> None:
    """The program `skillopt-sleep`."""
    skillopt(["sleep", *sys.argv[1:]])


if __name__ == "__main__":
    main()
