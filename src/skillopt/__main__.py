"""`python -m skillopt` is the command line."""

from __future__ import annotations

from skillopt.cli import main

if __name__ == "__main__":
    main()
