"""Every agent's install: repeatable, reversible, and nothing of the person's is ever lost."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import skillopt.plugins as plugins
from plugins._home import EVERYWHERE, KIT, actions, noon, place, put_in, snapshot, states, take_out
from skillopt.changes.actions import JsonEntry, OwnFile, TextLines
from skillopt.changes.apply import FileChange, put
from skillopt.changes.install import Installer
from skillopt.changes.receipts import Receipts, Scope
from skillopt.cli.plugin import agent_names, plugin_of
from skillopt.errors import RunConflict, UsageError
from skillopt.files import lock

JSON_STYLES = (
    '{\n  "theirs": {"deep": [1, 2.50]},\n  "mcpServers": {"other": {"command": "x"}}\n}\n',
    '{\r\n\t"theirs": "ünï",\r\n\t"SessionEnd": [\r\n\t\t{"matcher": "a"}\r\n\t]\r\n}\r\n',
    '{"servers":{"a":1},"mcp":{}}',
    "\ufeff{}",
)
WITH_FILES = [
    one
    for one in EVERYWHERE
    if one not in (("generic", "project"), ("copilot", "project"), ("devin", "user"))
]
TEXT_STYLES = ("# Theirs\n\nAlways.\n", "# Theirs\r\n\r\nno newline at the end", "", "\ufeffwith a mark\n")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "höme with späces"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(("name", "scope"), EVERYWHERE)
def test_an_install_is_repeatable_and_leaves_nothing_behind(home: Path, name: str, scope: Scope) -> None:
    where = place(home, scope)
    before = snapshot(home)
    done = put_in(home, name, where, KIT)
    assert states(done) == {"create"}
    assert all(file.path.is_relative_to(where.root) for file in done.files)
    installed = snapshot(home)
    assert put_in(home, name, where, KIT).is_done
    assert snapshot(home) == installed
    assert states(take_out(home, name, where)) == {"remove"}
    assert snapshot(home) == before


@pytest.mark.parametrize(("name", "scope"), EVERYWHERE)
@pytest.mark.parametrize("style", range(4))
def test_over_files_of_the_person_everything_of_theirs_stays_and_comes_back_byte_for_byte(
    home: Path, name: str, scope: Scope, style: int
) -> None:
    where = place(home, scope)
    theirs = {}
    for action in actions(name, where):
        path = Path(action.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "theirs.md").write_text("mine")
        if isinstance(action, JsonEntry):
            theirs[path] = JSON_STYLES[style].encode()
        elif isinstance(action, TextLines):
            theirs[path] = ("[a]\nb = 1\n" if path.suffix == ".toml" else TEXT_STYLES[style]).encode()
    for path, data in theirs.items():
        path.write_bytes(data)
        path.chmod(0o600)
    before = snapshot(home)
    for _ in range(2):
        put_in(home, name, where, KIT)
    for path, data in theirs.items():
        after = path.read_bytes()
        if path.suffix == ".json":
            was, now = (json.loads(text.decode("utf-8-sig")) for text in (data, after))
            assert _contains(now, was)
            assert now != was
        else:
            assert after.startswith(data)
            assert after != data
        assert path.stat().st_mode & 0o777 == 0o600
    take_out(home, name, where)
    assert snapshot(home) == before


@pytest.mark.parametrize(("name", "scope"), WITH_FILES)
def test_a_file_of_theirs_at_a_path_of_ours_is_named_and_nothing_is_written(
    home: Path, name: str, scope: Scope
) -> None:
    where = place(home, scope)
    own = [Path(action.path) for action in actions(name, where) if isinstance(action, OwnFile)]
    own[-1].parent.mkdir(parents=True, exist_ok=True)
    own[-1].write_text("theirs")
    before = snapshot(home)
    with pytest.raises(UsageError, match="is left alone") as error:
        put_in(home, name, where, KIT)
    assert str(own[-1]) in str(error.value)
    assert snapshot(home) == before


@pytest.mark.parametrize(("name", "scope"), EVERYWHERE)
def test_what_was_changed_since_keeps_the_change_and_loses_only_our_part(
    home: Path, name: str, scope: Scope
) -> None:
    where = place(home, scope)
    put_in(home, name, where, KIT)
    for action in actions(name, where):
        path = Path(action.path)
        text = path.read_bytes().decode()
        if isinstance(action, JsonEntry):
            path.write_text(json.dumps({"added": "later", **json.loads(text)}), newline="")
        else:
            path.write_text(text + "\n[added-later]\n", newline="")
    done = take_out(home, name, where)
    assert "restore" not in states(done)
    for action in actions(name, where):
        text = Path(action.path).read_text()
        assert "later" in text
        if isinstance(action, JsonEntry):
            assert json.loads(text) == {"added": "later"}
        elif isinstance(action, TextLines):
            assert action.content.splitlines()[0] not in text
    left = {file.path for file in done.files if file.state == "left"}
    assert left == {Path(action.path) for action in actions(name, where) if isinstance(action, OwnFile)}


@pytest.mark.parametrize(("name", "scope"), EVERYWHERE)
def test_an_update_replaces_what_is_ours_and_an_uninstall_still_gives_the_first_bytes_back(
    home: Path, name: str, scope: Scope
) -> None:
    where = place(home, scope)
    for action in actions(name, where):
        if isinstance(action, TextLines):
            Path(action.path).parent.mkdir(parents=True, exist_ok=True)
            Path(action.path).write_text("theirs\n")
    before = snapshot(home)
    put_in(home, name, where, KIT)
    newer = replace(KIT, version="10.0.0", program=replace(KIT.program, argv=("/new/skillopt",)))
    put_in(home, name, where, newer)
    texts = "".join(Path(action.path).read_text() for action in actions(name, where, newer))
    assert "/new/skillopt" in texts or "10.0.0" in texts
    assert "/opt/my tools" not in texts
    assert "9.8.7" not in texts
    take_out(home, name, where)
    assert snapshot(home) == before


@pytest.mark.parametrize(("name", "scope"), EVERYWHERE)
def test_when_a_file_cannot_be_written_everything_is_put_back(home: Path, name: str, scope: Scope) -> None:
    where = place(home, scope)
    last = Path(actions(name, where)[-1].path)
    before = snapshot(home)

    def failing(change: FileChange) -> bool:
        put(change)
        if change.file.path == last:
            raise PermissionError(13, "Permission denied")
        return True

    with pytest.raises(UsageError, match="cannot be written"):
        put_in(home, name, where, KIT, put=failing)
    assert snapshot(home) == before


def test_an_update_that_fails_leaves_the_install_of_before(home: Path) -> None:
    put_in(home, "codex", place(home), KIT)
    before = snapshot(home)

    def failing(change: FileChange) -> bool:
        if change.file.name == "SKILL.md" and b"10.0.0" in (change.after or b""):
            raise OSError(28, "No space left on device")
        return put(change)

    with pytest.raises(UsageError, match="No space left"):
        put_in(home, "codex", place(home), replace(KIT, version="10.0.0"), put=failing)
    assert snapshot(home) == before


def test_an_update_that_was_killed_half_way_can_still_be_taken_back(home: Path) -> None:
    before = snapshot(home)
    put_in(home, "codex", place(home), KIT)
    first = {
        path: path.read_bytes()
        for path in home.rglob("*")
        if path.is_file() and ".skillopt-sleep" not in path.parts
    }
    put_in(home, "codex", place(home), replace(KIT, version="10.0.0"))
    for path in list(first)[::2]:  # as if these had not been reached
        path.write_bytes(first[path])
    take_out(home, "codex", place(home))
    assert snapshot(home) == before


@pytest.mark.skipif(os.name == "nt", reason="permissions are those of Unix")
def test_a_folder_that_cannot_be_written_is_named_and_nothing_is_left() -> None:
    open_to_all = next(
        (
            one
            for one in ("/tmp", "/var/tmp", "/dev/shm")
            if Path(one).is_dir() and Path(one).stat().st_mode & 0o003 == 3
        ),
        None,
    )
    if open_to_all is None:
        pytest.skip("there is no folder for everybody here")
    with (
        tempfile.TemporaryDirectory(prefix="skillopt-plugins-", dir=open_to_all) as name,
        _without_privileges(Path(name)),
    ):
        home = Path(name)
        (home / ".agents").mkdir()
        (home / ".agents").chmod(0o500)
        before = snapshot(home)
        with pytest.raises(UsageError, match=r"\.agents.* cannot be written: Permission denied"):
            put_in(home, "codex", place(home), KIT)
        assert snapshot(home) == before


def test_something_that_is_no_folder_is_named(home: Path) -> None:
    (home / ".agents").write_text("theirs")
    before = snapshot(home)
    with pytest.raises(UsageError, match=r"\.agents is in the way"):
        put_in(home, "codex", place(home), KIT)
    assert snapshot(home) == before


def test_a_linked_file_of_theirs_is_written_through_its_link_and_comes_back(home: Path) -> None:
    real = home / "dotfiles" / "codex.toml"
    real.parent.mkdir()
    real.write_text('model = "m"\n')
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").symlink_to(real)
    before = snapshot(home)
    put_in(home, "codex", place(home), KIT)
    assert (home / ".codex" / "config.toml").is_symlink()
    assert "mcp_servers.skillopt" in real.read_text()
    take_out(home, "codex", place(home))
    assert snapshot(home) == before


@pytest.mark.parametrize("dangling", [True, False])
def test_a_link_at_a_path_of_ours_is_left_alone(home: Path, dangling: bool) -> None:
    skill = home / ".agents" / "skills" / "skillopt" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    target = home / "elsewhere.md"
    if not dangling:
        target.write_text("theirs")
    skill.symlink_to(target)
    before = snapshot(home)
    with pytest.raises(UsageError, match="is a link"):
        put_in(home, "codex", place(home), KIT)
    assert snapshot(home) == before


def test_a_link_in_a_project_does_not_lead_out_of_it(home: Path) -> None:
    where = place(home, "project")
    secret = home / "keys"
    secret.write_text("theirs\n")
    (where.root / "AGENTS.md").symlink_to(secret)
    with pytest.raises(UsageError, match="leads out of the project"):
        put_in(home, "generic", where, KIT)
    (where.root / "AGENTS.md").unlink()
    outside = home / "outside"
    outside.mkdir()
    (where.root / ".github").symlink_to(outside)
    with pytest.raises(UsageError, match="leads out of the project"):
        put_in(home, "copilot", where, KIT)
    assert secret.read_text() == "theirs\n"
    assert not list(outside.iterdir())


def test_settings_with_comments_are_left_alone_until_the_entry_was_pasted(home: Path) -> None:
    settings = home / ".cursor" / "mcp.json"
    settings.parent.mkdir()
    settings.write_text('{\n  // mine\n  "mcpServers": {},\n}\n')
    before = snapshot(home)
    with pytest.raises(UsageError, match="put this in by hand") as error:
        put_in(home, "cursor", place(home), KIT)
    assert snapshot(home) == before
    pasted = json.loads(str(error.value).partition("install again:\n")[2])
    settings.write_text(f'{{\n  // mine\n  "mcpServers": {json.dumps(pasted["mcpServers"])},\n}}\n')
    theirs = settings.read_bytes()
    put_in(home, "cursor", place(home), KIT)
    assert settings.read_bytes() == theirs
    take_out(home, "cursor", place(home))
    assert settings.read_bytes() == theirs


def test_opencode_settings_in_a_jsonc_file_are_the_ones_that_count(home: Path) -> None:
    settings = home / ".config" / "opencode" / "opencode.jsonc"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"theme": "x"}')
    put_in(home, "opencode", place(home), KIT)
    assert json.loads(settings.read_text())["mcp"]["skillopt"]["command"] == [*KIT.program.argv, "mcp"]
    assert not settings.with_suffix(".json").exists()


@pytest.mark.parametrize(
    "text",
    [
        '[mcp_servers.skillopt]\ncommand = "mine"\n',
        '[ mcp_servers . "skillopt" ]\ncommand = "mine"\n',
        '[mcp_servers.skillopt.env]\nA = "b"\n',
        'mcp_servers = { a = { command = "x" } }\n',
        'mcp_servers.skillopt.command = "x"\n',
    ],
)
def test_a_server_of_our_name_in_codex_settings_is_left_alone(home: Path, text: str) -> None:
    settings = home / ".codex" / "config.toml"
    settings.parent.mkdir()
    settings.write_text(text)
    with pytest.raises(UsageError, match="already has"):
        put_in(home, "codex", place(home), KIT)
    assert settings.read_text() == text


def test_a_table_that_builds_on_our_server_keeps_it(home: Path) -> None:
    put_in(home, "codex", place(home), KIT)
    settings = home / ".codex" / "config.toml"
    settings.write_text(settings.read_text() + '\n[mcp_servers.skillopt.env]\nA = "b"\n')
    before = settings.read_text()
    done = take_out(home, "codex", place(home))
    assert [file.state for file in done.files if file.path == settings] == ["left"]
    assert settings.read_text() == before


def test_another_entry_of_our_name_is_left_alone(home: Path) -> None:
    settings = home / ".cursor" / "mcp.json"
    settings.parent.mkdir()
    settings.write_text('{"mcpServers": {"skillopt": {"command": "mine"}}}')
    with pytest.raises(UsageError, match=r"another mcpServers\.skillopt"):
        put_in(home, "cursor", place(home), KIT)


def test_all_that_is_in_the_way_is_named_at_once(home: Path) -> None:
    (home / ".cursor").mkdir()
    (home / ".cursor" / "mcp.json").write_text("[]")
    skill = home / ".cursor" / "plugins" / "local" / "skillopt" / "skills" / "skillopt" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("theirs")
    with pytest.raises(UsageError) as error:
        put_in(home, "cursor", place(home), KIT)
    assert "mcp.json" in str(error.value)
    assert "SKILL.md" in str(error.value)


def test_a_file_that_is_not_utf8_is_left_alone(home: Path) -> None:
    where = place(home, "project")
    (where.root / "AGENTS.md").write_bytes(b"caf\xe9\n")
    with pytest.raises(UsageError, match="not UTF-8"):
        put_in(home, "generic", where, KIT)


def test_a_changed_file_of_ours_stops_an_update_and_is_named(home: Path) -> None:
    put_in(home, "openclaw", place(home), KIT)
    skill = home / ".openclaw" / "skills" / "skillopt" / "SKILL.md"
    skill.write_text(skill.read_text() + "mine\n")
    with pytest.raises(UsageError, match=r"SKILL\.md is there"):
        put_in(home, "openclaw", place(home), replace(KIT, version="10.0.0"))
    assert skill.read_text().endswith("mine\n")


def test_a_file_that_was_removed_meanwhile_comes_again_and_goes_without_complaint(home: Path) -> None:
    where = place(home)
    before = snapshot(home)
    put_in(home, "openclaw", where, KIT)
    skill = home / ".openclaw" / "skills" / "skillopt" / "SKILL.md"
    skill.unlink()
    assert states(put_in(home, "openclaw", where, KIT)) == {"create", "unchanged"}
    skill.unlink()
    take_out(home, "openclaw", where)
    assert snapshot(home) == before


def test_an_entry_that_was_there_before_us_stays_whatever_happens_since(home: Path) -> None:
    where = place(home)
    [entry] = [action for action in actions("cursor", where) if isinstance(action, JsonEntry)]
    settings = Path(entry.path)
    settings.parent.mkdir()
    settings.write_text(entry.snippet())
    put_in(home, "cursor", where, KIT)
    later = json.dumps({**json.loads(entry.snippet()), "later": 1})
    settings.write_text(later)
    take_out(home, "cursor", where)
    assert settings.read_text() == later


def test_all_agents_together_leave_nothing_behind_in_any_order(home: Path) -> None:
    names = agent_names()
    places = {name: place(home, plugin_of(name).scopes[0]) for name in names}
    before = snapshot(home)
    for name in names:
        put_in(home, name, places[name], KIT)
    for name in names[1::2] + names[::2]:
        take_out(home, name, places[name])
    assert snapshot(home) == before


def test_no_two_agents_write_the_same_file(home: Path) -> None:
    for scope in ("user", "project"):
        where = place(home, scope)  # type: ignore[arg-type]
        paths = [
            action.path
            for name in agent_names()
            if scope in plugin_of(name).scopes
            for action in actions(name, where)
        ]
        assert len(set(paths)) == len(paths)


def test_receipts_are_for_the_persons_eyes_only(home: Path) -> None:
    settings = home / ".cursor" / "mcp.json"
    settings.parent.mkdir()
    settings.write_text('{"token": "secret"}')
    put_in(home, "cursor", place(home), KIT)
    state = home / ".skillopt-sleep"
    [receipt] = (state / "plugins").glob("*.json")
    assert receipt.stat().st_mode & 0o777 == 0o600
    assert state.stat().st_mode & 0o777 == 0o700
    assert (state / "plugins").stat().st_mode & 0o777 == 0o700


def test_an_install_beside_one_that_does_not_end_is_refused(home: Path) -> None:
    impatient = Installer(receipts=Receipts(state=home / ".skillopt-sleep", patience=0.0), now=noon)
    with lock(home / ".skillopt-sleep" / "plugins" / "install.lock"), pytest.raises(RunConflict):
        impatient.install(place(home).install("codex"), actions("codex", place(home)), "1")
    assert not (home / ".agents").exists()


def test_installs_at_the_same_moment_wait_for_each_other_and_leave_nothing_behind(home: Path) -> None:
    before = snapshot(home)

    def in_and_out(name: str) -> None:
        for _ in range(3):
            put_in(home, name, place(home), KIT)
            take_out(home, name, place(home))

    with ThreadPoolExecutor() as several:
        list(several.map(in_and_out, ("codex", "openclaw", "cursor")))
    assert snapshot(home) == before


def test_a_folder_that_the_last_uninstall_removes_at_this_moment_is_made_again(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two at the same moment: one goes and removes the state folder while the other makes what is below it."""
    state, made, others = home / ".skillopt-sleep", Path.mkdir, [True]

    def mkdir(path: Path, *args: Any, **kwargs: Any) -> None:
        if path == state / "plugins" and others:
            others.pop()
            state.rmdir()
        made(path, *args, **kwargs)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    before = snapshot(home)
    put_in(home, "codex", place(home), KIT)
    assert not others
    take_out(home, "codex", place(home))
    assert snapshot(home) == before


