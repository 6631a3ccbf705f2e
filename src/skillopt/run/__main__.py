"""The public door for a flat file: `python -m skillopt.run --config config.yaml` is `skillopt train --config
config.yaml`.
"""

from __future__ import annotations

from skillopt.cli import train_main

if __name__ == "__main__":
    train_main()
