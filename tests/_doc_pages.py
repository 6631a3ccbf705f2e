"""What the pages of the documentation speak of: files, sessions, services, and models that answer in simulation.

`SURROUNDINGS` has the pages that need more than every page gets. Data of benchmarks is made here in the published
form, a few rows of it.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeAlias

from _loopback import Answer, Call, world_answers
from _router import SimulatedRouter
from benchmarks._pages import draw
from benchmarks._workbooks import DOUBLE, make_data
from night import _nights
from skillopt.cli.init import start
from skillopt.errors import ConfigError
from skillopt.files import write_text

ROOT = Path(__file__).resolve().parent.parent
HOME = "home"
RULE = "- Say what is right."
"""What the simulated optimizer of a benchmark proposes, and what makes its target answer rightly."""
Says: TypeAlias = Callable[[Call], str | Answer]


def simulated_world() -> Says:
    """The simulated world; whoever else asks is told so."""
    world = world_answers()

    def say(call: Call) -> str:
        try:
            return world(call)
        except ConfigError:  # `doctor` asks for a small object, others for any answer
            return '{"ok": true}' if (call.place or "").endswith("/structured") else "Simulated."

    return say


def learner(right: str, wrong: str = "<answer>no idea</answer>") -> Callable[[], Says]:
    """A target that answers rightly once the skill holds the rule, a judge that wants that, and an optimizer that
    proposes the rule.
    """
    edits = [{"op": "append", "content": RULE}]
    reply = {"reasoning": "simulated", "edits": edits, "patch": {"reasoning": "simulated", "edits": edits}}
    epochs = {"slow_update_content": "- Go on.", "meta_skill_content": "- Go on."}

    def say(call: Call) -> str:
        place = call.place or ""
        if place.startswith("rollout/"):
            return right if RULE in call.text else wrong
        if place.startswith("judge/"):
            work = call.text.partition("<work>\n")[2].partition("\n</work>")[0]
            return json.dumps({"findings": [{"criterion": 1, "evidence": work, "met": work == right}]})
        return json.dumps({**reply, **epochs, "ranking": [0], "selected_indices": [0]})

    return lambda: say


def router() -> Says:
    """A model that is shown a list of skills and says which it would load, and drafts such queries when it is
    asked to; tasks are answered by the simulated world.
    """
    path = ROOT / "examples/triggers/triggers.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    kinds = {kind: [row["prompt"] for row in rows if row["should_load"] is kind] for kind in (True, False)}
    chooses, world = SimulatedRouter(kinds[True] + kinds[False]), simulated_world()

    def say(call: Call) -> str | Answer:
        if (call.place or "").startswith("draft_queries/"):
            return json.dumps({"should_load": kinds[True], "should_not_load": kinds[False]})
        return chooses(call) if chooses.query(call.text) else world(call)

    return say


def docvqa(folder: Path) -> None:
    """Pages in a split, and a package that gives some as the published one gives its own."""
    for split, numbers in {"train": range(6), "val": range(6, 10), "test": range(10, 14)}.items():
        rows = [
            {"questionId": n, "question": f"Number {n}?", "answer": ["12345"], "image_path": f"{n}.png"}
            for n in numbers
        ]
        write_text(folder / "data/docvqa" / split / "rows.json", json.dumps(rows))
        for n in numbers:
            (folder / "data/docvqa" / split / f"{n}.png").write_bytes(draw(f"{12345 + n}"))
    (folder / "page.png").write_bytes(draw("12345"))
    write_text(
        folder / "datasets.py",
        "from PIL import Image\n"
        "def load_dataset(name, config, *, split):\n"
        "    assert (name, config, split) == ('lmms-lab/DocVQA', 'DocVQA', 'validation')\n"
        "    for n in range(20):\n"
        "        yield {'questionId': str(n), 'question': f'Which is number {n}?', 'answers': ['12345', '12,345'], 'docId': n,\n"
        "               'image': Image.open('page.png'), 'question_types': ['form', 'layout']}\n",
    )


def livemath(folder: Path) -> None:
    """A month of raw items."""
    items = [
        {
            "month": "202511",
            "no": n,
            "theorem": "A theorem.",
            "sketch": "A sketch.",
            "theorem_type": ["Existence"],
            "mcq": {
                "question": f"How many maps are there in case {n}?",
                "choices": [{"label": label, "text": f"Wrong {label}"} for label in "BCDE"],
                "correct_choice": {"label": "A", "text": "One."},
            },
        }
        for n in range(20)
    ]
    write_text(folder / "livemath_raw/data/202511/qa_202511_final.json", json.dumps(items))


def officeqa(folder: Path) -> None:
    """Questions about a document."""
    write_text(folder / "docs/treasury_bulletins_parsed/transformed/one.txt", "Total | 12\n")
    rows = [f"u{n},How much is total {n}?,12,one.txt,easy" for n in range(20)]
    write_text(
        folder / "officeqa_full.csv", "\n".join(["uid,question,answer,source_files,difficulty", *rows, ""])
    )


def searchqa(folder: Path) -> None:
    """A split where a checkout has the published one."""
    for split, numbers in {"train": range(6), "val": range(6, 10), "test": range(10, 14)}.items():
        rows = [
            {"id": f"q{n}", "question": f"Capital {n}", "context": f"[DOC] page {n}", "answers": ["Paris"]}
            for n in numbers
        ]
        write_text(folder / "data/searchqa_split" / split / "items.json", json.dumps(rows))


def evals(folder: Path) -> None:
    """A skill with twelve cases of its own."""
    cases = [
        {
            "id": n,
            "prompt": f"Sum up month {n}.",
            "expected_output": "A sentence.",
            "assertions": ["Is right"],
        }
        for n in range(12)
    ]
    text = "---\nname: skill\ndescription: Sums up months. Use it for months.\n---\n\nAnswer briefly.\n"
    write_text(folder / "path/to/skill/SKILL.md", text)
    write_text(folder / "path/to/skill/evals/evals.json", json.dumps({"evals": cases}))


def sessions(folder: Path) -> None:
    """A person with sessions of the last days, in the home and the project that the page is read in."""
    shutil.rmtree(folder / HOME)
    _nights.Person(folder / HOME, now=datetime.now(timezone.utc)).write()


def own_tests(folder: Path) -> None:
    """The programs of this repository that the page names."""
    for name in ("tests", "src", "pyproject.toml"):
        (folder / name).symlink_to(ROOT / name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a page needs: files, who answers for the models, and the folder in which it is read."""

    furnish: Callable[[Path], object] = lambda folder: None
    answers: Callable[[], Says] = simulated_world
    folder: str = "."
    needs_sandbox: bool = False


