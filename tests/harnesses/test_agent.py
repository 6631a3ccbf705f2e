"""Rollouts inside an agent CLI, here a stand-in: what it sees, what it proves, how it fails, and that nothing
of it stays.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from _needs import needs_bubblewrap, needs_system_python
from harnesses._stub import stub
from skillopt.errors import BudgetSpent, ConfigError, Fault
from skillopt.harnesses import harnesses
from skillopt.harnesses._agent import AgentHarness
from skillopt.harnesses._rollout_budget import RolloutBudget
from skillopt.harnesses.port import NotAsked, Session, Setup
from skillopt.messages import Image
from skillopt.models.port import ModelSpec
from skillopt.money import Amount, Budget, Entry, Ledger
from skillopt.redact import Scrubber
from skillopt.skill.folder import load_skill
from skillopt.tasks.rollout import Trajectory
from skillopt.tasks.task import Task

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="the stand-in is a script with a shebang"),
    pytest.mark.timeout(60),
]
PROMPTS = {"rollout": "Work well.\n\n## Skill\n\n{skill}\n\nAnswer in tags."}
SKILL = "# House\n\nRULE 7: be brief.\n"
KEY = "sk-canary-key-of-the-rollout"


@pytest.fixture(autouse=True)
def _own_temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All places of this test lie in one folder, so that leftovers are seen."""
    temp = tmp_path / "tmp"
    temp.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temp))
    return temp


def spec(**more: Any) -> ModelSpec:
    return ModelSpec(
        **{
            "provider": "anthropic",
            "name": "m",
            "api_key": KEY,
            "base_url": "http://127.0.0.1:1",
            "timeout": 20.0,
            **more,
        }
    )


def harness(
    tmp_path: Path,
    *,
    agent: dict[str, Any] | None = None,
    help: str | None = None,
    model: ModelSpec | None = None,
    **more: Any,
):
    settings = {"path": str(stub(tmp_path, help=help)), **(agent or {})}
    return harnesses.get("claude_code")(Setup(model=model or spec(), agent=settings, **more))


async def rollout(made: AgentHarness, prompt: str, *, skill: str = SKILL, **task: Any) -> Trajectory:
    session = Session(NotAsked(spec()), key="k", stage="rollout", draw=0, max_tokens=9)
    return await made.run(
        Task(id="t", prompt=f"{prompt} TASK {prompt}", **task), None, skill, PROMPTS, session
    )


async def test_the_skill_is_installed_invoked_and_proven(tmp_path: Path, _own_temp: Path) -> None:
    done = await rollout(harness(tmp_path), "one")
    assert done.answer == "<answer>rule one</answer>"
    assert done.loaded == ("SKILL.md",)
    assert [call.name for message in done.messages for call in message.tool_calls] == ["Bash"]
    assert done.messages[1].content == ".claude/skills/skillopt-target/SKILL.md", (
        "the workspace holds nothing else"
    )
    assert done.messages[0].tool_calls[0].arguments == '{"command": "ls /workspace"}', (
        "random names are no part of a trajectory"
    )
    assert done.usage is not None
    assert (done.usage.total, done.calls, done.failure) == (110, 2, None)
    assert not list(_own_temp.iterdir()), "the place is gone"


async def test_a_skill_with_a_name_keeps_it_and_its_folder_comes_along(tmp_path: Path) -> None:
    folder = tmp_path / "house"
    (folder / "references").mkdir(parents=True)
    (folder / "references" / "more.md").write_text("more")
    (folder / "SKILL.md").write_text("---\nname: house\ndescription: House rules.\n---\n\nRULE\n")
    seed = load_skill(folder)
    made = harness(tmp_path, skill=seed)
    done = await rollout(made, "one", skill=seed.document.rendered)
    assert (
        done.messages[1].content == ".claude/skills/house/SKILL.md\n.claude/skills/house/references/more.md"
    )
    (folder / "references" / "more.md").write_text("other")
    assert load_skill(folder).document.rendered != seed.document.rendered, "a reference is part of the skill"
    (folder / "assets").mkdir()
    (folder / "assets" / "form.txt").write_text("form")
    assert harness(tmp_path, skill=load_skill(folder)).version != made.version, (
        "carried files are part of what is measured"
    )


async def test_an_empty_skill_is_not_installed_and_needs_no_proof(tmp_path: Path) -> None:
    done = await rollout(harness(tmp_path), "one", skill="  \n")
    assert (done.answer, done.loaded, done.messages[1].content) == ("<answer>no rule one</answer>", (), "")


