"""Makes the transcripts of the corpus: runs the real Claude Code and Codex, turn after turn, with a simulated
model behind them. `python -m real._record FOLDER` (in `tests`) leaves a home folder with all of them.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from _loopback import Answer, Call, LoopbackProvider
from real._agents import CLAUDE, CODEX, RealAgent
from real._corpus import Talk, everybody
from real._npm import cli
from skillopt.messages import ToolCall

QUIET = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY")
SKILLS = {
    ".claude/skills/brief-writer": ("brief-writer", "Writes briefs."),
    ".claude/skills/slogans": ("slogans", "Writes slogans."),
    ".agents/skills/brief-writer": ("brief-writer", "Writes briefs."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingHome:
    """A person's home in which the agents keep their transcripts."""

    folder: Path
    machine: Mapping[str, str]

    @property
    def shop(self) -> Path:
        """The project, a repository."""
        return self.folder / "shop"

    def prepare(self) -> None:
        """Put down the project with its skills, and a plug-in of Claude Code's."""
        for sub in ("services/api", "services/web"):
            (self.shop / sub).mkdir(parents=True, exist_ok=True)
            (self.shop / sub / "README.md").write_text("A service.\n")
        (self.shop / "run-tests.sh").write_text("echo all tests pass\n")
        for place, (name, says) in SKILLS.items():
            self._skill(self.shop / place, name, says)
        plugin = self.folder / "tools-plugin"
        (plugin / ".claude-plugin").mkdir(parents=True, exist_ok=True)
        (plugin / ".claude-plugin" / "plugin.json").write_text(
            json.dumps({"name": "tools", "version": "1.0.0"})
        )
        self._skill(plugin / "skills" / "minutes", "minutes", "Turns notes into minutes.")
        who = ["config user.name ann", "config user.email ann@example.org"]
        for words in ("init -q -b main", *who, "add .", "commit -qm start"):
            subprocess.run(["git", "-C", str(self.shop), *words.split()], check=True, capture_output=True)

    def _skill(self, folder: Path, name: str, says: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        text = f"---\nname: {name}\ndescription: {says} Use it for that.\n---\n\n# {name}\n\n- Be short.\n"
        (folder / "SKILL.md").write_text(text)

    async def record(self, talks: Sequence[Talk], at_once: int = 2) -> None:
        """Run every talk to its end. Raises for the first one that an agent did not finish."""
        gate = asyncio.Semaphore(at_once)
        async with LoopbackProvider(simulated(talks), lenient=True) as provider:

            async def one(talk: Talk) -> None:
                async with gate:
                    await self._talk(talk, provider)

            await asyncio.gather(*(one(talk) for talk in talks))

    async def _talk(self, talk: Talk, provider: LoopbackProvider) -> None:
        session = ""
        for said, _ in talk.turns:
            run = self._claude if talk.agent == "claude" else self._codex
            session = await run(talk, said, session, provider)

    async def _claude(self, talk: Talk, said: str, session: str, provider: LoopbackProvider) -> str:
        words = ["-p", said, "--output-format", "json", "--dangerously-skip-permissions"]
        words += ["--plugin-dir", str(self.folder / "tools-plugin")]
        words += ["--resume", session] if session else []
        env = {"ANTHROPIC_BASE_URL": provider.url, "ANTHROPIC_API_KEY": "sk-loopback", "IS_SANDBOX": "1"}
        out = await self._run(CLAUDE, words, talk, env)
        return str(json.loads(out)["session_id"])

    async def _codex(self, talk: Talk, said: str, session: str, provider: LoopbackProvider) -> str:
        made = f'{{name="s",base_url="{provider.base_url}",wire_api="responses",request_max_retries=0}}'
        words = ["-c", 'model_provider="s"', "-c", f"model_providers.s={made}", "-m", "m", "--json"]
        words += ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
        out = await self._run(
            CODEX, ["exec", *words, *(["resume", session] if session else []), said], talk, {}
        )
        events = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        return session or next(str(one["thread_id"]) for one in events if "thread_id" in one)

    async def _run(self, agent: RealAgent, words: list[str], talk: Talk, env: Mapping[str, str]) -> str:
        program = cli(agent.package, agent.version, agent.binary, env=self.machine)
        whole = {"HOME": str(self.folder), "PATH": os.environ["PATH"], **dict.fromkeys(QUIET, "1"), **env}
        running = await asyncio.create_subprocess_exec(
            str(program),
            *words,
            cwd=self.folder / talk.folder,
            env=whole,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(running.communicate(), 120)
        assert running.returncode == 0, f"{talk.topic}: {err.decode()[-800:]}{out.decode()[-800:]}"
        return out.decode()


def simulated(talks: Sequence[Talk]) -> object:
    """A model that plays the assistant of every talk."""

    def say(call: Call) -> str | Answer:
        found = [talk for talk in talks if talk.turns[0][0] in call.text]
        if not found or not call.tools:
            return "A title"
        talk = max(found, key=lambda one: len(one.turns[0][0]))
        agent = CLAUDE if talk.agent == "claude" else CODEX
        steps = [_skill_call(agent, name) for name in talk.skill.split(",") if name]
        steps += [agent.call(command) for command in talk.commands]
        steps += [agent.call(command) for command in talk.again if talk.turns[1][0] in call.text]
        done = len(call.results)
        if done < len(steps):
            return Answer(tool_calls=(steps[done],))
        return next(answer for said, answer in reversed(talk.turns) if said in call.text)

    return say


def _skill_call(agent: RealAgent, name: str) -> ToolCall:
    if agent is CODEX:
        return agent.call(f"cat .agents/skills/{name}/SKILL.md")
    return ToolCall(id=f"call_{name.replace(':', '_')}", name="Skill", arguments=json.dumps({"skill": name}))


if __name__ == "__main__":
    home = RecordingHome(folder=Path(sys.argv[1]).absolute(), machine=os.environ)
    home.prepare()
    asyncio.run(home.record(everybody()[: int(sys.argv[2]) if len(sys.argv) > 2 else None]))
