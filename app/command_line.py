"""The commands of ``qwen38`` by name; each ends with a sentence and an exit code.

Every command is a function that returns its exit code or raises; `app.report` lists the codes.
Help loads neither torch nor a screen.
"""

import functools
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from app.commands import (
    bench_ab,
    bench_kernels,
    bench_prefill,
    bench_round,
    bench_ui,
    chat,
    check,
    doctor,
    profiles,
    quality,
    quantize,
    run,
    sessions,
    settings,
    trace,
    tune,
)
from app.report import BAD_USAGE, FAILED, leave_stdout, report, say, say_lines
from app.streams import write_data
from engine.errors import did_you_mean
from engine.settings.declared import Settings
from engine.settings.load import load_settings

EPILOG = (
    "Exit codes: 0 done, 1 failed or red, 2 bad usage, 3 no model, 4 not enough memory, "
    "130 interrupted."
)


class _Commands(TyperGroup):
    """Guesses at what was meant by our one rule."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401  typer's own types
        try:
            return super().resolve_command(ctx, args)
        except typer.TyperException as error:
            told = error.message.rstrip(".")
            error.message = f"{told}. {did_you_mean(args[0], self.commands)}".strip()
            raise


_PLAIN: dict[str, Any] = {
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    "cls": _Commands,
    "suggest_commands": False,
}

cli = typer.Typer(
    name="qwen38",
    help="Chat with Qwen3.8-27B in this terminal; the engine runs inside.",
    epilog=EPILOG,
    no_args_is_help=True,
    **_PLAIN,
)
session_commands = typer.Typer(
    help="List, show, export and delete conversations.", no_args_is_help=True, **_PLAIN
)
bench_commands = typer.Typer(
    help="Measure against this machine's bandwidth.", no_args_is_help=True, **_PLAIN
)


def _ends_well(command: Callable[..., int]) -> Callable[..., int]:
    """Turn what a command raises into an exit code, as what it returns is one."""

    @functools.wraps(command)
    def ending(*args: object, **options: object) -> int:
        try:
            return command(*args, **options)
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  the one place for all
            return report(error, _log_folder())

    return ending


def _log_folder() -> Path:
    try:
        settings_now, _ = load_settings()
    except Exception:  # noqa: BLE001  it is asked while another failure is told
        settings_now = Settings()
    return settings_now.state_dir / "logs"


def _print_version(is_asked: bool) -> None:
    if is_asked:
        write_data(f"qwen38 {metadata.version('qwen38')}\n")
        raise typer.Exit(0)


@cli.callback()
def _root(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


cli.command("chat")(_ends_well(chat.chat))
cli.command("run")(_ends_well(run.run))
cli.command("profiles")(_ends_well(profiles.profiles))
cli.command("settings")(_ends_well(settings.settings))
cli.command("doctor")(_ends_well(doctor.doctor))
cli.command("check")(_ends_well(check.check))
cli.command("quality")(_ends_well(quality.quality))
cli.command("trace")(_ends_well(trace.trace))
cli.command("tune")(_ends_well(tune.tune))
cli.command("quantize", help=quantize.HELP)(_ends_well(quantize.quantize))
session_commands.command("list")(_ends_well(sessions.list_sessions))
session_commands.command("show")(_ends_well(sessions.show))
session_commands.command("export")(_ends_well(sessions.export))
session_commands.command("delete")(_ends_well(sessions.delete))
cli.add_typer(session_commands, name="sessions")
bench_commands.command("round")(_ends_well(bench_round.bench_round))
bench_commands.command("kernels")(_ends_well(bench_kernels.bench_kernels))
bench_commands.command("prefill")(_ends_well(bench_prefill.bench_prefill))
bench_commands.command("ui")(_ends_well(bench_ui.bench_ui))
bench_commands.command("ab")(_ends_well(bench_ab.bench_ab))
cli.add_typer(bench_commands, name="bench")


def with_left_out_values(arguments: Sequence[str]) -> list[str]:
    """Give options that may stand alone the value that they mean then.

    ``--resume`` means the last conversation, ``--json`` of ``quality`` stdout; the parser knows no
    option whose value may be left out.
    """
    given = list(arguments)
    meant = {"--resume": chat.LATEST}
    if given[:1] == ["quality"]:
        meant["--json"] = str(quality.STDOUT)
    for index, word in enumerate(given):
        after = given[index + 1] if index + 1 < len(given) else "-"
        if word in meant and after.startswith("-"):
            given[index] = f"{word}={meant[word]}"
    return given


def run_command_line(arguments: Sequence[str]) -> int:
    """Run a command line; returns the exit code of the process."""
    try:
        code: int = cli(
            args=with_left_out_values(arguments), prog_name="qwen38", standalone_mode=False
        )
    except typer.TyperException as error:
        code = _refuse_usage(error)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  help writes as well
        code = report(error, _log_folder())
    return code if leave_stdout() else code or FAILED


def _refused_value(error: typer.BadParameter) -> str:
    """What was wrong with which value of an option; empty where the parser tells no value."""
    reasons: Any = getattr(error.__cause__, "errors", None)
    said, is_about_value, expected = error.message.partition("Input should be ")
    if reasons is None or error.param is None or said or not is_about_value:
        return ""
    option, value = " / ".join(error.param.opts), reasons()[0]["input"]
    return f"{option} is '{value}', expected it to be {expected.partition(',')[0]}."


def _refuse_usage(error: typer.TyperException) -> int:
    """Say in one sentence what the option parser refused; the help that no word asks for is whole.

    The parser tells its commands' names through the context of its errors.
    """
    context: typer.Context | None = getattr(error, "ctx", None)
    command = context.command_path if context else "qwen38"
    message = error.format_message()
    if hasattr(error, "possibilities"):
        option = str(getattr(error, "option_name", ""))
        known = {one for each in context.command.params for one in each.opts} if context else ()
        message = f"No such option: {option}. {did_you_mean(option, known)}".strip()
    elif isinstance(error, typer.BadParameter):
        message = _refused_value(error) or message
    elif command == "qwen38 run" and "extra argument" in message:
        message = f"{message}. Write a prompt of several words in quotes"
    if context and message == context.get_help():
        say_lines(message)
    else:
        stop = "" if message.endswith((".", "?")) else "."
        say(f"Usage: {message}{stop} See '{command} --help'.")
    return BAD_USAGE