@pytest.mark.slow
async def test_a_forced_skill_without_proof_is_no_measurement_and_a_natural_one_is(tmp_path: Path) -> None:
    with pytest.raises(Fault, match="nothing proves") as caught:
        await rollout(harness(tmp_path), "UNLOADED")
    assert caught.value.kind == "contract"
    natural = await rollout(harness(tmp_path, agent={"activation": "natural"}), "UNLOADED")
    assert (natural.loaded, natural.failure) == ((), None)
    read = await rollout(harness(tmp_path, agent={"activation": "natural"}), "READS-IT")
    assert read.loaded == ("SKILL.md",)


async def test_the_skills_text_is_not_repeated_in_the_trajectory(tmp_path: Path) -> None:
    done = await rollout(harness(tmp_path), "READS-IT")
    assert "[the text of the skill]" in [message.content for message in done.messages]
    assert "SECRET RULE" not in repr(done)


async def test_files_and_images_are_in_the_workspace_and_what_changed_comes_back(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("a,b")
    image = Image(media_type="image/png", data=base64.b64encode(b"png").decode())
    done = await rollout(harness(tmp_path), "EDITS it", files=(table,), images=(image,))
    assert done.messages[1].content.split("\n") == [
        ".claude/skills/skillopt-target/SKILL.md",
        "attachments/image-1.png",
        "table.csv",
    ]
    assert {name: base64.b64decode(data).decode() for name, data in done.files.items()} == {
        "made.txt": "made by it"
    }


async def test_a_file_of_any_size_is_refused_without_being_read(tmp_path: Path) -> None:
    with pytest.raises(Fault, match="more than 8 MB of files") as caught:
        await rollout(harness(tmp_path), "MAKES-HUGE")  # 200 GB, of which nothing is written
    assert caught.value.kind == "contract"


async def test_a_file_that_the_agent_shut_comes_back_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Path.read_bytes

    def as_a_user(path: Path) -> bytes:  # root reads what nobody may
        if path.name == "shut.txt" and not path.stat().st_mode & 0o400:
            raise PermissionError(path)
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", as_a_user)
    done = await rollout(harness(tmp_path), "SHUTS")
    assert base64.b64decode(done.files["shut.txt"]) == b"closed"


@pytest.mark.slow
async def test_an_empty_answer_is_the_targets_own_failure_unless_it_made_a_file(tmp_path: Path) -> None:
    assert (await rollout(harness(tmp_path), "SILENT")).failure == "empty"
    assert (await rollout(harness(tmp_path), "SILENT EDITS it")).failure is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("CRASH", "spawn"),
        ("GARBAGE", "parse"),
        ("LOGGED-OUT-ERROR", "auth"),
        ("LOGGED-OUT-TEXT", "auth"),
        pytest.param("HANG", "timeout", marks=pytest.mark.slow),
    ],
)
async def test_a_cli_that_does_not_work_is_never_a_score(
    word: str, kind: str, tmp_path: Path, _own_temp: Path
) -> None:
    made = harness(tmp_path, model=spec(timeout=2.0 if word == "HANG" else 20.0))
    with pytest.raises(Fault) as caught:
        await rollout(made, word)
    assert caught.value.kind == kind, caught.value
    assert not list(_own_temp.iterdir())
    for note in tmp_path.glob("*.pids"):
        assert all(is_gone(int(pid)) for pid in note.read_text().split()), (
            "the agent, or what it started, lives on"
        )


async def test_what_an_agent_leaves_running_ends_with_it(tmp_path: Path) -> None:
    await rollout(harness(tmp_path), "LEAVES-BEHIND")
    assert is_gone(int((tmp_path / "left.pids").read_text()))


