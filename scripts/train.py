"""The public door to training: `python scripts/train.py --config configs/searchqa/default.yaml ...` is
`skillopt train ...`.
"""

from skillopt.cli import train_main

if __name__ == "__main__":
    train_main()
