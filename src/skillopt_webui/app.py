"""`python -m skillopt_webui.app`: the same as `skillopt dashboard`."""

from __future__ import annotations

import sys

from skillopt.cli import main as skillopt


def main() -> None:
    """The dashboard."""
    skillopt(["dashboard", *sys.argv[1:]])


if __name__ == "__main__":
    main()