SURROUNDINGS: Mapping[str, Surroundings] = {
    "docs/benchmarks/docvqa.md": Surroundings(furnish=docvqa, answers=learner("<answer>12345</answer>")),
    "docs/benchmarks/livemath.md": Surroundings(furnish=livemath, answers=learner("<answer>One.</answer>")),
    "docs/benchmarks/officeqa.md": Surroundings(furnish=officeqa, answers=learner("<answer>12</answer>")),
    "docs/benchmarks/own.md": Surroundings(furnish=evals, answers=learner("March: 3.", "No idea.")),
    "docs/benchmarks/spreadsheetbench.md": Surroundings(
        furnish=lambda folder: make_data(folder / "data", 10, cases=1),
        answers=learner(*(f"```python\n{code}```" for code in (DOUBLE, DOUBLE.replace("* 2", "* 3")))),
        needs_sandbox=True,
    ),
    "docs/decisions/068-figures-of-chaos-and-fuzz.md": Surroundings(furnish=own_tests),
    "docs/protocol.md": Surroundings(furnish=searchqa, answers=learner("<answer>Paris</answer>")),
    "docs/skills.md": Surroundings(answers=router),
    "docs/sleep.md": Surroundings(
        furnish=sessions, answers=lambda: _nights.scripted(_nights.RULE), folder=f"{HOME}/shop"
    ),
}


def furnish(folder: Path) -> None:
    """What every page finds: the examples, and what `skillopt init my-skill` writes, with fewer tasks. The same
    skill, tasks and configuration also lie where a page means ones that were made by hand.
    """
    shutil.copytree(ROOT / "examples", folder / "examples")
    start(folder / "my-skill")
    skill = (folder / "my-skill" / "my-skill" / "SKILL.md").read_text(encoding="utf-8")
    write_text(folder / HOME / ".claude/skills/invoices/SKILL.md", skill.replace("my-skill", "invoices"))
    rows = (folder / "my-skill" / "tasks.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    for path in (folder / "my-skill" / "tasks.jsonl", folder / "invoices.jsonl"):
        write_text(path, "".join(rows[:60]))
    config = (folder / "my-skill" / "train.yaml").read_text(encoding="utf-8")
    config = config.replace("num_epochs: 3", "num_epochs: 1")
    write_text(folder / "my-skill" / "train.yaml", config)
    by_hand = config.replace("./my-skill/", "./my-skill/my-skill/").replace("tasks.jsonl", "invoices.jsonl")
    for name in ("tasks.yaml", "my-task.yaml", "train.yaml"):
        write_text(folder / name, by_hand)


@contextmanager
def service(answer: Mapping[str, Any]) -> Iterator[str]:
    """An agent behind HTTP that always gives this answer; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            assert asked["task"]["prompt"] and asked["skill_files"]
            said = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
