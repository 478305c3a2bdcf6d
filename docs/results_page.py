"""The directive ``results``: a committed result file, in Markdown, as part of a page.

The benchmarks and experiments write Markdown with headings, tables, lists, code spans
and links. Pages include those files as they are, so a page cannot differ from them.
"""

import re
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).parents[1]


def converted(text: str, underlines: str = "-~^") -> list[str]:
    """Return a result file as reStructuredText; its title becomes a section."""
    lines: list[str] = []
    table: list[str] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            table.append(line)
            continue
        if table:
            lines += ["", *_table(table), ""]
            table = []
        heading = re.match(r"(#+) (.*)", line)
        fence = line.startswith("```")
        if heading:
            title = _inline(heading[2])
            depth = min(len(heading[1]), len(underlines)) - 1
            lines += ["", title, underlines[depth] * (2 * len(title)), ""]
        elif re.match(r"[-*] ", line):
            lines += ["", f"* {_inline(line[2:])}"]
        elif not fence:
            lines.append(_inline(line))
    return lines


def _table(rows: list[str]) -> list[str]:
    """Return the rows of a Markdown table as a ``list-table``."""
    lines = [".. list-table::", "   :header-rows: 1", "   :class: results", ""]
    for row in rows:
        cells = [cell.strip() for cell in row.strip().strip("|").split("|")]
        if all(re.fullmatch(":?-+:?", cell) for cell in cells):
            continue
        for number, cell in enumerate(cells):
            mark = "*" if number == 0 else " "
            lines.append(f"   {mark} - {_inline(cell)}".rstrip())
    return lines


def _inline(text: str) -> str:
    """Return a line in which only code, emphasis and links have a meaning."""
    pieces = re.split(r"(`[^`]+`|\*\*[^*]+\*\*|\[[^\]]+\]\([^)]+\))", text)
    return "".join(_piece(piece) for piece in pieces)


def _piece(piece: str) -> str:
    if piece.startswith("`"):
        return rf"\ `{piece}`\ "
    if piece.startswith("**"):
        return rf"\ {piece}\ "
    link = re.fullmatch(r"\[([^\]]+)\]\([^)]+\)", piece)
    if link:
        return link[1]
    return re.sub(r"([*`|_\\])", r"\\\1", piece)


def section(text: str, title: str) -> str:
    """Return what is below the headings of a result file that begin with a title."""
    parts = re.split(r"^## ", text, flags=re.MULTILINE)
    bodies = [part.partition("\n")[2] for part in parts if part.startswith(title)]
    if not bodies:
        raise ValueError(f"No section of the file begins with {title!r}.")
    return "\n".join(bodies)


class Results(SphinxDirective):
    """One result file: its path, and a title to use instead, or one of its sections."""

    required_arguments = 1
    option_spec = {"title": directives.unchanged, "section": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        """Put the file in the place of the directive."""
        file = ROOT / self.arguments[0]
        self.env.note_dependency(str(file))
        text = file.read_text(encoding="utf-8")
        if "section" in self.options:
            text = section(text, self.options["section"])
        if "title" in self.options:
            text = re.sub(r"\A# .*", f"# {self.options['title']}", text)
        self.state_machine.insert_input(["", *converted(text), ""], str(file))
        return []


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("results", Results)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
