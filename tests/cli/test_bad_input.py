"""Bad input: one clear message on stderr, a code that is not zero, nothing overwritten, no call paid."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from _loopback import LoopbackProvider
from cli._commands import SMALL, Command, program


def row(number: int, **changes: object) -> dict[str, object]:
    return {"id": f"t{number}", "question": f"What is {number} + 1?", "answer": str(number + 1), **changes}


def lines(*rows: object) -> str:
    return "".join((text if isinstance(text, str) else json.dumps(text)) + "\n" for text in rows)


def split_folder(home: Path, **splits: str) -> Path:
    for name, text in splits.items():
        (home / "splits" / name).mkdir(parents=True, exist_ok=True)
        (home / "splits" / name / "items.jsonl").write_text(text)
    return home / "splits"


def missing_skill(home: Path) -> tuple[list[str], list[str]]:
    return ["--skill_init", "nowhere/skill.md"], ["There is no skill at", "nowhere/skill.md"]


def broken_rows(home: Path) -> tuple[list[str], list[str]]:
    (home / "tasks.jsonl").write_text('\n\n{"id": "t3", "question": \n{"id": "t4"}\n')
    return ["--data_path", "tasks.jsonl"], ["tasks.jsonl, line 3: not JSON"]


def duplicate_ids(home: Path) -> tuple[list[str], list[str]]:
    (home / "tasks.jsonl").write_text(lines(*map(row, range(9)), row(10, id="t3")))
    return ["--data_path", "tasks.jsonl"], ["t3", "more than once"]


def overlapping_splits(home: Path) -> tuple[list[str], list[str]]:
    same = row(1, id="other")
    folder = split_folder(home, train=lines(row(1), row(2)), val=lines(same, row(3)), test=lines(row(4)))
    return ["--split_dir", str(folder)], ["two splits", "t1 (train) = other (val)"]


def empty_val(home: Path) -> tuple[list[str], list[str]]:
    folder = split_folder(home, train=lines(row(1), row(2)), val="", test=lines(row(4)))
    return ["--split_dir", str(folder)], ["val"]


def unknown_scorer(home: Path) -> tuple[list[str], list[str]]:
    return ["--scorer", "exact_mach"], ["exact_mach", "Did you mean 'exact_match'?"]


def missing_tasks(home: Path) -> tuple[list[str], list[str]]:
    return ["--data_path", "no-such.jsonl"], ["no-such.jsonl"]


def unwritable_folder(home: Path) -> tuple[list[str], list[str]]:
    (home / "file").write_text("mine")
    return ["--out_root", "file/run"], ["cannot be written", "--out_root"]


def foreign_folder(home: Path) -> tuple[list[str], list[str]]:
    (home / "mine").mkdir()
    (home / "mine" / "thesis.txt").write_text("years of work")
    return ["--out_root", "mine"], ["not a run of SkillOpt", "--out_root"]


def dollars_without_a_price(home: Path) -> tuple[list[str], list[str]]:
    return ["--budget", "$2"], ["price", "model.target.price"]


def missing_scorer_file(home: Path) -> tuple[list[str], list[str]]:
    return ["--scorer", "score.py:score"], ["there is no file", "score.py"]


def scorer_that_always_fails(home: Path) -> tuple[list[str], list[str]]:
    (home / "score.py").write_text("def score(task, answer):\n    return answr == task.reference\n")
    return ["--scorer", "score.py:score"], ["whatever the answer", "name 'answr' is not defined", "task t"]


def home_of_nobody(key: str) -> Callable[[Path], tuple[list[str], list[str]]]:
    def case(home: Path) -> tuple[list[str], list[str]]:
        path = "~nobody-of-this-name/x"
        return [f"--{key}", path], [path, "home folder of '~nobody-of-this-name' is not known"]

    case.__name__ = f"{key}_in_the_home_of_nobody"
    return case


def name_too_long(key: str) -> Callable[[Path], tuple[list[str], list[str]]]:
    def case(home: Path) -> tuple[list[str], list[str]]:
        return [f"--{key}", "a" * 400], ["aaa", "File name too long"]

    case.__name__ = f"{key}_too_long"
    return case


def skill_linked_to_itself(home: Path) -> tuple[list[str], list[str]]:
    (home / "skill" / "references").mkdir(parents=True)
    (home / "skill" / "SKILL.md").write_text("Answer in one word.\n")
    (home / "skill" / "references" / "loop.md").symlink_to("loop.md")
    return ["--skill_init", "skill"], ["references/loop.md is a link that leads to itself", "Remove it"]


def skill_file_linked_to_itself(home: Path) -> tuple[list[str], list[str]]:
    (home / "skill").mkdir()
    (home / "skill" / "SKILL.md").symlink_to("SKILL.md")
    return ["--skill_init", "skill"], ["skill holds no SKILL.md. Create"]


def value_that_yaml_cannot_make(home: Path) -> tuple[list[str], list[str]]:
    told = ["train.seed: expected a whole number", "env.scorer_options: cannot read the value as YAML"]
    return ["--cfg-options", "train.seed=!!timestamp x", "env.scorer_options={a: !!timestamp x}"], told


CASES: list[Callable[[Path], tuple[list[str], list[str]]]] = [
    missing_skill, broken_rows, duplicate_ids, overlapping_splits, empty_val, unknown_scorer, missing_tasks, unwritable_folder,
    foreign_folder, dollars_without_a_price, missing_scorer_file, scorer_that_always_fails,
    home_of_nobody("skill_init"), home_of_nobody("data_path"), home_of_nobody("out_root"), home_of_nobody("config"),
    name_too_long("skill_init"), name_too_long("data_path"), name_too_long("out_root"), name_too_long("config"),
    skill_linked_to_itself, skill_file_linked_to_itself, value_that_yaml_cannot_make,
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_bad_input_is_said_before_a_call_is_paid(
    case: Callable[[Path], tuple[list[str], list[str]]],
    skillopt: Command,
    provider: LoopbackProvider,
    tmp_path: Path,
) -> None:
    wrong, told = case(tmp_path)
    model = f"compatible:m@{provider.base_url}"
    (tmp_path / "good.jsonl").write_text(lines(*map(row, range(30))))
    data = [] if {"--data_path", "--split_dir"} & set(wrong) else ["--data_path", "good.jsonl"]
    before = contents(tmp_path)
    ran = skillopt("train --env own --target_model", model, "--optimizer_model", model, *data, *wrong)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ")
    assert "Traceback" not in ran.err
    assert [words for words in told if words not in ran.err] == []
    assert provider.calls == 0
    assert {path: text for path, text in contents(tmp_path).items() if path in before} == before


@pytest.mark.slow
def test_the_folder_of_another_run_is_refused_with_the_difference_and_stays_as_it_is(
    skillopt: Command, tmp_path: Path
) -> None:
    small = ("--quiet", "--out_root", "run", "--cfg-options", *SMALL)
    assert skillopt("train quickstart", *small).code == 0
    before = contents(tmp_path / "run")
    ran = skillopt("train quickstart --batch_size 12", *small)
    assert (ran.code, ran.out) == (2, "")
    assert "holds another run" in ran.err
    assert "train.batch_size: 20 there, 12 now" in ran.err and "The skill was changed" not in ran.err
    (tmp_path / "other.md").write_text("# Another skill\n")
    changed = skillopt("train quickstart --skill_init other.md", *small)
    assert changed.code == 2 and "skillopt train --from" in changed.err, changed.err
    after = contents(tmp_path / "run")
    assert {path for path in before if before[path] != after[path]} == set()


@pytest.mark.real
def test_an_endpoint_that_is_not_there_stops_with_its_cause_and_no_score(tmp_path: Path) -> None:
    # As slow as the retries that a passing outage deserves.
    target = ("--target_model", "compatible:m@http://127.0.0.1:9/v1")
    out, err = (
        running := program("train quickstart", *target, "--out_root", "run", cwd=tmp_path)
    ).communicate(timeout=100)
    assert (running.returncode, out) == (3, "")
    assert "stopped: " in err
    assert "127.0.0.1:9" in err
    assert "Traceback" not in err
    assert '"hard"' not in (tmp_path / "run" / "events.jsonl").read_text()


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
