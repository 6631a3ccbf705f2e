"""A harvest: all sources at once, every session accounted for, none missed and none told twice."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from night._transcripts import WRITERS, Talk, claude_code, codex
from skillopt.agents import pick, present
from skillopt.errors import UnknownName
from skillopt.redact import Scrubber, redact_transcript
from skillopt.transcripts import Homes, harvest
from skillopt.transcripts.records import when
from skillopt.transcripts.session import is_our_call, is_public_replay, is_within

LINUX = "linux"


def test_every_session_that_was_read_is_kept_or_dropped_by_a_reason(tmp_path: Path) -> None:
    for number, write in enumerate(WRITERS.values()):
        write(tmp_path, Talk(id=f"old-{number}", start=Talk().start - timedelta(days=9)))
        write(tmp_path, Talk(id=f"new-{number}"))
    found = harvest(present(Homes(home=tmp_path, platform=LINUX)), Talk().start - timedelta(days=1))
    assert found.kept == len(WRITERS)
    assert {session.source for session in found.sessions} == set(WRITERS)
    assert found.read == found.kept + sum(found.dropped.values())
    assert found.dropped["older than asked for"] + found.skipped.get("file older than asked for", 0) >= 1
    assert found.next_since == max(session.ended for session in found.sessions)
    assert found.skills()["brief-writer"] == len(WRITERS)
    assert all(is_within(session.project, "/home/ann") for session in found.sessions)


def test_more_sessions_than_the_limit_are_taken_up_by_the_next_harvest_and_none_is_skipped(
    tmp_path: Path,
) -> None:
    for number in range(10):
        claude_code(tmp_path, Talk(id=f"s{number}", start=Talk().start + timedelta(hours=number), odd=False))
    sources = present(Homes(home=tmp_path, platform=LINUX))
    seen: list[str] = []
    since: datetime | None = None
    for _ in range(20):
        found = harvest(sources, since, most=4)
        seen += [session.id for session in found.sessions]
        if since == found.next_since:
            break
        since = found.next_since
    assert sorted(set(seen)) == [f"s{number}" for number in range(10)]
    assert harvest(sources, most=4).dropped == {"over the limit, left for the next harvest": 6}


def test_credentials_of_ours_are_taken_out_with_the_patterns(tmp_path: Path) -> None:
    codex(tmp_path, Talk(pairs=(("Use the house word open-sesame-42 here.", "Fine."),)))
    scrubber = Scrubber(["open-sesame-42"])
    found = harvest(
        present(Homes(home=tmp_path, platform=LINUX)),
        redact=lambda text: scrubber.scrub(redact_transcript(text)),
    )
    assert "sesame" not in repr(found)


def test_a_window_without_a_zone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no time zone"):
        harvest([], datetime(2026, 11, 14))


def test_sources_are_picked_by_name_alias_or_all_that_are_there(tmp_path: Path) -> None:
    claude_code(tmp_path, Talk())
    homes = Homes(home=tmp_path, platform=LINUX)
    assert [one.name for one in pick(["claude", "copilot-cli", "auto"], homes)] == [
        "claude_code",
        "copilot_cli",
    ]
    with pytest.raises(UnknownName, match="Did you mean 'codex'"):
        pick(["codx"], homes)


def test_a_folder_belongs_to_its_project_and_never_to_a_parent_or_to_nobody() -> None:
    assert is_within("/a/b", "/a/b") and is_within("/a/b/c", "/a/b")
    assert (
        not is_within("/a", "/a/b")
        and not is_within("/a/bc", "/a/b")
        and not is_within("", "/a/b")
        and not is_within("/a", "")
    )
    assert is_within("C:\\Users\\Ann\\shop\\x", "c:\\users\\ann\\shop") and not is_within("/c/Users", "C:\\")


def test_our_own_calls_are_known_by_folder_and_line_and_never_by_wording() -> None:
    assert is_our_call("/tmp/skillopt-agent-a1b2c3d4/workspace", [])
    assert is_our_call("/x", ["hello\n[skillopt run night-2026-11-14]\nmore"])
    talk = "Please improve my skill with skillopt; see skillopt-agent and [skillopt run] in the notes"
    assert not is_our_call("/home/ann/skillopt-agent-notes.d/x", [talk]) and not is_our_call(
        "/home/ann/skillopt", [talk]
    )
    assert not is_our_call("/x", ["[skillopt run two\nlines]"])


@pytest.mark.parametrize(
    ("project", "prompts", "is_theirs"),
    [
        ("/tmp/tmpk3_9x2ab", ["Answer the task."], True),
        ("/private/var/folders/zz/abc_d/T/skillopt_sleep_ab12", ["Answer."], True),
        (r"C:\Users\ann\AppData\Local\Temp\tmpk3_9x2ab", ["Answer."], True),
        ("/home/ann/x", ["<skillopt_sleep_internal_replay_v1>\nAnswer."], True),
        ("/home/ann/x", ["Follow this.\n---\nname: skillopt-sleep-learned\n---\nTask: 2 + 2"], True),
        ("/home/ann/x", ["# Rules\n<!-- SKILLOPT-SLEEP:LEARNED START -->\n- be short"], True),
        ("/home/ann/x", ["Score it: [[SKILLOPT-SLEEP-PENDING:0123456789abcdef]]"], True),
        ("/tmp/tmpk3_9x2ab", ["Look around.", "No, the other file."], False),
        ("/home/ann/x", ["name: skillopt-sleep-learned\nis in my skills, why?", "Remove it."], False),
        ("/home/ann/x", ["What does skillopt-sleep-learned do?"], False),
        ("/home/ann/tmp/tmpk3_9x2ab", ["Mine."], False),
        ("", ["Mine."], False),
    ],
)
def test_calls_of_the_public_engine_are_known_by_their_marks_and_folders(
    project: str, prompts: list[str], is_theirs: bool
) -> None:
    assert is_public_replay(project, prompts) is is_theirs


@pytest.mark.parametrize(
    ("value", "utc"),
    [
        ("2026-11-14T09:00:00.123456789Z", "09:00:00.123456"),
        ("2026-11-14T18:00:00+09:00", "09:00:00"),
        ("2026-11-14 09:00:00", "09:00:00"),
        ("2026-11-14T04:30-0430", "09:00:00"),
        (1794646800, "09:00:00"),
        (1794646800000, "09:00:00"),
        (1794646800.5, "09:00:00.500000"),
        pytest.param(10**400, None, id="a number of 401 digits"),
        *(
            (odd, None)
            for odd in (
                "soon",
                "2026-13-14T09:00:00Z",
                "",
                True,
                None,
                [],
                -1,
                0,
                1e300,
                float("nan"),
                "0001-01-01T00:00:00+23:00",
            )
        ),
    ],
)
def test_times_of_all_kinds_are_utc_or_unknown(value: object, utc: str | None) -> None:
    found = when(value)
    assert (None if found is None else found.time().isoformat()) == utc
    assert found is None or found.tzinfo is timezone.utc


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not tell the peak memory this way")
def test_many_sessions_are_harvested_in_little_memory(tmp_path: Path) -> None:
    """A process of its own says how much it held at most; twice the transcripts must not take twice the
    memory.
    """
    program = (
        "import resource, sys\nfrom pathlib import Path\nfrom skillopt.agents import present\n"
        "from skillopt.transcripts import Homes, harvest\nfound = harvest(present(Homes(home=Path(sys.argv[1]), platform='linux')), most=20)\nassert"
        " found.kept == 20 and found.read == int(sys.argv[2]),"
        " found.read\nprint(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    peaks = []
    for count in (40, 120):
        home = tmp_path / str(count)
        for number in range(count):
            claude_code(
                home,
                Talk(
                    id=f"s{number}",
                    output="line of output\n" * 10_000,
                    pairs=(("Write a brief. " * 500, "Yes. " * 2_000),) * 3,
                ),
            )
        done = subprocess.run(
            [sys.executable, "-c", program, str(home), str(count)], capture_output=True, text=True, check=True
        )
        peaks.append(int(done.stdout))
    assert peaks[1] < peaks[0] * 1.15
