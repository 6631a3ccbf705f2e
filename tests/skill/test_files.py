from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillopt.errors import SkillError
from skillopt.skill.document import MOST_CHARS, MOST_FILES, Document, EditableFiles, as_prompt, pack, unpack
from skillopt.skill.edits import Edit, PatchResult, apply, parse_edit

MAIN = "---\nname: demo\ndescription: d\n---\n# Demo\n\nFor dates read references/dates.md.\n"
DATES = "# Dates\r\n\r\n- Day first.\r\n"
FOLDER = Document(MAIN, {"references/dates.md": DATES, "references/zones.md": "- UTC"})
TRAINED = EditableFiles(references=True)


def states(applied: PatchResult) -> list[str]:
    return [outcome.state for outcome in applied.outcomes]


def to(path: str, op: str = "append", target: str = "", content: str = "") -> Edit:
    return Edit(op, target, content, path=path)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40).filter(lambda t: "<!--" not in t)


@settings(max_examples=60)
@given(
    texts, st.dictionaries(st.sampled_from(["references/a.md", "references/b/c.md", "scripts/x.py"]), texts)
)
def test_every_byte_of_every_file_comes_back(text: str, files: dict[str, str]) -> None:
    assert unpack(pack(text, files)) == (text, files)
    document = Document(text, files)
    assert Document.of(document.whole) == document
    assert document.whole == text if not files else document.whole != text


def test_a_skill_of_one_document_is_that_document() -> None:
    document = Document(MAIN)
    assert document.whole == document.rendered == MAIN
    assert Document.of(MAIN) == document


def test_a_line_that_separates_files_is_refused_in_a_file() -> None:
    with pytest.raises(SkillError, match=r"references/a\.md holds a line"):
        Document(MAIN, {"references/a.md": "<!-- SKILL_FILE SKILL.md -->"})
    with pytest.raises(SkillError, match=r"SKILL\.md holds a line"):
        Document("x\n<!-- SKILL_FILE references/a.md -->\ny")
    applied = apply([to("references/dates.md", content="x\n<!-- skill_file x -->")], FOLDER)
    assert states(applied) == ["invalid"]


def test_an_edit_changes_the_file_that_it_names_and_no_other_byte() -> None:
    applied = apply(
        [
            to("references/dates.md", "replace", "Day first.", "Year first."),
            to("references/dates.md", content="- Use hyphens."),
            to("references/zones.md", content="- Name the zone."),
            to("SKILL.md", content="- Check twice."),
        ],
        FOLDER,
    )
    assert states(applied) == ["applied"] * 4
    assert applied.document.files == {
        "references/dates.md": "# Dates\r\n\r\n- Year first.\r\n- Use hyphens.\r\n",
        "references/zones.md": "- UTC\n- Name the zone.",
    }
    assert applied.document.text == MAIN + "- Check twice.\n"


def test_a_target_is_looked_for_in_its_own_file_only() -> None:
    applied = apply([Edit("replace", "Day first.", "x"), to("references/zones.md", "delete", "Day")], FOLDER)
    assert states(applied) == ["unmatched", "unmatched"]
    assert applied.document == FOLDER


def test_the_same_words_for_two_files_are_two_edits() -> None:
    applied = apply(
        [to("references/dates.md", content="- x"), to("references/zones.md", content="- x")], FOLDER
    )
    assert states(applied) == ["applied", "applied"]


def test_a_new_file_is_named_in_the_skill_once() -> None:
    applied = apply(
        [
            to("references/units.md", content="# Units\n\n- Metres."),
            to("references/units.md", content="- Kilos."),
        ],
        FOLDER,
    )
    assert states(applied) == ["applied", "applied"]
    assert applied.document.files["references/units.md"] == "# Units\n\n- Metres.\n- Kilos.\n"
    assert applied.document.text == MAIN + "- [references/units.md](references/units.md): Units\n"
    said = Edit("append", content="Units stand in references/units.md.")
    applied = apply([to("references/units.md", content="- Metres."), said], FOLDER)
    assert applied.document.text == MAIN + "Units stand in references/units.md.\n"


def test_only_an_append_makes_a_file() -> None:
    applied = apply([to("references/units.md", "replace", "a", "b")], FOLDER)
    assert [(one.state, one.reason) for one in applied.outcomes] == [
        ("unmatched", "there is no file references/units.md")
    ]
    assert applied.document == FOLDER


def test_regions_and_frontmatter_of_the_skill_keep_the_other_files() -> None:
    with_region = FOLDER.with_region("slow_update", "Look twice.")
    assert with_region.files == FOLDER.files
    assert with_region.with_region("slow_update", "") == FOLDER
    assert Document.of(with_region.rendered).files == FOLDER.files
    assert "SLOW_UPDATE" not in with_region.rendered


