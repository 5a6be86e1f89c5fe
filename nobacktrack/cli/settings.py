"""Options from a TOML file: those of the command line, by the same names; what is said on the command line counts."""

from __future__ import annotations

import tomllib
from pathlib import Path

import typer


def apply(context: typer.Context, path: Path | None) -> Path | None:
    """Take the defaults of a command from a file."""
    if path is None:
        return None
    try:
        found = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{path}: not TOML ({error})") from None
    except OSError as error:
        raise typer.BadParameter(f"{path}: {error.strerror}") from None
    known = {name: parameter.name for parameter in context.command.params for name in _names(parameter)}
    strange = [name for name in found if name.replace("_", "-") not in known]
    if strange:
        raise typer.BadParameter(f"{path}: {strange[0]!r} is no option; there are {', '.join(sorted(known))}")
    several = {parameter.name for parameter in context.command.params if getattr(parameter, "multiple", False)}
    named = {str(known[name.replace("_", "-")]): value for name, value in found.items()}
    context.default_map = {
        name: [value] if name in several and isinstance(value, str) else value for name, value in named.items()
    }
    return path


def _names(parameter: object) -> list[str]:
    options = [*getattr(parameter, "opts", [])]
    return [option.lstrip("-").replace("_", "-") for option in options]
