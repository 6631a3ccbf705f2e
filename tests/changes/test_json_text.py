"""A JSON file of a person gets an entry and loses it again, and nothing else in it moves."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillopt.json_text import (
    MISSING,
    NotPlainJson,
    value_at,
    with_item,
    with_member,
    without_item,
    without_member,
)

SERVER = {"command": "/opt/my tools/skillopt", "args": ["mcp"]}
PATH = ("mcpServers", "skillopt")
KEYS = st.sampled_from(["a", "b", "mcpServers", "hooks", 'ü"\\'])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


def test_the_entry_stands_in_the_indentation_and_newlines_of_the_file() -> None:
    text = '{\r\n\t"model": "x",\r\n\t"mcpServers": {\r\n\t\t"mine": {"url": "http://x"}\r\n\t}\r\n}\r\n'
    wanted = (
        '{\r\n\t"model": "x",\r\n\t"mcpServers": {\r\n\t\t"mine": {"url": "http://x"},\r\n\t\t"skillopt":'
        ' {\r\n\t\t\t"command": "/opt/my tools/skillopt",\r\n\t\t\t"args":'
        ' [\r\n\t\t\t\t"mcp"\r\n\t\t\t]\r\n\t\t}\r\n\t}\r\n}\r\n'
    )
    assert with_member(text, PATH, SERVER) == wanted
    assert without_member(wanted, PATH) == text


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "{ }\n",
        '{"a": 1e5, "b": 1.0}',
        '{"mcpServers": {}}',
        '{\n  "mcpServers": {\n  },\n  "z": [1,\n2]}',
        '\ufeff{\n    "a": {"b": "}{,"}\n}\n',
        '{"mcpServers":{"x":{"y":"\\"}"}}}',
    ],
)
def test_what_was_there_is_there_as_it_was_written(text: str) -> None:
    after = with_member(text, PATH, SERVER)
    assert value_at(after, PATH) == SERVER
    bare = without_member(after, PATH)
    assert value_at(bare, PATH) is MISSING
    kept = [word for word in ("1e5", "1.0", "[1,\n2]", '"}{,"', '"\\"}"', "\ufeff") if word in text]
    assert all(word in after and word in bare for word in kept)


@given(st.dictionaries(KEYS, VALUES, max_size=4), st.sampled_from([None, 1, 2, "\t"]))
@pytest.mark.slow
def test_any_object_keeps_its_values_and_comes_back_equal(
    document: dict[str, Any], indent: int | str | None
) -> None:
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    there = document.get("mcpServers", {})
    if not isinstance(there, dict):
        with pytest.raises(NotPlainJson):
            with_member(text, PATH, SERVER)
        return
    after = with_member(text, PATH, SERVER)
    assert json.loads(after) == {**document, "mcpServers": {**there, "skillopt": SERVER}}
    expected = {**document, "mcpServers": there}
    assert json.loads(without_member(after, PATH)) == expected


@pytest.mark.slow
@given(st.lists(VALUES, max_size=3), st.sampled_from([None, 2]))
def test_an_item_goes_to_the_end_of_a_list_and_only_it_comes_out(
    items: list[Any], indent: int | None
) -> None:
    mine = {"hooks": ["ours"]}
    text = json.dumps({"SessionEnd": items, "z": 1}, indent=indent)
    after = with_item(text, ("SessionEnd",), mine)
    assert json.loads(after) == {"SessionEnd": [*items, mine], "z": 1}
    assert json.loads(without_item(after, ("SessionEnd",), mine)) == {"SessionEnd": items, "z": 1}


def test_an_empty_file_and_a_missing_list_are_made() -> None:
    assert json.loads(with_member("", PATH, 1)) == {"mcpServers": {"skillopt": 1}}
    assert json.loads(with_item(" \n", ("SessionEnd",), 1)) == {"SessionEnd": [1]}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"a": 1, // mine\n "b": 2}', "comments or trailing commas"),
        ('{"a": 1,}', "comments or trailing commas"),
        ("/* mine */ {}", "comments or trailing commas"),
        ("[]", "no JSON object"),
        ("{oops", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"mcpServers": 3}', "no object at mcpServers"),
        ('{"mcpServers": {}, "mcpServers": {}}', "twice"),
    ],
)
def test_what_cannot_be_edited_safely_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(NotPlainJson, match=complaint):
        with_member(text, PATH, SERVER)


def test_comments_are_read_over_where_nothing_is_written() -> None:
    text = (
        '{\n  // http://x "quoted"\n  "url": "http://y // no comment, }",\n  "mcpServers": {"skillopt": 1, /*'
        " , */ },\n}"
    )
    assert value_at(text, PATH) == 1
    assert value_at(text, ("url",)) == "http://y // no comment, }"
