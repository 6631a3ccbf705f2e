"""Nights started by a systemd user timer: two units of ours, and no unit of somebody else's is touched."""

from __future__ import annotations

from pathlib import Path

from skillopt.errors import UsageError
from skillopt.files import write_text
from skillopt_sleep.schedulers.port import RunProgram, Schedule, asked, make_log_folder

_HEAD = "# Written by skillopt sleep schedule; unschedule takes it away."


def unit(id: str) -> str:
    """The name both units share."""
    return f"skillopt-sleep-{id}"


def render(schedule: Schedule) -> tuple[str, str]:
    """The service and the timer; every word is quoted against systemd's own `%`, `$` and `\\`."""
    environment = "".join(f"Environment={_word(f'{name}={value}')}\n" for name, value in schedule.environment)
    # These two take the rest of their line as it is: only `%` has a meaning there.
    log = "".join(
        f"Standard{side}=append:{_percents(str(schedule.log))}\n"
        for side in ("Output", "Error")
        if schedule.log is not None
    )
    head = f"{_HEAD}\n{schedule.comment()}\n[Unit]\nDescription=SkillOpt night shift"
    service = (
        f"{head}\n\n[Service]\nType=oneshot\n"
        f"WorkingDirectory={_percents(str(schedule.folder))}\n{environment}{log}"
        # Environment= expands no variables, a command line does.
        f"ExecStart={' '.join(_word(word).replace('$', '$$') for word in schedule.command)}\n"
    )
    timer = (
        f"{head} at {schedule.time}\n\n[Timer]\nOnCalendar=*-*-* {schedule.time}:00\n"
        # A night that was slept through by the machine itself is caught up with.
        "Persistent=true\n\n[Install]\nWantedBy=timers.target\n"
    )
    return service, timer


class Systemd:
    """The user's own units in `units` (`~/.config/systemd/user`), over `systemctl --user`."""

    name = "systemd"

    def __init__(self, run: RunProgram, units: Path) -> None:
        self._run = run
        self._units = units

    def entries(self) -> tuple[Schedule, ...]:
        """Our entries."""
        timers = sorted(self._units.glob(f"{unit('*')}.timer")) if self._units.is_dir() else []
        return tuple(self._read(path.stem.removeprefix(unit(""))) for path in timers)

    def install(self, schedule: Schedule) -> None:
        """Write both units and start the timer; a unit of somebody else's is not overwritten."""
        service, timer = self._paths(schedule.id)
        if service.exists() or timer.exists():
            self._read(schedule.id)
        if not Path(schedule.command[0]).is_absolute():
            raise UsageError(
                f"systemd needs the whole path of a program, not {schedule.command[0]!r}. Nothing was"
                " scheduled."
            )
        for path in filter(None, (schedule.folder, schedule.log)):
            if str(path) != str(path).strip() or str(path).endswith("\\") or not path.is_absolute():
                raise UsageError(
                    f"systemd cannot keep {str(path)!r}: it wants a whole path that ends in no space or"
                    " backslash."
                )
        texts = render(schedule)
        make_log_folder(schedule)
        for path, text in zip((service, timer), texts, strict=True):
            write_text(path, text)
        try:
            asked(self._run, ["systemctl", "--user", "daemon-reload"])
            asked(self._run, ["systemctl", "--user", "enable", "--now", timer.name])
        except UsageError:
            # Units that never run would look like a schedule.
            self._remove(schedule.id)
            raise

    def uninstall(self, id: str) -> bool:
        """Stop the timer and take both units away."""
        service, timer = self._paths(id)
        if not service.exists() and not timer.exists():
            return False
        self._read(id)
        asked(self._run, ["systemctl", "--user", "disable", "--now", timer.name])
        self._remove(id)
        asked(self._run, ["systemctl", "--user", "daemon-reload"])
        return True

    def _paths(self, id: str) -> tuple[Path, Path]:
        return self._units / f"{unit(id)}.service", self._units / f"{unit(id)}.timer"

    def _read(self, id: str) -> Schedule:
        """The entry of two units. Raises `UsageError` for what we did not write."""
        try:
            texts = tuple(path.read_bytes().decode("utf-8") for path in self._paths(id))
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"The units {unit(id)} in {self._units} cannot be read ({error}). They are left alone."
            ) from error
        schedule = Schedule.of_comment("".join(texts[0].split("\n")[1:2]))
        if schedule is None or schedule.id != id or render(schedule) != texts:
            raise UsageError(
                f"The units {unit(id)} were not written by us, or were changed since. They are left alone."
            )
        return schedule

    def _remove(self, id: str) -> None:
        for path in self._paths(id):
            path.unlink(missing_ok=True)


def _percents(text: str) -> str:
    return text.replace("%", "%%")


def _word(text: str) -> str:
    escaped = _percents(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
