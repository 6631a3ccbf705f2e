"""The keys of the plan: how long a run trains, in which batches, and how a step searches."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from skillopt.config.role_schema import Section


class ProofConfig(Section):
    """The strategy `proof`: how edits are tried before the gate, and what happens after it."""

    batch: int = Field(default=60, ge=1)
    """Most train tasks of a step: large, so that rare failures come in sight together, but a gate every so
    often, so that a budget that ends early has bought something.
    """
    rows: int = Field(default=2, ge=1)
    """Failed tasks an edit is tried on alone; a third one costs, and shows little more."""
    depth: int = Field(default=4, ge=1)
    """Looks at failures: later ones only at what stays open, told what did nothing and what was answered."""
    control: int = Field(default=30, ge=0)
    """Passed train tasks the chosen edits are run on, to find what overreaches; 0 is none."""
    blame_from: int = Field(default=3, ge=1)
    """Broken val rows from which on the guilty edits are looked for."""
    blame_rows: int = Field(default=12, ge=1)
    """Broken rows that parts of a bundle are tried on, at most."""
    prune: bool = True
    """Leave weakly proven edits out again where the gate agrees."""
    remaining: int = Field(default=16, ge=1)
    """Train tasks that must be open for another epoch; of few tasks, a quarter of them."""
    confirm: bool = True
    """Draw a task again that is the only one an edit fixed, with the edit and without: it may be luck."""


class TrainConfig(Section):
    """How long and in which batches."""

    part: Literal["body", "description"] = "body"
    """What of the skill is trained: its body on tasks, or its description on queries (section `triggers`)."""
    strategy: str = "paper"
    """How a step searches: paper (the published loop), proof (edits are tried first), or your own."""
    proof: ProofConfig = ProofConfig()
    """The strategy `proof`."""
    folds: int | None = Field(default=None, ge=1)
    """Parts that own tasks are cross-fitted in, each judged by a skill that never saw it; 1 is one split.
    Unset: 5 for 10 to 59 tasks that no setting divides, else 1.
    """
    proposer: str = "analysts"
    """Who proposes edits: analysts (the optimizer model, minibatch by minibatch), agent (the coding agent of
    model.proposer, once for a whole batch), or your own.
    """
    num_epochs: int = Field(default=4, ge=1)
    """Passes over the train split."""
    train_size: int = Field(default=0, ge=0)
    """Expected size of the train split; 0 takes what is there."""
    batch_size: int = Field(default=40, ge=1)
    """Train tasks per step."""
    accumulation: int = Field(default=1, ge=1)
    """Multiplies the batch of a step."""
    seed: int = Field(default=42, ge=0)
    """Seed of every shuffle of the plan."""
    patience: int = Field(default=0, ge=0)
    """Steps without a new best skill after which training stops; 0 is never."""
    ahead: Literal["auto", "off"] = "auto"
    """Run the first batch in slots that the baseline leaves empty: the same result sooner. Never done with a
    budget or a limit on effort, nor for agent programs and answers by hand.
    """


class TriggersConfig(Section):
    """Queries that should load the skill and queries that should not, for `train.part: description`."""

    path: Path = Path("triggers.jsonl")
    """JSONL, JSON or CSV file with prompt and should_load; where there is none, one is drafted to review."""
    split_ratio: str = "2:2:1"
    """Weights of train, val and test among the queries, the same for both kinds."""
    others: bool = True
    """List other skills beside the trained one; of theirs only name and description are sent."""
    skills: Path | None = None
    """Folder with those other skills; unset means those installed where the agent looks for them."""
    listed_as: str = "claude_code"
    """Agent whose list of skills a chat target is shown; an agent as target shows its own."""
    drafts: int = Field(default=40, ge=8)
    """Queries a draft holds, half of each kind."""
