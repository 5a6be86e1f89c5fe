"""Commands as a user calls them, in this process: starting one of its own takes two seconds."""

import json
import os
import sys
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

import nobacktrack as nbt
from nobacktrack import cli


class Outcome(NamedTuple):
    """What a command left: its exit code, and what it wrote."""

    code: int
    out: str
    err: str

    def json(self) -> dict[str, Any]:
        """The summary that `--json` prints."""
        return json.loads(self.out)


@pytest.fixture
def call(capfd, as_users_have_it):
    """`call("train", path, ...)`; a command that should fail says so by `ok=False`."""

    def called(*arguments: Any, ok: bool = True) -> Outcome:
        capfd.readouterr()
        code = 0
        with patch.object(sys, "argv", ["nobacktrack", *map(str, arguments)]), patch.dict(os.environ):
            try:
                cli.main()
            except SystemExit as exit:
                code = exit.code if isinstance(exit.code, int) else 0
        outcome = Outcome(code, *capfd.readouterr())
        assert (code == 0) == ok, outcome.err
        assert "Traceback" not in outcome.err
        return outcome

    return called


@pytest.fixture
def text(tmp_path):
    """A file of a^n b^n."""
    path = tmp_path / "text.txt"
    symbols = nbt.streams.anbn(1, 8, length=6000, seed=0)
    path.write_text("".join(nbt.streams.ANBN_ALPHABET[symbol] for symbol in symbols))
    return path
