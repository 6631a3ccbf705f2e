"""A stand-in for the `claude` program that does as its prompt says, for what a real one cannot be made to do
on demand.
"""

from __future__ import annotations

import sys
from pathlib import Path

from skillopt.agents.claude_code.driver import DRIVER as CLAUDE

# A line of #! takes no path with a blank. What starts Python here is an empty command and two more to the shell, and
# a text to Python.
_PROGRAM = """#!/bin/sh
''':'
unset PWD
exec "{python}" -IS "$0" "$@"
'''
import json, os, pathlib, signal, subprocess, sys, time
if "--version" in sys.argv:
    print("9.9.9 (stub)")
    sys.exit()
if "--help" in sys.argv:
    print({help!r})
    sys.exit()
prompt = sys.stdin.read()
def has(word): return word in prompt
def say(**event): print(json.dumps(event), flush=True)
def end(text, **more): say(**dict(dict(type="result", subtype="success", is_error=False, result=text, num_turns=2, total_cost_usd=0.01,
                                   usage=dict(input_tokens=100, output_tokens=10)), **more))
if has("CRASH"):
    os.kill(os.getpid(), signal.SIGSEGV)
if has("GARBAGE"):
    print("\\x00<html>what is this")
    sys.exit()
if has("LOGGED-OUT-ERROR"):
    say(type="assistant", error="authentication_failed", message=dict(content=[dict(type="text", text="Not logged in")]))
    end("Not logged in", is_error=True, api_error_status=None)
    sys.exit(1)
if has("LOGGED-OUT-TEXT"):
    end("Not logged in. Please run /login")
    sys.exit()
if has("HANG"):
    note = pathlib.Path({note!r}) / (str(os.getpid()) + ".pids")
    away = subprocess.Popen([sys.executable, "-IS", "-c", "import time; time.sleep(120)"], start_new_session=True)
    note.write_text(str(os.getpid()) + " " + str(away.pid))
    time.sleep(120)
if has("LEAVES-BEHIND"):
    away = subprocess.Popen([sys.executable, "-IS", "-c", "import time; time.sleep(120)"], start_new_session=True)
    (pathlib.Path({note!r}) / "left.pids").write_text(str(away.pid))
if has("BARE-DAEMON"):
    subprocess.Popen(["/usr/bin/env", "-i", sys.executable, "-IS", "-c", "import time; time.sleep(120)", {note!r}],
                     start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
if has("MAKES-HUGE"):
    with open("huge.bin", "wb") as huge:
        huge.truncate(200 << 30)
if has("SHUTS"):
    pathlib.Path("shut.txt").write_text("closed")
    pathlib.Path("shut.txt").chmod(0)
if has("FLOODS"):
    for _ in range(100):
        sys.stdout.write(("x" * 1023 + "\\n") * 1024)
if has("SLOWLY"):
    time.sleep(1)
first = prompt.split(" ", 1)[0]
if first.startswith("/") and not has("UNLOADED"):
    skill = pathlib.Path.cwd() / ".claude" / "skills" / first[1:]
    body = (skill / "SKILL.md").read_text()
    folder = pathlib.Path(os.environ["CLAUDE_CONFIG_DIR"]) / "projects" / "p"
    folder.mkdir(parents=True)
    text = "Base directory for this skill: " + str(skill) + "\\n\\n" + body
    (folder / "s.jsonl").write_text(json.dumps(dict(type="user", message=dict(content=[dict(type="text", text=text)]))))
else:
    body = ""
say(type="system", subtype="init", model="stub")
seen = sorted(str(path.relative_to(pathlib.Path.cwd())) for path in pathlib.Path.cwd().rglob("*") if path.is_file())
look = dict(type="tool_use", id="t1", name="Bash", input=dict(command="ls " + str(pathlib.Path.cwd())))
say(type="assistant", message=dict(content=[look]))
say(type="user", message=dict(content=[dict(type="tool_result", tool_use_id="t1", content="\\n".join(seen))]))
path = str(pathlib.Path.cwd() / ".claude/skills/skillopt-target/SKILL.md")
read = dict(type="tool_use", id="t2", name="Read", input=dict(file_path=path))
if has("READS-IT"):
    say(type="assistant", message=dict(content=[read]))
    say(type="user", message=dict(content=[dict(type="tool_result", tool_use_id="t2", content="1\\tSECRET RULE")]))
for path in pathlib.Path("documents").glob("*") if has("SPOILS") else ():
    try:
        path.chmod(0o600)
        path.write_text("as I want it")
    except OSError as error:
        say(type="assistant", message=dict(content=[dict(type="text", text="not changed: " + error.strerror)]))
if has("DELETES"):
    try:
        pathlib.Path("documents").chmod(0o700)
        next(pathlib.Path("documents").glob("*")).unlink()
    except OSError as error:
        say(type="assistant", message=dict(content=[dict(type="text", text="not changed: " + error.strerror)]))
if has("EDITS"):
    pathlib.Path("made.txt").write_text("made by " + prompt.split("EDITS ")[1].split()[0])
if has("READS-DOCUMENTS"):
    end(json.dumps(dict((path.name, path.read_text()) for path in pathlib.Path("documents").rglob("*"))))
elif has("LOOKS-AT "):
    there = [path for path in prompt.split("LOOKS-AT ")[1].split()[0].split(",") if pathlib.Path(path).exists()]
    end(json.dumps(there))
elif has("TELLS-ENV"):
    end(json.dumps(dict(os.environ)))
elif has("READS-REFERENCE"):
    found = sorted((pathlib.Path(".claude/skills")).glob("*/references/*"))
    end("<answer>" + " ".join(path.read_text() for path in found) + "</answer>")
elif has("TELLS-PROMPT"):
    end(prompt)
elif has("SILENT"):
    end("")
else:
    end("<answer>" + ("rule" if "RULE" in body else "no rule") + " " + prompt.rsplit("TASK ", 1)[-1].strip() + "</answer>")
"""


def stub(folder: Path, *, help: str | None = None, python: str = sys.executable) -> Path:
    """Write the program; pids of what it leaves running go to files in the same folder."""
    path = folder / "stub-claude"
    text = " ".join(CLAUDE.flags) if help is None else help
    path.write_text(_PROGRAM.format(python=python, help=text, note=str(folder)))
    path.chmod(0o755)
    return path
