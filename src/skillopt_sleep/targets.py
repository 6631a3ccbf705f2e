"""Which skill or memory file each task belongs to, and where a night may propose changes."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from skillopt.agents import agents, is_memory_file, memory_files, skill_folders
from skillopt.changes.files import confined
from skillopt.errors import SkillError, UsageError
from skillopt.files import as_usage_error
from skillopt.runs.words import count
from skillopt.skill.document import SKILL_FILE, Document
from skillopt.skill.folder import load_skill
from skillopt.skill.spec import violations
from skillopt_sleep.plan import NightTarget
from skillopt_sleep.proposal import Kind
from skillopt_sleep.settings import NightSettings
from skillopt_sleep.tasks import NightTask
from skillopt_sleep.texts import learned, with_learned

PINNED, LEARNED = 40, 10
"""Tasks a skill decides with at most, and those it learns from before earlier ones are left out."""
RULES = ".cursor/rules"
"""Where Cursor keeps rules, one `.mdc` file each; one that always applies is a memory file."""
_FRONTMATTER = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_ALWAYS = re.compile(r"^alwaysApply:[ \t]*true[ \t]*\r?$", re.MULTILINE)
_PLAIN = re.compile(r"[^\w' -]+")
_KINDS = 6
_MOST_BESIDE = 20_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillPlaces:
    """Where skills lie: `skills` hold one folder for each, `roots` is all that adoption may write to."""

    skills: tuple[Path, ...]
    roots: tuple[Path, ...]
    new: Path
    """Where a skill goes that is not there yet."""
    memory: Path | None
    """The first memory file the project has."""
    plugins: Path | None = None
    """Where Claude Code keeps plug-ins, whose skills are never changed."""


def skill_places(settings: NightSettings, project: Path, home: Path, state: Path) -> SkillPlaces:
    """The folders of skills that exist: of the project, of the person, and those that were named."""
    claude = settings.claude_home or home / ".claude"
    personal = claude / "skills"
    own = [project / folder for folder in skill_folders()]
    further = [path.absolute() for path in (personal, *settings.skill_roots)]
    real = Path(os.path.realpath(state))
    holds_state = Path(os.path.realpath(project)) in (real, *real.parents)
    # The project comes first, so that a link inside a repository is never followed; one that holds the state
    # folder, such as the home folder itself, is no root: only its folders of skills are.
    roots = [*(own if holds_state else [project]), *further]
    if settings.target_skill_path is not None:
        named = settings.target_skill_path.absolute()
        roots.append(named.parent.parent if named.name == SKILL_FILE else named.parent)
    memory = [
        path for path in (*(project / name for name in memory_files()), *_rules(project)) if path.is_file()
    ]
    return SkillPlaces(
        skills=tuple(dict.fromkeys(path for path in (*own, *further) if path.is_dir())),
        roots=tuple(dict.fromkeys(root for root in roots if root.is_dir())),
        # Agents often share one of these over links, and what lies behind a link is not written to.
        new=next((path for path in own if path.is_dir() and not _is_behind_link(path, project)), own[0]),
        memory=next(
            (path for path in memory if not _is_behind_link(path, project)), memory[0] if memory else None
        ),
        plugins=claude / "plugins",
    )


def near_agents(places: SkillPlaces, project: Path, sessions: Iterable[str]) -> tuple[SkillPlaces, str]:
    """The places with a new skill where the agent of most of these sessions (`source:id`) looks, and a note
    for a person whose other agents look elsewhere.
    """
    used = Counter(name.partition(":")[0] for name in sessions)
    folders: Counter[str] = Counter()
    titles: dict[str, str] = {}
    for one in agents():
        if one.source in used and one.skills:
            folders[one.skills] += used[one.source]
            titles.setdefault(one.skills, one.title)
    if not folders:
        return places, ""
    (first, _), *others = folders.most_common()
    new = project / first
    note = "".join(
        f"{titles[folder]} looks for skills in {folder} and not in {first}, where a new one goes: link it"
        " there once you have adopted it. "
        for folder, _ in others
    )
    return (places if _is_behind_link(new, project) else replace(places, new=new)), note.strip()


def _is_behind_link(path: Path, project: Path) -> bool:
    return os.path.realpath(path) != str(Path(os.path.realpath(project), path.relative_to(project)))


def without_frontmatter(text: str) -> str:
    """A rule of Cursor's without the part in front that says when it applies."""
    return _FRONTMATTER.sub("", text, count=1)


def _rules(project: Path) -> list[Path]:
    """Cursor's rules that apply to every conversation, by name; others are for certain files only."""
    found = []
    for path in sorted((project / RULES).glob("*.mdc")):
        try:
            head = _FRONTMATTER.match(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):  # not ours to judge: another file may do
            continue
        if head is not None and _ALWAYS.search(head[1]):
            found.append(path)
    return found


