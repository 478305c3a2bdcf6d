"""The directive ``commands``: a reference of the command line, from its parser."""

import argparse
from collections.abc import Iterator

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from renyi.cli.parser import parser


def commands(of: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield every command that does something, those of ``marginals`` one by one."""
    inner = [a for a in of._actions if isinstance(a, argparse._SubParsersAction)]
    if not inner:
        yield of
    for action in inner:
        for each in action.choices.values():
            yield from commands(each)


def page(of: argparse.ArgumentParser) -> list[str]:
    """Return the lines of the reference: a section for every command."""
    lines: list[str] = []
    for command in commands(of):
        lines += [
            "",
            command.prog,
            "-" * len(command.prog),
            "",
            _text(command, command.description),
        ]
        given = [a for a in command._actions if not a.option_strings]
        usage = [command.prog, *(_signature(command, a) for a in given), "[options]"]
        lines += ["", ".. code-block:: text", "", f"   {' '.join(usage)}"]
        lines += ["", f".. program:: {command.prog}", ""]
        for group in command._action_groups:
            shown = [
                a
                for a in group._group_actions
                if a.dest != "help" and a.help != argparse.SUPPRESS
            ]
            if shown:
                lines += [f".. rubric:: {group.title.capitalize()}", ""]
                lines += ["", group.description or "", ""]
            for action in shown:
                lines += [f".. option:: {_signature(command, action)}", ""]
                lines += [f"   {_text(command, action.help)}", ""]
        lines += ["", _text(command, command.epilog), ""]
    return lines


def _signature(command: argparse.ArgumentParser, action: argparse.Action) -> str:
    """Return an option and its values as ``--help`` shows them."""
    formatter = command._get_formatter()
    if not action.option_strings:
        return str(formatter._metavar_formatter(action, action.dest)(1)[0])
    values = (
        "" if action.nargs == 0 else formatter._format_args(action, action.dest.upper())
    )
    return ", ".join(f"{name} {values}".strip() for name in action.option_strings)


def _text(command: argparse.ArgumentParser, help: str | None) -> str:
    """Return a help text as one line in which no sign means anything to Sphinx."""
    plain = " ".join((help or "").replace("%%", "%").split())
    return "".join(f"\\{sign}" if sign in "*`|_\\" else sign for sign in plain)


class Commands(SphinxDirective):
    """All commands, in the order of the parser."""

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        holder = nodes.section()
        holder.document = self.state.document
        lines = StringList(page(parser()), source="renyi --help")
        self.state.nested_parse(lines, 0, holder, match_titles=True)
        return holder.children


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
