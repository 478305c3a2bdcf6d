"""One option name has one meaning in all commands."""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Callable, Iterator

import pytest

from renyi.cli.parser import Place, parser
from support.commandline import Done, save, table

Named = tuple[str, argparse.Action]

EXCEPTIONS = {  # option: why its commands differ
    "-o": "each command names the file that it writes",
    "--out": "each command names the file that it writes",
    "--level": "minimax has no closed form, and can choose by itself",
    "--order": "only fit can choose an order, or take every order",
    "--rule": "models answer by a rule, releases hide by one",
    "--sql": "fit reads by a query, export writes for an engine",
    "--threshold": "of a total of points, or of counts that a release hides",
}


def options(whole: argparse.ArgumentParser, name: str = "") -> Iterator[Named]:
    """Yield every option of every command, with the name of the command."""
    for action in whole._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command, other in action.choices.items():
                yield from options(other, f"{name} {command}".strip())
        elif action.option_strings:
            yield name, action


def by_name() -> dict[str, list[Named]]:
    """Return the options by their names, without those that are only rejected."""
    named = defaultdict(list)
    for command, action in options(parser()):
        for name in action.option_strings:
            if action.help != argparse.SUPPRESS:
                named[name].append((command, action))
    return named


def meaning(action: argparse.Action) -> tuple[object, ...]:
    """Return what an option sets, and its help without a remark or a default."""
    said = str(action.help).partition(" (")[0]
    choices = tuple(action.choices or ())
    return action.dest, action.type, action.nargs, action.metavar, choices, said


@pytest.mark.parametrize("name", sorted({*by_name()} - {*EXCEPTIONS}))
def test_an_option_has_one_meaning(name: str) -> None:
    meanings = {command: meaning(action) for command, action in by_name()[name]}
    assert len({*meanings.values()}) == 1, meanings


@pytest.mark.parametrize("name", sorted(EXCEPTIONS))
def test_exceptions_are_needed(name: str) -> None:
    assert len({meaning(action) for _, action in by_name()[name]}) > 1


def test_every_command_that_writes_takes_o_and_out() -> None:
    for command, action in by_name()["--out"]:
        assert action.option_strings == ["-o", "--out"], command
        assert (action.dest, action.type) == ("out", Place)


def test_every_command_has_help_on_every_option() -> None:
    hidden = [
        (command, action.option_strings[0])
        for command, action in options(parser())
        if action.help == argparse.SUPPRESS
    ]
    # The help of --names in fit has --no-header, that of --confidence has --holdout;
    # compare rejects weights with a reason.
    own = [("fit", "--no-header"), ("fit", "--holdout"), ("compare", "--weight")]
    assert hidden == own
    for command, action in options(parser()):
        assert action.help, (command, action.option_strings)


def test_renyi_alone_prints_help(good: Callable[..., Done]) -> None:
    assert good().out == parser().format_help()
    assert good().err == ""


def test_help_of_fit_fits_a_screen() -> None:
    (fit,) = (
        action.choices["fit"]
        for action in parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    assert len(fit.format_help().splitlines()) <= 50


REPR = re.compile(
    r"<[A-Z]\w+[ .]|\b(array|frozenset|Index|Timestamp|dtype|PosixPath)\b[(=:]"
    r"|\bnp\.\w|, None\b|\bNone,"
)


def test_no_command_prints_a_python_repr(good: Callable[..., Done]) -> None:
    frame = table().assign(truth=[True, False] * 100)
    place = save(frame)
    build = ("marginals", "build", place, "--target", "y", "--id", "id")
    texts = [
        good("fit", place, "--target", "y", "--id", "id", "--out", "m"),
        good(*build, "--out", "a.renyi"),
        good("marginals", "merge", "a.renyi", "m.renyi", "-o", "b.renyi"),
        good("marginals", "subtract", "b.renyi", "a.renyi", "-o", "c.renyi"),
        good("marginals", "show", "a.renyi"),
        good("marginals", "show", "a.renyi", "--pair", "truth", "y"),
        good("certify", "m.json", "m.renyi"),
        good("certify", "m.json", "--rows", place),
        good("verify", "m.json", "m.renyi"),
        good("minimax", "a.renyi", "--level", "lp"),
        good("hgr", "a.renyi"),
        good("select", "a.renyi", "--n-features", "2"),
        good("predict", "m.json", place, "--proba"),
        good("export", "m.json", "--points", "3"),
        good("report", "m.json"),
        good("datasets"),
    ]
    for done in texts:
        assert not REPR.search(done.out + done.err), REPR.search(done.out + done.err)
    assert "Wrote a.renyi: Marginals of 200 rows" in texts[1].out