def targets_for(
    tasks: Iterable[NightTask],
    settings: NightSettings,
    places: SkillPlaces,
    remembered: Sequence[NightTask] = (),
) -> tuple[list[NightTarget], list[str]]:
    """The skills of a night, the one with most tasks first, and what a person should know about the tasks
    that belong to none.

    What earlier nights asked, the newest first, joins tonight's tasks of the same skill: all that decides, up
    to `PINNED`, and of what is learned from as much as `LEARNED` leaves room for.

    One that could not be proposed is left out before anything is paid; raises why where no other is left.
    """
    notes: list[str] = []
    by_path: dict[Path, list[NightTask]] = defaultdict(list)
    for task in tasks:
        by_path[path_for(task.skills, settings, places, notes)].append(task)
    found: list[NightTarget] = []
    refused: list[UsageError] = []
    again: dict[Path, list[NightTask]] = defaultdict(list)
    for task in remembered:
        again[path_for(task.skills, settings, places, [])].append(task)
    for path, its in by_path.items():
        its += _remembered(its, again[path])
        counts = Counter(task.split for task in its)
        if not counts["train"] or not counts["val"]:
            notes.append(
                f"{_name(path)}: {count(counts['train'], 'task')} to learn from and {counts['val']} to decide"
                " with; a night needs some of both, so this skill waits."
            )
            continue
        try:
            found.append(_beside_plugin(target_of(path, its, places.roots), places))
        except UsageError as error:
            refused.append(error)
            notes.append(f"{_name(path)} is left out: {error}")
    if refused and not found:
        raise refused[0]
    found.sort(key=lambda target: (-len(target.tasks), str(target.path)))
    return _of_one_name_each(found, notes), list(dict.fromkeys(notes))


def _remembered(tonight: Sequence[NightTask], again: Sequence[NightTask]) -> list[NightTask]:
    """Of earlier tasks those that join tonight's; no request twice."""
    known = {task.id for task in tonight} | {task.prompt for task in tonight}
    room = Counter({"val": PINNED, "test": PINNED, "train": LEARNED})
    room.subtract(task.split for task in tonight)
    taken = []
    for task in again:
        if room[task.split] > 0 and task.id not in known and task.prompt not in known:
            known |= {task.id, task.prompt}
            room[task.split] -= 1
            taken.append(task)
    return taken


def _of_one_name_each(found: Sequence[NightTarget], notes: list[str]) -> list[NightTarget]:
    """Keep the first of the targets with equal names, ignoring case; a note explains why others wait."""
    kept: dict[str, NightTarget] = {}
    for target in found:
        if (other := kept.setdefault(target.name.casefold(), target)) is not target:
            notes.append(f"{target.path} waits: {other.path} has the same name and more tasks tonight.")
    return list(kept.values())


def path_for(skills: Sequence[str], settings: NightSettings, places: SkillPlaces, notes: list[str]) -> Path:
    """The file that what was asked with these skills is about: the one skill, or ours."""
    if settings.target_skill_path is not None:
        return settings.target_skill_path.absolute()
    ours = _held(settings.managed_skill_name, places)
    # Where a person moved it: a second skill of its name would be in its way.
    managed = ours[0] if len(ours) == 1 else places.new / settings.managed_skill_name / SKILL_FILE
    if settings.evolve_memory and places.memory is not None:
        managed = places.memory
    if settings.multi_skill_fanout is False or len(skills) != 1:
        return managed
    name = skills[0]
    if overlay := _overlay(name):
        beside = _held(overlay, places)
        return beside[0] if len(beside) == 1 else places.new / overlay / SKILL_FILE
    if not _NAME.fullmatch(name):
        return managed
    held = _held(name, places)
    if len(held) == 1:
        return held[0]
    if held:
        notes.append(
            f"Several skills are called {name!r} ({', '.join(map(str, held))}); its tasks go to"
            f" {_name(managed)}."
        )
    return managed


def _overlay(skill: str) -> str:
    """The name of the skill beside one of a plug-in (`tools:minutes`); empty for any other."""
    plugin, _, name = skill.rpartition(":")
    plain = f"{name.lower()}-learned"
    return plain if plugin and _NAME.fullmatch(plain) else ""


def _beside_plugin(target: NightTarget, places: SkillPlaces) -> NightTarget:
    """The target with the text of the plug-in's skill that it is an overlay of, where that is found."""
    skills = {task.skills[0] for task in target.tasks if len(task.skills) == 1}
    overlaid = [skill for skill in sorted(skills) if _overlay(skill) == target.name]
    if places.plugins is None or not overlaid:
        return target
    plugin, _, name = overlaid[0].rpartition(":")
    found = sorted(places.plugins.glob(f"**/{plugin}/**/skills/{name}/{SKILL_FILE}"))
    try:
        text = found[-1].read_text(encoding="utf-8")[:_MOST_BESIDE] if found else ""
    except (OSError, UnicodeDecodeError):
        text = ""
    return target.model_copy(update={"beside": without_frontmatter(text)})


