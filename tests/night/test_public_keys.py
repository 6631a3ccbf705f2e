"""Every public key and option of nights: each does something here, or says why it does not; none is taken in
silence.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest

from cli._commands import run
from skillopt.cli._sleep import ADOPT_ONLY, FLAGS, PUBLIC_ONLY
from skillopt.errors import ConfigError
from skillopt_sleep import NightSettings, read_settings
from skillopt_sleep.settings import DEAD, REFUSED

Fate = Literal["supported", "warned", "refused", "silent"]
KEYS: dict[str, tuple[Any, Fate, str]] = {
    "claude_home": ("~/x", "supported", ""),
    "codex_home": ("~/x", "supported", ""),
    "pi_home": ("~/x", "supported", ""),
    "cursor_home": ("~/x", "supported", ""),
    "vscode_workspace_storage": ("~/x", "supported", ""),
    "copilot_cli_session_store": ("~/x", "supported", ""),
    "opencode_db": ("~/x", "supported", ""),
    "transcript_source": ("codex", "supported", ""),
    "projects": ("all", "supported", ""),
    "invoked_project": ("~/x", "supported", ""),
    "lookback_hours": (12, "supported", ""),
    "max_sessions_per_night": (9, "supported", ""),
    "max_tasks_per_night": (9, "supported", ""),
    "max_tokens_per_night": (9, "supported", ""),
    "holdout_fraction": (0.5, "supported", ""),
    "val_fraction": (0.5, "supported", ""),
    "test_fraction": (0.1, "supported", ""),
    "backend": ("claude", "supported", ""),
    "model": ("openai:m", "supported", ""),
    "optimizer_backend": ("openai", "supported", ""),
    "optimizer_model": ("m", "supported", ""),
    "target_backend": ("openai", "supported", ""),
    "target_model": ("m", "supported", ""),
    "azure_endpoint": ("https://x.openai.azure.com", "refused", "AZURE_OPENAI_ENDPOINT"),
    "gate_mode": ("off", "supported", ""),
    "codex_path": ("/x", "warned", "found on PATH"),
    "pi_path": ("/x", "warned", "found on PATH"),
    "cursor_path": ("/x", "warned", "found on PATH"),
    "opencode_path": ("/x", "warned", "found on PATH"),
    "opencode_tool_replay": (True, "refused", "never replayed as text"),
    "edit_budget": (9, "supported", ""),
    "preferences": ("Be short.", "supported", ""),
    "gate_metric": ("hard", "supported", ""),
    "gate_mixed_weight": (0.1, "supported", ""),
    "gate_no_regression": (True, "supported", ""),
    "replay_mode": ("real", "warned", "said by the models"),
    "dream_rollouts": (3, "supported", ""),
    "dream_factor": (2, "warned", "no variants are written"),
    "recall_k": (3, "warned", "come again by themselves"),
    "evolve_memory": (True, "supported", ""),
    "evolve_skill": (False, "warned", "always works on skills"),
    "llm_mine": (False, "supported", ""),
    "target_skill_path": ("~/x/SKILL.md", "supported", ""),
    "skill_roots": (["~/x"], "supported", ""),
    "target_task_filter": (False, "warned", "the skill its sessions used"),
    "progress": (True, "silent", "progress is always shown"),
    "evidence_log": (False, "warned", "its run folder"),
    "evidence_max_chars": (200, "warned", "its run folder"),
    "multi_skill_fanout": (False, "supported", ""),
    "multi_skill_report": (True, "warned", "multi_skill_fanout"),
    "auto_adopt": (True, "refused", "skillopt sleep adopt"),
    "managed_skill_name": ("mine", "supported", ""),
    "redact_secrets": (False, "refused", "always redacted"),
    "seed": (7, "supported", ""),
    "state_dir": ("~/x", "supported", ""),
}
"""Each public key with a value that is not its default, what becomes of it, and the reason that is told."""
EVERYWHERE: dict[str, Fate] = {
    **dict.fromkeys(
        (
            "project",
            "scope",
            "backend",
            "model",
            "claude-home",
            "codex-home",
            "cursor-home",
            "pi-home",
            "source",
        ),
        "supported",
    ),
    **dict.fromkeys(
        ("vscode-workspace-storage", "copilot-cli-session-store", "opencode-db", "lookback-hours"),
        "supported",
    ),
    **dict.fromkeys(
        ("edit-budget", "max-sessions", "max-tasks", "target-skill-path", "skill-root", "preferences"),
        "supported",
    ),
    **dict.fromkeys(("codex-path", "cursor-path", "pi-path", "opencode-path", "progress"), "warned"),
    **dict.fromkeys(("opencode-tool-replay", "auto-adopt"), "refused"),
}
"""The public options of every command. `--json` and `--tasks-file` are only there where they mean something.
"""
OF_ONE = {
    "harvest": {"output": "supported", "json": "supported"},
    "dry-run": {"tasks-file": "supported", "json": "supported"},
    "run": {"tasks-file": "supported", "json": "supported"},
    "status": {"json": "supported"},
    "adopt": {
        "json": "supported",
        "skill": "supported",
        "staging": "refused",
        "legacy": "refused",
        "all-skills": "warned",
    },
    "schedule": {"hour": "supported", "minute": "supported"},
    "unschedule": {"all": "supported"},
}


@pytest.mark.parametrize("key", KEYS)
def test_what_becomes_of_a_public_key(tmp_path: Path, key: str) -> None:
    value, fate, why = KEYS[key]
    path = tmp_path / "config.json"
    path.write_text(json.dumps({key: value}))
    if fate == "refused":
        with pytest.raises(ConfigError, match=why) as caught:
            read_settings(path)
        assert key in str(caught.value)
        return
    read = read_settings(path)
    if fate == "supported":
        assert read.warnings == () and getattr(read.settings, key) != NightSettings.model_fields[
            key
        ].get_default(call_default_factory=True)
    else:
        assert key in DEAD and why in DEAD[key][0], "a key without effect has its reason"
        assert [why in warning and key in warning for warning in read.warnings] == (
            [True] if fate == "warned" else []
        )


def test_no_key_has_two_fates() -> None:
    ours = set(NightSettings.model_fields)
    assert not ours & set(DEAD) and not ours & set(REFUSED) and not set(DEAD) & set(REFUSED)


@pytest.mark.parametrize("flag", EVERYWHERE)
def test_what_becomes_of_a_public_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: str) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    fate = EVERYWHERE[flag]
    assert (flag in FLAGS, flag in PUBLIC_ONLY) == (fate == "supported", fate != "supported")
    if fate != "supported":
        given = [f"--{flag}"] if PUBLIC_ONLY[flag] is bool else [f"--{flag}", "/x"]
        ran = run("sleep", "status", *given)
        assert ran.code == (2 if fate == "refused" else 0)
        assert f"--{flag} {'is refused' if fate == 'refused' else 'has no effect'}" in ran.err


@pytest.mark.parametrize(
    ("command", "flag"), [(command, flag) for command, flags in OF_ONE.items() for flag in flags]
)
def test_what_becomes_of_an_option_of_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, flag: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    fate = OF_ONE[command][flag]
    if fate == "supported":
        assert f"--{flag}" in run("sleep", command, "--help").out
        return
    ran = run("sleep", command, f"--{flag}", *(["/x"] if ADOPT_ONLY[flag][0] is str else []))
    assert ran.code == 2 and f"--{flag} {'is refused' if fate == 'refused' else 'has no effect'}" in ran.err
    assert fate == "refused" or "proposal" in ran.err.lower(), "nothing is there to adopt"
