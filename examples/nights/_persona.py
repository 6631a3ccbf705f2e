"""Two made-up persons with requests that come back: decides what each asks, by which checks an answer counts,
and what would do harm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from skillopt.tasks.task import Split
from skillopt_sleep.tasks import NightTask


class PersonaRequest(NightTask):
    """One request of a person, as a night would have mined it."""

    missing: tuple[str, ...]
    """Names of the rules that the request itself does not state: it is met only where the skill states them.
    """
    facts: tuple[str, ...]
    """What the simulated target knows about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Persona:
    """A person: a skill to start from, requests, the rules that would meet them, and an edit that sounds
    right and does harm.
    """

    name: str
    skill: str
    rules: Mapping[str, str]
    harmful: str
    requests: tuple[PersonaRequest, ...]
    write: Callable[[tuple[str, ...], frozenset[str], bool], str]
    """What the simulated target says: of these facts, following these rules, and misled by the harmful one or
    not.
    """
    tempted: bool = True
    """Whether the simulated optimizer proposes the harmful edit first."""
    batch_size: int = 3
    """Small enough that a night takes two steps: one for the harmful edit and one for what follows."""


def _answer_a_paper(facts: tuple[str, ...], follows: frozenset[str], misled: bool) -> str:
    title, number = facts
    if misled:
        return f"The paper is called {title}."
    named = f"arXiv:{number}" if "arxiv-id" in follows else f"https://arxiv.org/abs/{number}"
    return f"[[{named}]]" if "wrap-answer" in follows else f"You mean {title}, {named}."


def _write_a_subject(facts: tuple[str, ...], follows: frozenset[str], misled: bool) -> str:
    verb, past, rest = facts
    is_imperative = "commit-imperative" in follows and not misled
    return f"{verb if is_imperative else past} {rest}"


_PAPERS: tuple[tuple[str, str, str], ...] = (
    ("Attention Is All You Need", "1706.03762", "the Transformer"),
    ("BERT", "1810.04805", "masked language models for pre-training"),
    ("Deep Residual Learning for Image Recognition", "1512.03385", "residual networks"),
    ("Adam", "1412.6980", "the Adam optimizer"),
    ("Generative Adversarial Networks", "1406.2661", "adversarial training of a generator"),
    ("Auto-Encoding Variational Bayes", "1312.6114", "variational autoencoders"),
    ("Batch Normalization", "1502.03167", "batch normalization"),
    ("Layer Normalization", "1607.06450", "layer normalization"),
    ("U-Net", "1505.04597", "the U-Net for segmentation"),
    ("LoRA", "2106.09685", "low-rank adaptation"),
    ("Proximal Policy Optimization Algorithms", "1707.06347", "PPO"),
    ("Denoising Diffusion Probabilistic Models", "2006.11239", "denoising diffusion models"),
    ("Language Models are Few-Shot Learners", "2005.14165", "GPT-3"),
    ("An Image is Worth 16x16 Words", "2010.11929", "the vision transformer"),
    ("Sequence to Sequence Learning", "1409.3215", "sequence to sequence learning with LSTMs"),
    ("RoBERTa", "1907.11692", "RoBERTa"),
    ("Mask R-CNN", "1703.06870", "Mask R-CNN"),
    ("EfficientNet", "1905.11946", "compound scaling of networks"),
    ("You Only Look Once", "1506.02640", "YOLO"),
    ("MobileNets", "1704.04861", "MobileNets"),
    ("LLaMA", "2302.13971", "LLaMA"),
    ("Learning Transferable Visual Models From Natural Language Supervision", "2103.00020", "CLIP"),
    ("Chain-of-Thought Prompting", "2201.11903", "chain-of-thought prompting"),
    ("Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer", "1910.10683", "T5"),
)
_FORM = {"arxiv-id": "Write it as arXiv: and the number.", "wrap-answer": "Set it in double square brackets."}


def _paper(place: int, split: Split, *missing: str) -> PersonaRequest:
    title, number, subject = _PAPERS[place]
    told = " ".join(text for rule, text in _FORM.items() if rule not in missing)
    return PersonaRequest(
        id=f"paper-{place + 1:02d}",
        kind="researcher",
        split=split,
        prompt=f"Which paper introduced {subject}? {told}".strip(),
        checks=(
            {"op": "contains", "arg": f"arXiv:{number}"},
            {"op": "contains", "arg": "[["},
            {"op": "contains", "arg": "]]"},
        ),
        missing=missing,
        facts=(title, number),
    )


