"""Loose: a scorer that forgives case and punctuation."""

from skillopt import Task


def loose(task: Task, answer: str) -> bool:
    """Right where the letters and digits of the reference stand in the answer, in their order."""
    plain = ["".join(filter(str.isalnum, text)).casefold() for text in (str(task.reference), answer)]
    return plain[0] in plain[1]
