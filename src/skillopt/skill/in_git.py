"""A skill as it was at a commit: found in git, also under an earlier path, and laid out in a folder."""

from __future__ import annotations

import io
import tarfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from skillopt.errors import Fault, SkillError, UsageError, suggest
from skillopt.process import ask_process, git_env
from skillopt.skill.document import SKILL_FILE
from skillopt.skill.folder import Skill, load_skill

_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedSkill:
    """A skill at a commit, None where there was none yet, and the path of its text there."""

    commit: str
    path: str
    skill: Skill | None
    renamed: bool = False


def skill_at(skill: Skill, ref: str, into: Path) -> CommittedSkill:
    """The version of a skill at a commit, branch or tag; its files are written below `into`, which is ours.

    A branch that is only known from `origin` is taken from there, as a clone in CI has no other.
    """
    assert skill.path is not None, "it was read from a file"
    file = skill.path.resolve()
    git = _Git(file.parent)
    top = Path(git.ask("rev-parse", "--show-toplevel", why=f"{file} lies in no git repository"))
    commit = git.commit(ref)
    path = file.relative_to(top.resolve()).as_posix()
    was = path if git.has(commit, path) else git.renamed_from(commit, path)
    if was is None:
        return CommittedSkill(commit=commit, path=path, skill=None)
    is_folder = PurePosixPath(was).name == SKILL_FILE
    git.lay_out(top, commit, str(PurePosixPath(was).parent) if is_folder else was, into)
    return CommittedSkill(commit=commit, path=was, skill=load_skill(into / was), renamed=was != path)


class _Git:
    """Questions to git about one repository; what cannot be answered is a sentence with the remedy."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def commit(self, ref: str) -> str:
        for name in (ref, f"origin/{ref}"):
            _, digest = self._run(
                "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"
            )
            if digest:
                return digest.decode().strip()
        names = self.ask("for-each-ref", "--format=%(refname:short)").split()
        shallow = self.ask("rev-parse", "--is-shallow-repository") == "true"
        remedy = (
            "This clone is shallow: fetch the commit first (git fetch --depth 1 origin REF:REF; in GitHub"
            " Actions fetch-depth: 0)."
            if shallow
            else suggest(ref, names)
        )
        raise UsageError(f"Git knows no commit, branch or tag {ref!r}. {remedy}")

    def has(self, commit: str, path: str) -> bool:
        code, _ = self._run("cat-file", "-e", f"{commit}:{path}")
        return code == 0

    def renamed_from(self, commit: str, path: str) -> str | None:
        """The path at that commit of a file that git follows to this one."""
        renames = self.ask("diff", "--name-status", "-z", "--find-renames", "--diff-filter=R", commit)
        words = renames.split("\0")
        return next((old for old, new in zip(words[1::3], words[2::3], strict=False) if new == path), None)

    def lay_out(self, top: Path, commit: str, path: str, into: Path) -> None:
        """Write the files below a path as a checkout would; links last, so that none is written through."""
        code, packed = self._run("-C", str(top), "archive", "--format=tar", commit, "--", path)
        if code:
            raise SkillError(f"git archive could not read {path} at {commit[:7]}.")
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            members = archive.getmembers()
            for member in (member for member in members if member.isreg()):
                target, content = into / member.name, archive.extractfile(member)
                assert content is not None, "it is a regular file"
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content.read())
                target.chmod(0o755 if member.mode & 0o100 else 0o644)
            for member in (member for member in members if member.issym()):
                (into / member.name).parent.mkdir(parents=True, exist_ok=True)
                (into / member.name).symlink_to(member.linkname)

    def ask(self, *words: str, why: str = "git failed") -> str:
        code, output = self._run(*words)
        if code:
            raise UsageError(f"{why}: {output.decode('utf-8', 'replace').strip()}")
        return output.decode("utf-8", "surrogateescape").strip()

    def _run(self, *words: str) -> tuple[int, bytes]:
        """The exit code, and what was printed: of a failure the complaint."""
        env = git_env({"GIT_LITERAL_PATHSPECS": "1", "LC_ALL": "C"})
        try:
            done = ask_process(["git", "-C", str(self._folder), *words], env=env, timeout=_SECONDS)
        except Fault as fault:
            raise UsageError(
                f"The earlier version is read from git, and that cannot be done: {fault.detail}. Install"
                " git, or compare two files: skillopt eval --skill NEW --against OLD."
            ) from fault
        return done.code, done.stderr if done.code and done.stderr else done.stdout