_CHANGES: tuple[tuple[str, str, str, str], ...] = (
    ("Skip", "Skipped", "empty lines in the parser", "the parser passes over empty lines"),
    ("Close", "Closed", "the socket on timeout", "a socket stays open no longer after a timeout"),
    ("Cache", "Cached", "compiled patterns", "patterns are kept once they are compiled"),
    ("Report", "Reported", "unknown keys by name", "an unknown key is named in the error"),
    ("Sort", "Sorted", "results by date", "results come in the order of their dates"),
    ("Reject", "Rejected", "negative amounts", "amounts below zero are refused"),
    ("Rename", "Renamed", "the retry option", "the option for retries has another name"),
    ("Limit", "Limited", "uploads to ten megabytes", "larger uploads than ten megabytes are refused"),
    ("Remove", "Removed", "the old importer", "the old importer is gone"),
    ("Log", "Logged", "slow queries", "queries that take long are written to the log"),
    ("Quote", "Quoted", "file names with spaces", "file names with spaces are put in quotes"),
    ("Stop", "Stopped", "the worker on SIGTERM", "the worker ends when it is told to"),
    ("Parse", "Parsed", "dates without a zone", "dates that name no zone are understood"),
    ("Escape", "Escaped", "angle brackets in titles", "titles may hold angle brackets"),
    ("Mark", "Marked", "unread messages", "messages nobody has read stand out"),
    ("Merge", "Merged", "duplicate contacts", "a contact that is there twice becomes one"),
    ("Count", "Counted", "failed logins", "it is known how often a login failed"),
    ("Restore", "Restored", "the window size", "a window is as large as it was before"),
)


def _change(place: int, split: Split, *missing: str) -> PersonaRequest:
    verb, past, rest, what = _CHANGES[place]
    told = "" if missing else " Use the imperative."
    return PersonaRequest(
        id=f"commit-{place + 1:02d}",
        kind="programmer",
        split=split,
        prompt=f'Write the subject line of a commit with the verb "{verb.lower()}": {what}.{told}',
        checks=(
            {"op": "contains", "arg": f"{verb} "},
            {"op": "not_contains", "arg": past},
            {"op": "max_chars", "arg": 72},
        ),
        missing=missing,
        facts=(verb, past, rest),
    )


_BOTH = ("arxiv-id", "wrap-answer")
_MOOD = ("commit-imperative",)
# What the tasks that decide, and those that are held out, lack: a few of each lack nothing, and can only be
# lost.
_LACKING: tuple[tuple[str, ...], ...] = (_BOTH, _BOTH, _BOTH[:1], _BOTH[1:], (), ())
_MOODS: tuple[tuple[str, ...], ...] = (_MOOD, _MOOD, _MOOD, (), ())

RESEARCHER = Persona(
    name="researcher",
    skill=(
        "---\nname: paper-finder\ndescription: Names papers. Use it for questions about literature.\n---\n#"
        " Papers\n\n- Be exact.\n"
    ),
    rules={
        "arxiv-id": "- Name every paper by its identifier, with arXiv: directly before the number.",
        "wrap-answer": "- Give nothing but the answer, between [[ and ]].",
    },
    harmful="- Name a paper by its title alone; numbers and brackets only distract.",
    requests=(
        *(_paper(place, "train", *_BOTH) for place in range(6)),
        *(_paper(place, "val", *missing) for place, missing in enumerate(_LACKING, start=6)),
        *(_paper(place, "test", *missing) for place, missing in enumerate((*_LACKING, *_LACKING), start=12)),
    ),
    write=_answer_a_paper,
)
PROGRAMMER = Persona(
    name="programmer",
    skill=(
        "---\nname: commit-writer\ndescription: Writes commit messages. Use it for every commit.\n---\n#"
        " Commits\n\n- Be short.\n"
    ),
    rules={
        "commit-imperative": (
            "- Begin the subject of a commit with a verb in the imperative, as an order to the code."
        )
    },
    harmful="- Begin the subject of a commit with what was done, in the past tense.",
    requests=(
        *(_change(place, "train", *_MOOD) for place in range(3)),
        *(_change(place, "val", *missing) for place, missing in enumerate(_MOODS, start=3)),
        *(_change(place, "test", *missing) for place, missing in enumerate((*_MOODS, *_MOODS), start=8)),
    ),
    write=_write_a_subject,
    batch_size=2,
)
PERSONAS: Mapping[str, Persona] = {persona.name: persona for persona in (RESEARCHER, PROGRAMMER)}