def _held(name: str, places: SkillPlaces) -> list[Path]:
    """The skills of that name; one that agents share over links counts once, by the straightest path."""
    held: dict[str, list[tuple[int, Path]]] = defaultdict(list)
    for root in places.skills:
        if (path := root / name / SKILL_FILE).is_file():
            real = os.path.realpath(path)
            links = (str(path) != real) + (str(Path(os.path.realpath(root), name, SKILL_FILE)) != real)
            held[real].append((links, path))
    return [min(paths, key=lambda pair: pair[0])[1] for paths in held.values()]


def check_skills(used: Iterable[tuple[str, ...]], settings: NightSettings, places: SkillPlaces) -> None:
    """Raise `UsageError` if no proposal is possible for any skill that the sessions used. It runs before a
    model reads the sessions, so that no call is wasted.
    """
    refused: list[UsageError] = []
    for path in sorted({path_for(skills, settings, places, []) for skills in used}):
        try:
            target_of(path, (), places.roots)
        except UsageError as error:
            refused.append(error)
        else:
            return
    if refused:
        raise refused[0]


def live_text(path: Path, roots: Sequence[Path], kind: Kind) -> str | None:
    """The text of a target as it is now, for a night to start from; None where there is no file.

    Raises `UsageError` for a place that adoption would refuse, so that no night is paid for it, and
    `SkillError` for what is not UTF-8.
    """
    if kind == "skill":
        refuse_unless_it_fits(path.suffix == ".md", path, kind)
    found = confined(path, roots).content()
    with as_usage_error(path, "read", "", SkillError):
        return None if found is None else found.decode("utf-8")


def refuse_unless_it_fits(fits: bool, path: Path, kind: Kind) -> None:
    """Raise `UsageError` for a file that has not the name of its kind."""
    if not fits:
        raise UsageError(
            f"{path} is not the name of a {kind} file, so nothing is proposed for it. A skill is a .md file."
        )


def target_of(path: Path, tasks: Sequence[NightTask], roots: Sequence[Path]) -> NightTarget:
    """The target of a file. Raises `UsageError` for one that cannot be trained or staged."""
    before = live_text(path, roots, "memory" if is_memory_file(path) else "skill")
    name = _name(path)
    if is_memory_file(path):
        try:
            seed = learned(before or "") or ""
            with_learned(before or "", "- A rule.")
        except SkillError as error:
            raise SkillError(f"{path}: {error}") from error
        return NightTarget(name=name, kind="memory", path=path, before=before, seed=seed, tasks=tuple(tasks))
    is_new = before is None or not before.strip()
    seed = _scaffold(name, tasks) if before is None or is_new else before
    Document(seed)
    broken = violations(seed, path.parent.name if path.name == SKILL_FILE else None) if is_new else ()
    if wrong := [one.message for one in broken if one.severity == "error"]:
        raise SkillError(
            f"{path}: agents would refuse a new skill there: {' '.join(wrong)} Name another file."
        )
    files = {} if is_new or path.name != SKILL_FILE else _references(path, roots)
    return NightTarget(
        name=name, kind="skill", path=path, before=before, seed=seed, files=files, tasks=tuple(tasks)
    )


def _references(path: Path, roots: Sequence[Path]) -> dict[str, str]:
    """The references beside a skill that adoption could change."""
    found = {}
    for name, text in load_skill(path).document.files.items():
        with suppress(UsageError):
            if live_text(path.parent / name, roots, "skill") == text:
                found[name] = text
    return found


def _name(path: Path) -> str:
    return path.name if is_memory_file(path) else path.parent.name if path.name == SKILL_FILE else path.stem


def _scaffold(name: str, tasks: Sequence[NightTask]) -> str:
    """A new page. Its description says when to use it, in the words of what is learned from."""
    train = [task.kind for task in tasks if task.split == "train"]
    kinds = dict.fromkeys(" ".join(_PLAIN.sub(" ", kind).lower().split()) for kind in train)
    asked = ", ".join(kind for kind in list(kinds)[:_KINDS] if kind)
    when = f"when you are asked to {asked}, and " if asked else ""
    overlaid = {skill for task in tasks for skill in task.skills if _overlay(skill) == name}
    if overlaid:
        when = f"together with {min(overlaid)}, {when}"
    purpose = (
        f"What this person wants, learned from earlier sessions. Use it {when}whenever you write for them."
    )
    return f"---\nname: {name}\ndescription: {purpose}\n---\n\n# What was learned\n"