UNSAFE = [
    "/etc/passwd", "references/../SKILL.md", "../references/a.md", "references//a.md", "references/./a.md",
    "references/.hidden.md", ".references/a.md", "references\\a.md", "C:/references/a.md", "references/a.txt",
    "references/a", "references", "references/", "scripts/", "assets/a.md", "a.md", "skill.md", "SKILL.MD",
    "references/con.md", "references/Aux.md", "references/a.md ", "references/a./b.md", "references/a\n.md",
    "references/a\0.md", "references/\u202ea.md", "references/-a.md", "~/references/a.md", "references/a\u0301.md",
    f"references/{'a' * 200}.md", "references/1/2/3/4/5.md", "evals/evals.json", ".git/hooks/x", "scripts/.env",
    "references/a.md/../../x", "file:references/a.md", "references/%2e%2e/x.md\0",
]  # fmt: skip


@pytest.mark.parametrize("path", UNSAFE)
def test_a_bad_path_is_an_unusable_edit_and_never_a_file(path: str) -> None:
    applied = apply([to(path, content="x")], FOLDER)
    assert states(applied) == ["invalid"] and applied.outcomes[0].reason.startswith("path ")
    assert applied.document == FOLDER
    read = parse_edit(
        {"op": "append", "content": "x", "path": path}, "e1", EditableFiles(references=True, scripts=True)
    )
    assert read.problem
    with pytest.raises(SkillError):
        Document(MAIN, {path: "x"})


@pytest.mark.parametrize(
    "path", ["references/Dates.md", "references/dates.md/more.md", "references/DATES.MD.md"]
)
def test_a_path_that_another_system_would_take_for_a_known_one_is_unusable(path: str) -> None:
    taken = path != "references/DATES.MD.md"
    assert states(apply([to(path, content="x")], FOLDER)) == ["invalid" if taken else "applied"]


@pytest.mark.parametrize(
    ("path", "files", "problem"),
    [
        (None, EditableFiles(), ""),
        ("SKILL.md", EditableFiles(), ""),
        ("references/a.md", EditableFiles(), "the skill is one document"),
        ("references/a.md", TRAINED, ""),
        ("scripts/a.py", TRAINED, "scripts/a.py is not trained (skill.scripts)"),
        ("scripts/a.py", EditableFiles(references=True, scripts=True), ""),
        (7, TRAINED, "path is int 7"),
        ("references/big.md", EditableFiles(references=True, taken=frozenset({"references/BIG.md"})), "cannot be"),
    ],
)  # fmt: skip
def test_which_files_a_proposal_may_name(path: object, files: EditableFiles, problem: str) -> None:
    edit = parse_edit({"op": "append", "content": "x", "path": path}, "e1", files)
    assert problem in edit.problem and bool(problem) == bool(edit.problem)


def test_an_edit_shows_its_path_unless_it_is_the_skill_itself() -> None:
    said = {"op": "append", "path": "references/a.md", "content": "x", "support_count": 2}
    assert parse_edit(said, "e1", TRAINED).as_json() == said
    assert parse_edit({"op": "append", "content": "x", "path": "SKILL.md"}, "e1").as_json() == {
        "op": "append",
        "content": "x",
    }


def test_files_are_few_and_short() -> None:
    full = Document(MAIN, {f"references/{n}.md": "x" for n in range(MOST_FILES)})
    assert states(apply([to("references/one-more.md", content="x")], full)) == ["invalid"]
    assert states(apply([to("references/3.md", content="x")], full)) == ["applied"]
    long = "x" * (MOST_CHARS - 2)
    assert states(apply([to("references/dates.md", content=long)], FOLDER)) == ["invalid"]
    long_already = Document(MAIN, {"references/a.md": f"{long}long\n- y\n"})
    assert states(apply([to("references/a.md", "delete", "- y\n")], long_already)) == ["applied"]


def test_a_file_that_is_no_readable_document_is_left_alone() -> None:
    odd = Document(MAIN, {"references/a.md": "<!-- SLOW_UPDATE_START -->\n"})
    applied = apply([to("references/a.md", content="x")], odd)
    assert states(applied) == ["protected"] and applied.document == odd


def test_a_target_without_files_is_shown_the_references_that_the_skill_mentions() -> None:
    assert as_prompt(MAIN) == MAIN
    shown = as_prompt(FOLDER.rendered)
    assert (
        shown == MAIN.rstrip() + '\n\n<file path="references/dates.md">\n# Dates\r\n\r\n- Day first.\n</file>'
    )