def test_a_receipt_that_cannot_be_read_is_never_taken_for_none(home: Path) -> None:
    put_in(home, "codex", place(home), KIT)
    [receipt] = (home / ".skillopt-sleep" / "plugins").glob("*.json")
    receipt.write_text("{}")
    with pytest.raises(UsageError, match="cannot be read as the receipt"):
        take_out(home, "codex", place(home))
    with pytest.raises(UsageError, match="cannot be read as the receipt"):
        put_in(home, "codex", place(home), KIT)
    put_in(home, "openclaw", place(home), KIT)  # the others go on
    take_out(home, "openclaw", place(home))
    assert not (home / ".openclaw").exists()


def test_variables_of_the_agents_say_where_their_folders_are(home: Path) -> None:
    named = {"CLAUDE_CONFIG_DIR": "c", "CODEX_HOME": "x", "COPILOT_HOME": "p", "XDG_CONFIG_HOME": "g"}
    where = replace(place(home), env={name: str(home / folder) for name, folder in named.items()})
    for name, folder in (
        ("claude-code", "c"),
        ("codex", "x"),
        ("copilot", "p"),
        ("opencode", "g"),
        ("devin", "g"),
    ):
        assert any(Path(action.path).is_relative_to(home / folder) for action in actions(name, where))


@contextmanager
def _without_privileges(folder: Path) -> Iterator[None]:
    """Root may write everywhere, so it becomes nobody for a while; the folder is nobody's then."""
    if os.geteuid() != 0:
        yield
        return
    nobody = 65534
    os.chown(folder, nobody, nobody)
    os.seteuid(nobody)
    try:
        if not os.access(plugins.__file__, os.R_OK, effective_ids=True):
            pytest.skip("this checkout lies in a folder that is closed to other users")
        yield
    finally:
        os.seteuid(0)


def _contains(now: object, was: object) -> bool:
    """Whether everything of a document is still in it."""
    if isinstance(was, dict) and isinstance(now, dict):
        return all(key in now and _contains(now[key], value) for key, value in was.items())
    if isinstance(was, list) and isinstance(now, list):
        return now[: len(was)] == was
    return now == was
