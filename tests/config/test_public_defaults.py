"""What the settings page says of the public defaults is true, row by row."""

from __future__ import annotations

from pathlib import Path

import yaml
from _public_defaults import PUBLIC, WHY, differs, public_default

from config._public_files import BASE
from skillopt.benchmarks import benchmarks
from skillopt.config.keys import ALIASES, IGNORED_KEYS, REFUSED_KEYS, declared, describe

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"
ROWS = {
    row.key: row
    for row in [
        *describe(),
        *(each.leaf for each in declared().keys.values()),
        *(row for name in benchmarks.names() for row in describe(name)),
    ]
}
EVERY = {
    (row.key, str(row.default)): row
    for row in [*ROWS.values(), *(row for name in benchmarks.names() for row in describe(name))]
}


def flat(tree, prefix=""):
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def test_every_key_of_the_public_base_file_is_in_the_table_with_its_value():
    names = {"model.optimizer": "model.optimizer.name", "model.target": "model.target.name"}
    copies = (
        "model.optimizer_azure",
        "model.target_azure",
        "model.optimizer_qwen",
        "model.target_qwen",
        "model.optimizer_minimax",
        "model.target_minimax",
    )
    for key, value in flat(yaml.safe_load(BASE.replace("2:1:7", "'2:1:7'"))):
        if key.startswith(copies):
            assert value == ""
            assert key in ROWS
        elif key not in (*IGNORED_KEYS, *REFUSED_KEYS):
            shipped = PUBLIC[names.get(key, key)]
            assert shipped == value or (value == "" and key == "model.azure_openai_auth_mode"), key


def test_every_public_key_is_one_of_ours():
    assert set(PUBLIC) <= set(ROWS)
    assert set(WHY) <= set(PUBLIC)
    assert not set(PUBLIC) & {*IGNORED_KEYS, *REFUSED_KEYS, *ALIASES}


def test_a_difference_has_a_reason_and_agreement_has_none():
    different = {name for (name, _), row in EVERY.items() if name in PUBLIC and differs(name, row.default)}
    assert different == set(WHY)


def test_the_page_shows_our_default_the_public_one_and_why():
    cells = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        parts = [part.strip() for part in line.replace("\\|", "/").strip("|").split("|")]
        if len(parts) == 7 and parts[0].startswith("`"):
            cells.setdefault(parts[0].strip("`"), []).append(parts)
    for key, row in ROWS.items():
        if key not in PUBLIC:
            continue
        for parts in cells[key]:
            shown = public_default(key)
            assert parts[4].strip("`") == (
                "" if shown is None else str(shown).lower() if isinstance(shown, bool) else str(shown)
            )
            assert parts[5] in ("", WHY.get(key))
        if key.startswith(("train.", "optimizer.", "gradient.", "evaluation.")):
            ours = row.default
            assert cells[key][0][3].strip("`") == (
                "" if ours is None else str(ours).lower() if isinstance(ours, bool) else str(ours)
            )
    assert len(cells) > 150
