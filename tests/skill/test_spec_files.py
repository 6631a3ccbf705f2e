from __future__ import annotations

import pytest

from skillopt.skill.spec import file_violations


@pytest.mark.parametrize(
    ("text", "paths", "rules"),
    [
        ("See references/a.md.", ["references/a.md"], []),
        ("See [a](references/a.md) and `scripts/run.py`", ["references/a.md", "scripts/run.py"], []),
        ("See references/a.md, and scripts/run.sh!", [], ["file:references/a.md", "file:scripts/run.sh"]),
        ("Nothing.", ["references/a.md", "scripts/x.py", "assets/l.png"], ["unnamed:references/a.md"]),
        ("See https://example.com/references/a.md or preferences/b.md", [], []),
    ],
)
def test_what_is_amiss_between_a_skill_and_its_files(text: str, paths: list[str], rules: list[str]) -> None:
    assert [one.rule for one in file_violations(text, paths)] == rules
