"""Shears: a proposer that asks no model, and proposes to leave out one line of the skill at a time."""

from skillopt.skill.edits import Edit


class Shears:
    """Leaves out lines: every list item of the skill may be one that does harm."""

    def __init__(self, setup):
        """Nothing is needed; `setup.model` would ask the optimizer model, and remember its answers."""

    async def propose(self, step, item, evidence):
        """One edit a list item, for all tasks that failed; what a line is worth is measured by others."""
        tasks = [one.task.id for one in evidence.failed]
        lines = [line for line in step.skill.body.splitlines() if line.startswith("- ")]
        return [
            Edit(
                op="delete",
                target=f"{line}\n",
                evidence={"tasks": tasks},
                id=str(step.place.at("proposer", item, number=number)),
            )
            for number, line in enumerate(lines[: evidence.limit])
        ]