@needs_bubblewrap
@needs_system_python
async def test_behind_the_wall_even_a_daemon_without_our_mark_ends_with_the_agent(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    folder.mkdir()
    made = harness(tmp_path, agent={"path": str(stub(folder, python="/usr/bin/python3"))})
    assert "rule" in (await rollout(made, "BARE-DAEMON")).answer
    for _ in range(250):
        if not [line for line in command_lines() if str(folder) in line]:
            return
        await asyncio.sleep(0.02)
    pytest.fail("the daemon lives on")


@pytest.mark.slow
async def test_an_agent_that_prints_without_end_is_no_measurement_and_no_burden(tmp_path: Path) -> None:
    with pytest.raises(Fault, match="printed more than can be kept") as caught:
        await rollout(harness(tmp_path), "FLOODS")  # 100 MB
    assert caught.value.kind == "parse"


async def test_a_flag_that_is_gone_is_a_broken_contract_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(Fault, match=r"9\.9\.9 .* does not know .*--tools.*npm install") as caught:
        await rollout(
            harness(
                tmp_path,
                help=(
                    "--print --output-format --input-format --verbose --model --setting-sources"
                    " --allowedTools"
                ),
            ),
            "one",
        )
    assert caught.value.kind == "contract"


async def test_nothing_of_our_environment_reaches_the_agent_but_what_is_meant_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    (home / ".claude").mkdir(parents=True)
    for name in (
        "CANARY",
        "OPENAI_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "SSH_AUTH_SOCK",
        "HTTPS_PROXY",
        "XDG_CONFIG_HOME",
    ):
        monkeypatch.setenv(name, "canary-of-the-parent")
    monkeypatch.setenv("HOME", str(home))
    done = await rollout(harness(tmp_path), "TELLS-ENV")
    env = json.loads(done.answer)
    assert "canary-of-the-parent" not in done.answer
    assert (env["HOME"], env["CLAUDE_CONFIG_DIR"]) == ("/home/agent", "/home/agent/.claude")
    assert env["TMPDIR"] == "/rollout/tmp"
    assert set(env) <= {"PATH", "HOME", "LANG", "LC_CTYPE", "TMPDIR", "SKILLOPT_PROCESS"} | {
        name for name in env if name.startswith(("CLAUDE_", "DISABLE_", "ANTHROPIC_"))
    }


async def test_a_credential_the_agent_prints_is_not_kept(tmp_path: Path) -> None:
    done = await rollout(harness(tmp_path, scrub=Scrubber([KEY]).scrub), "TELLS-ENV")
    assert KEY not in repr(done)
    assert json.loads(done.answer)["ANTHROPIC_API_KEY"] == "[redacted]"


@needs_bubblewrap
@needs_system_python
async def test_behind_the_wall_only_the_system_the_program_and_its_own_place_exist(tmp_path: Path) -> None:
    (tmp_path / "program").mkdir()
    (tmp_path / "tasks.json").write_text("[]")
    program = stub(tmp_path / "program", python="/usr/bin/python3")
    made = harness(tmp_path, agent={"path": str(program)})
    looked = [
        str(path) for path in (tmp_path / "tasks.json", tmp_path, Path.home(), program, "/usr/bin", __file__)
    ]
    done = await rollout(made, f"LOOKS-AT {','.join(looked)} ")
    assert set(json.loads(done.answer)) == {
        str(program),
        str(tmp_path),
        "/usr/bin",
    }, "a folder above a visible file is there, but empty"


@pytest.mark.slow
async def test_fifty_rollouts_at_once_do_not_mix_and_leave_nothing(tmp_path: Path, _own_temp: Path) -> None:
    made = harness(tmp_path)
    many = await asyncio.gather(*(rollout(made, f"EDITS n{n} SLOWLY") for n in range(50)))
    assert [done.answer for done in many] == [f"<answer>rule EDITS n{n} SLOWLY</answer>" for n in range(50)]
    assert [base64.b64decode(done.files["made.txt"]).decode() for done in many] == [
        f"made by n{n}" for n in range(50)
    ]
    assert not list(_own_temp.iterdir())
    assert not [line for line in command_lines() if str(tmp_path) in line], "a process is left"


@pytest.mark.parametrize(
    ("model", "agent", "complaint"),
    [
        (
            {"provider": "claude_cli", "api_key": None, "base_url": None},
            {},
            "CLAUDE_CODE_OAUTH_TOKEN or ANTHROPIC_API_KEY",
        ),
        ({"provider": "compatible"}, {}, "cannot use models of 'compatible'"),
        ({"temperature": 0.5}, {}, "takes no temperature"),
        ({}, {"sandbox": "read-only"}, "claude_code has no setting 'sandbox'"),
        ({}, {"activation": "maybe"}, "no value 'maybe'"),
        ({}, {"path": "/no/such/claude"}, "no program '/no/such/claude'"),
    ],
)
def test_what_cannot_work_is_said_before_it_is_paid(
    model: dict[str, Any], agent: dict[str, Any], complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        harness(tmp_path, model=spec(**model), agent=agent)


async def test_an_environment_with_tools_of_its_own_is_refused(tmp_path: Path) -> None:
    session = Session(NotAsked(spec()), key="k", stage="rollout", draw=0, max_tokens=9)
    environment: Any = object()
    with pytest.raises(Fault, match=r"env\.mode: single"):
        await harness(tmp_path).run(Task(id="t", prompt="x"), environment, SKILL, PROMPTS, session)


class Journal:
    """Entries in memory."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[str, Amount]] = {}

    def open(self, role: str, stage: str, place: str, reserved: Amount) -> int:
        self.rows[len(self.rows)] = ("open", reserved)
        return len(self.rows) - 1

    def close(self, entry: int, state: str, charged: Amount, usage: object) -> None:
        self.rows[entry] = (state, charged)

    def entries(self) -> list[Entry]:
        return []

    def keep_time(self, seconds: float) -> None:
        """Forgotten."""


async def test_a_rollout_is_reserved_as_a_whole_and_settled_from_its_report(tmp_path: Path) -> None:
    journal: Any = Journal()
    ledger = Ledger(Budget(tokens=1000), journal)
    rollout_budget = RolloutBudget(ledger, None, Budget(tokens=600))
    made = harness(tmp_path, rollout_budget=rollout_budget)
    await rollout(made, "one")
    assert journal.rows[0] == ("settled", Amount(calls=2, tokens=110, usd=None))
    with pytest.raises(Fault):
        await rollout(made, "GARBAGE")
    assert journal.rows[1][0] == "unreported"
    assert journal.rows[1][1].tokens == 600, "what reports nothing stays charged at what was set aside"
    with pytest.raises(BudgetSpent):
        await rollout(made, "one")


async def test_the_cost_a_cli_reports_counts_only_at_its_own_service(tmp_path: Path) -> None:
    journal: Any = Journal()
    rollout_budget = RolloutBudget(Ledger(Budget(), journal), None)
    await rollout(harness(tmp_path, rollout_budget=rollout_budget, model=spec(base_url=None)), "one")
    assert journal.rows[0][1].usd == Fraction("0.01")


async def test_a_started_rollout_runs_to_its_end_and_is_paid_when_nobody_waits(tmp_path: Path) -> None:
    journal: Any = Journal()
    made = harness(tmp_path, rollout_budget=RolloutBudget(Ledger(Budget(), journal), None))
    work = asyncio.ensure_future(rollout(made, "SLOWLY"))
    await asyncio.sleep(0.5)
    work.cancel()
    assert (await work).answer == "<answer>rule SLOWLY</answer>"
    assert journal.rows[0][0] == "settled"


def is_gone(pid: int) -> bool:
    """True when the process has ended; a zombie has ended too."""
    for _ in range(250):
        stat = Path(f"/proc/{pid}/stat")
        try:
            os.kill(pid, 0)
            if stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):  # it may end between two looks
            return True
        time.sleep(0.02)
    return False


def command_lines() -> list[str]:
    """The command lines of all processes but this one, where there is a /proc."""
    lines = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if file.parent.name != str(os.getpid()):
                lines.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return lines


TRAINER = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from harnesses.test_agent import harness, rollout
asyncio.run(rollout(harness(Path({folder!r})), "HANG"))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
async def test_killing_the_trainer_leaves_no_orphan_agent(tmp_path: Path, _own_temp: Path) -> None:
    code = TRAINER.format(tests=str(Path(__file__).parents[1]), folder=str(tmp_path))
    env = {**os.environ, "TMPDIR": str(_own_temp)}
    trainer = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stderr=asyncio.subprocess.PIPE, env=env
    )
    notes: list[Path] = []
    for _ in range(500):
        notes = list(tmp_path.glob("*.pids"))
        if notes and len(notes[0].read_text().split()) == 2:
            break
        await asyncio.sleep(0.02)
    assert notes, await asyncio.wait_for(trainer.stderr.read(), 5) if trainer.stderr else ""
    agent, away = (int(pid) for pid in notes[0].read_text().split())
    assert not await asyncio.to_thread(ended_already, agent)
    trainer.kill()
    await trainer.wait()
    assert await asyncio.to_thread(is_gone, agent)
    assert await asyncio.to_thread(is_gone, away), "what the agent started in a session of its own lives on"
    for _ in range(250):
        if not list(_own_temp.iterdir()):
            break
        await asyncio.sleep(0.02)
    assert not list(_own_temp.iterdir()), "its folders are left"


def ended_already(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False
