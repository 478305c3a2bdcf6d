"""Formulas as MathML inside the pages, which browsers show without any network."""

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx


def inline(self, node: nodes.math) -> None:
    """Write a formula inside a sentence."""
    self.body.append(convert(node.astext()))
    raise nodes.SkipNode


def block(self, node: nodes.math_block) -> None:
    """Write a formula of its own."""
    self.body.append(self.starttag(node, "div", CLASS="formula"))
    self.body.append(convert(" ".join(node.astext().split()), display="block"))
    self.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Make this the way in which formulas are written."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
