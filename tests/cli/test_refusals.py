"""What a command cannot work on, or does not know, ends with 2 and one sentence; nothing is written."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from cli._commands import SMALL, Command
from cli.test_bad_input import contents

VAL = f"eval quickstart --split val --cfg-options {' '.join(SMALL)}"
REFUSALS = [
    ("trian", "Did you mean 'train'?"),
    ("train --bacth_size 3", "--batch_size"),
    ("train plain", "The folder 'plain' holds no train.yaml"),
    ("train quickstart --config searchqa", "Two configs"),
    ("train quickstart --target world --target_model world", "--target and --target_model both name a model"),
    ("train quickstart --optimizer world --optimizer_model world", "--optimizer and --optimizer_model both"),
    ("init -- Demo", "cannot be the name of a skill"),
    ("init -- demo_skill", "cannot be the name of a skill"),
    ("init -- -demo", "cannot be the name of a skill"),
    ("init -- demo--skill", "cannot be the name of a skill"),
    (f"init -- {'x' * 65}", "cannot be the name of a skill"),
    ("eval quickstart", "--skill"),
    ("eval quickstart --skill none --split tset", "test"),
    ("eval quickstart --skill gone.md", "gone.md"),
    ("eval quickstart --skill none --run nowhere", "holds no run"),
    ("eval quickstart --skill none --run plain", "holds no run"),
    (f"{VAL} --skill none --against none", "a comparison needs two"),
    (f"{VAL} --skill none --against gone.md", "gone.md"),
    (f"{VAL} --skill none --repeats 0", "repeats"),
    (f"{VAL} --against none", "--skill"),
    (f"{VAL} --skill begun", "no best_skill.md"),
    ("runs nowhere", "There is no folder nowhere"),
    ("runs run nowhere", "nowhere"),
    ("runs run plain", "holds no run"),
    ("runs list run --compare", "needs two"),
    ("runs watch", "There is no run in"),
    ("runs watch plain", "There is no run in"),
    ("runs watch nowhere", "There is no run in"),
    ("runs watch nowhere --once", "There is no run in"),
    ("runs watch begun --once", "has not begun"),
    ("runs explain plain 1", "There is no run in"),
    ("runs explain run 99", "no verdict"),
    ("runs explain run first", "'epoch-N'"),
    ("runs explain run epoch-9", "no verdict"),
    ("runs explain run 1/half-3", "'N/c1'"),
    ("runs explain run 1/c7", "no verdict"),
    ("runs explain run 1/c9", "holds no verdict on '1/c9'; that step has 1/c0"),
    ("runs show run nope", "nope"),
    ("runs diff nope", "error: There is neither a run nor a skill at nope.\n"),
    ("runs diff a.md", "a.md is no run folder"),
    ("runs diff a.md gone.md", "gone.md"),
    ("runs prune nowhere", "There is no run in nowhere"),
    ("report nowhere", "There is no run in nowhere"),
    ("report run --out page.txt", "ends in .html"),
    ("report run --out run/events.jsonl/page.html", "cannot be written"),
    ("report run --out plain.html", "is a folder"),
    ("report run --page", "--page and --no-open go with --replay"),
    ("report run --replay --json", "--out and --json go with --replay --page"),
    ("adopt plain --to codex --yes", "no run"),
    ("adopt run --to claud-code --yes --force", "Did you mean 'claude-code'? A folder is ./claud-code"),
    ("adopt run --to elsewhere --user", "go with --to AGENT"),
    ("config list modles", "Did you mean 'models'?"),
    ("config data own --manifest x --source y", "not made from ids"),
    # Old names, and those of other programs.
    ("explain 'outputs/a b' 2/c0 --all", "write 'skillopt runs explain 'outputs/a b' 2/c0 --all'."),
    ("diff a b", "write 'skillopt runs diff a b'."),
    ("prune outputs/a --json", "write 'skillopt runs prune outputs/a --json'."),
    ("replay outputs/a --page", "write 'skillopt report --replay outputs/a --page'."),
    ("noise demo", "write 'skillopt estimate --noise demo'."),
    ("list benchmarks", "write 'skillopt config list benchmarks'."),
    ("cache", "write 'skillopt config cache'."),
    ("data searchqa", "write 'skillopt config data searchqa'."),
    ("export outputs/a --to codex", "write 'skillopt adopt RUN --to AGENT'."),
    ("undo outputs/a", "write 'skillopt adopt --undo outputs/a'."),
    ("status", "write 'skillopt runs'."),
    ("run demo", "write 'skillopt train demo'."),
]


@pytest.mark.parametrize(("line", "told"), REFUSALS, ids=[line[:70] for line, _ in REFUSALS])
def test_a_command_refuses_with_a_sentence_and_writes_nothing(
    skillopt: Command, finished: Path, line: str, told: str
) -> None:
    shutil.copytree(finished, "run")
    for name in ("plain", "plain.html", "begun"):
        Path(name).mkdir()
    for name in ("begun/events.jsonl", "begun/run.db", "a.md"):
        Path(name).touch()
    before = contents(Path())
    ran = skillopt(*shlex.split(line))
    assert (ran.code, ran.out) == (2, "")
    assert told in ran.err and "Traceback" not in ran.err
    assert contents(Path()) == before
