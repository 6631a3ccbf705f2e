"""How each agent CLI is started: golden arguments and environments, prompts and keys never on the command
line.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agents._places import KEY, PLACE, PROMPT, access, ask, work
from skillopt.agents import driven, driver
from skillopt.errors import ConfigError, UnknownName
from skillopt.programs.port import Access, Launch
from skillopt.programs.run import unpacked

LOCAL = "http://127.0.0.1:1/v1"
POINTED = {
    "claude_code": "anthropic",
    "codex": "compatible",
    "copilot": "compatible",
    "opencode": "compatible",
    "cursor": "own",
}
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
    "CLAUDE_CODE_DISABLE_BUNDLED_SKILLS": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    "CLAUDE_CODE_MAX_RETRIES": "3",
    "CLAUDE_CODE_TMPDIR": "/r/tmp",
}
OFF = "apps plugins remote_plugin multi_agent goals image_generation memories hooks"


def pointed(name: str) -> Access:
    """The access a target has: a provider where the CLI can be pointed at one."""
    provider = POINTED[name]
    return access(provider, base_url=None if provider == "own" else LOCAL)


def test_the_folder_is_the_registry_and_a_near_miss_is_named() -> None:
    assert driven() == ["claude_code", "codex", "copilot", "cursor", "opencode"]
    with pytest.raises(UnknownName, match="Did you mean 'codex'"):
        driver("codexx")


def test_claude_code_at_work() -> None:
    launch = driver("claude_code").work(work(pointed("claude_code")))
    tools = "Bash,Read,Edit,Write,Glob,Grep,Skill"
    assert launch.arguments == (
        *("--print", "--output-format", "stream-json", "--verbose", "--strict-mcp-config", "--model", "m1"),
        *(
            "--permission-mode",
            "acceptEdits",
            "--tools",
            tools,
            "--allowedTools",
            tools,
            "--setting-sources",
            "project",
        ),
    )
    assert launch.env == {
        **QUIET,
        "CLAUDE_CONFIG_DIR": "/r/home/.claude",
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:1",
    }
    assert (launch.stdin, launch.own_home) == (f"/house-style {PROMPT}", False)


def test_claude_code_is_asked_without_tools_skills_or_settings() -> None:
    launch = driver("claude_code").ask(ask(access()))
    assert launch.arguments == (
        *("--print", "--output-format", "stream-json", "--verbose", "--strict-mcp-config", "--model", "m1"),
        *("--system-prompt-file", "/r/system.md", "--tools", "", "--setting-sources", ""),
        *("--disable-slash-commands", "--no-session-persistence"),
    )
    assert launch.files == {Path("/r/system.md"): "Be terse."}
    assert launch.env["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == "77"


def test_claude_code_is_shown_images_with_the_question_and_needs_no_tool_to_read_them(tmp_path: Path) -> None:
    image = tmp_path / "image-1.jpg"
    image.write_bytes(b"jpg")
    launch = driver("claude_code").ask(ask(access(), images=(image,)))
    assert launch.arguments[-2:] == ("--input-format", "stream-json")
    source = {"type": "base64", "media_type": "image/jpeg", "data": "anBn"}
    told = {
        "role": "user",
        "content": [{"type": "text", "text": PROMPT}, {"type": "image", "source": source}],
    }
    assert json.loads(launch.stdin) == {"type": "user", "message": told}


def test_claude_code_takes_a_setup_token_as_a_token_and_its_settings_where_they_are_set() -> None:
    launch = driver("claude_code").work(
        work(
            access(key="sk-ant-oat01-token"),
            settings={"effort": "high", "max_thinking_tokens": 9, "profile": "/s"},
        )
    )
    assert launch.env["CLAUDE_CODE_OAUTH_TOKEN"] == "sk-ant-oat01-token"
    assert "ANTHROPIC_API_KEY" not in launch.env
    assert launch.env["MAX_THINKING_TOKENS"] == "9"
    assert launch.arguments[7:11] == ("--effort", "high", "--settings", "/s")


def test_claude_code_with_its_own_login_runs_in_the_users_home_with_everything_else_of_it_off() -> None:
    launch = driver("claude_code").ask(ask(access(key=None)))
    assert launch.own_home
    assert "--safe-mode" in launch.arguments
    assert "CLAUDE_CONFIG_DIR" not in launch.env


def test_codex_at_work() -> None:
    launch = driver("codex").work(work(pointed("codex"), images=(Path("/r/workspace/a.png"),)))
    provider = (
        f'model_providers.skillopt={{name="skillopt", base_url="{LOCAL}", wire_api="responses",'
        ' env_key="SKILLOPT_AGENT_KEY"}'
    )
    assert launch.arguments == (
        *(
            "exec",
            "--json",
            "--color",
            "never",
            "--skip-git-repo-check",
            "--ignore-rules",
            "--cd",
            "/r/workspace",
            "--model",
            "m1",
        ),
        *(
            "--config",
            'approval_policy="never"',
            "--config",
            'shell_environment_policy.exclude=["*KEY*", "*TOKEN*", "*SECRET*"]',
        ),
        *(part for feature in OFF.split() for part in ("--disable", feature)),
        *("--config", 'model_provider="skillopt"', "--config", provider, "--image", "/r/workspace/a.png"),
        *("--sandbox", "workspace-write", "--config", "sandbox_workspace_write.network_access=false"),
        *("--config", "sandbox_workspace_write.exclude_slash_tmp=true", "--config", 'web_search="disabled"'),
        *("--config", "skills.bundled.enabled=false", "-"),
    )
    assert launch.env == {"CODEX_HOME": "/r/home/.codex", "SKILLOPT_AGENT_KEY": KEY}
    assert launch.stdin == f"$house-style {PROMPT}"
    assert launch.files == {Path("/r/home/.codex/config.toml"): ""}


def test_codex_is_asked_without_a_shell_and_with_a_schema_in_a_file() -> None:
    launch = driver("codex").ask(ask(access(), schema={"type": "object"}))
    assert launch.arguments[30:] == (
        *("--disable", "shell_tool", "--disable", "unified_exec", "--disable", "view_image"),
        *("--sandbox", "read-only", "--ephemeral", "--ignore-user-config"),
        *(
            "--config",
            "skills.include_instructions=false",
            "--config",
            "project_doc_max_bytes=0",
            "--config",
            'web_search="disabled"',
        ),
        *("--output-schema", "/r/schema.json", "-"),
    ), launch.arguments
    assert launch.env == {"CODEX_HOME": "/r/home/.codex", "CODEX_API_KEY": KEY}
    assert launch.files[Path("/r/schema.json")] == '{"type": "object"}'
    assert launch.stdin == f"Be terse.\n\n{PROMPT}"
    token = driver("codex").ask(ask(access(key="eyJ.token")))
    assert token.env["CODEX_ACCESS_TOKEN"] == "eyJ.token"


def test_copilot_at_work() -> None:
    launch = driver("copilot").work(work(pointed("copilot")))
    assert launch.arguments == (
        *(
            "--output-format",
            "json",
            "--stream",
            "off",
            "--no-color",
            "--log-level",
            "none",
            "--disable-builtin-mcps",
        ),
        *("--no-custom-instructions", "--no-ask-user", "--no-auto-update", "--no-remote", "--model", "m1"),
        *("--usage-output-file", "/r/usage.json", "--allow-all-tools"),
        "--secret-env-vars=COPILOT_PROVIDER_API_KEY,COPILOT_GITHUB_TOKEN",
    )
    assert launch.env == {
        "COPILOT_AUTO_UPDATE": "false",
        "COPILOT_HOME": "/r/home/.copilot",
        "COPILOT_PKG_CACHE_HOME": "/r/program",
        "COPILOT_PROVIDER_BASE_URL": LOCAL,
        "COPILOT_PROVIDER_TYPE": "openai",
        "COPILOT_MODEL": "m1",
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_API_KEY": KEY,
    }
    assert launch.links == {Path("/r/program"): unpacked()}
    assert launch.stdin.startswith("First load the skill `house-style`")


def test_opencode_at_work() -> None:
    launch = driver("opencode").work(work(pointed("opencode")))
    assert launch.arguments == (
        *(
            "run",
            "--pure",
            "--format",
            "json",
            "--title",
            "rollout",
            "--model",
            "skillopt/m1",
            "--command",
            "house-style",
        ),
    )
    config, catalogue, *locks = launch.files.values()
    assert launch.files[Path(launch.env["OPENCODE_MODELS_PATH"])] == catalogue == "{}"
    assert all("@opencode-ai/plugin" in lock for lock in locks)
    assert '"baseURL": "http://127.0.0.1:1/v1"' in config
    assert KEY not in config
    assert launch.env["SKILLOPT_AGENT_KEY"] == KEY
    assert launch.stdin == PROMPT


def test_opencode_beside_images_is_asked_for_the_skill_in_words_as_its_commands_leave_files_out() -> None:
    launch = driver("opencode").work(work(pointed("opencode"), images=(Path("/r/workspace/a.png"),)))
    assert launch.arguments[-1] == "--file=/r/workspace/a.png"
    assert "--command" not in launch.arguments
    assert "house-style" in launch.stdin.split("\n")[0]
    assert launch.stdin.endswith(PROMPT)
    config = json.loads(launch.files[Path(launch.env["OPENCODE_CONFIG"])])
    assert config["provider"]["skillopt"]["models"]["m1"]["modalities"]["input"] == ["text", "image"]


@pytest.mark.parametrize("name", ["init", "review"])
def test_a_skill_named_like_a_command_of_opencode_cannot_be_forced(name: str) -> None:
    with pytest.raises(ConfigError, match="Rename the skill"):
        driver("opencode").work(work(pointed("opencode"), skill=name))
    assert (
        "--command"
        not in driver("opencode").work(work(pointed("opencode"), skill=name, activation="natural")).arguments
    )


def test_cursor_at_work_and_asked() -> None:
    at_work = driver("cursor").work(work(access()))
    common = (
        "--print",
        "--output-format",
        "stream-json",
        "--trust",
        "--workspace",
        "/r/workspace",
        "--model",
        "m1",
    )
    assert at_work.arguments == (*common, "--force", "--sandbox", "enabled")
    assert at_work.env == {"CURSOR_API_KEY": KEY, "CURSOR_CONFIG_DIR": "/r/home/.cursor"}
    asked = driver("cursor").ask(ask(access()))
    assert asked.arguments == (*common, "--mode", "ask", "--sandbox", "enabled")
    assert '"deny": ["Shell(*)"' in asked.files[Path("/r/home/.cursor/cli-config.json")]


@pytest.mark.parametrize("name", sorted(POINTED))
def test_neither_a_prompt_nor_a_key_is_ever_on_the_command_line(name: str) -> None:
    launches: list[Launch] = [driver(name).work(work(given)) for given in (pointed(name),)]
    if name != "opencode":
        launches.append(driver(name).ask(ask(access())))
    for launch in launches:
        line = " ".join(launch.arguments)
        assert "PROMPT-NOT-FOR-ARGV" not in line
        assert KEY not in line
        assert KEY not in "".join(launch.files.values())
        assert KEY in launch.env.values()
        assert "PROMPT-NOT-FOR-ARGV" in launch.stdin


@pytest.mark.parametrize("name", sorted(POINTED))
def test_a_natural_activation_says_nothing_of_the_skill(name: str) -> None:
    launch = driver(name).work(work(pointed(name), activation="natural"))
    assert launch.stdin == PROMPT
    assert "house-style" not in " ".join(launch.arguments)


@pytest.mark.parametrize(
    ("name", "settings", "complaint"),
    [
        ("claude_code", {"use_sdk": "sdk"}, "use_sdk 'sdk' is not supported"),
        ("codex", {"sandbox": "workspace-writ"}, "Did you mean 'workspace-write'"),
        ("codex", {"profile": "fast"}, "Set home as well"),
        ("cursor", {"sandbox": "disabled"}, "could edit anything"),
        ("copilot", {"allow_all_tools": False}, "refuses every tool"),
        ("codex", {"network_access": "yes"}, "write true or false"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(name: str, settings: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        driver(name).work(work(pointed(name), settings=settings))


def test_the_public_words_that_mean_the_cli_are_taken() -> None:
    for word in ("auto", "cli", False, "", None):
        assert driver("claude_code").work(work(pointed("claude_code"), settings={"use_sdk": word})).arguments
    assert PLACE.config is None
