"""The public door to evaluation: `python scripts/eval_only.py --config ... --skill ... --split valid_unseen`
is `skillopt eval ...`.
"""

from skillopt.cli import eval_main

if __name__ == "__main__":
    eval_main()
