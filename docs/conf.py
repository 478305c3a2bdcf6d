"""Settings of the documentation; `make docs` builds it."""

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

import renyi

sys.path.insert(0, str(Path(__file__).parent))

project = "renyi"
author = "The renyi developers"
copyright = f"2026, {author}"
version = release = renyi.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "commandline",  # in this folder: the commands, from their parser
    "mathml",  # in this folder: formulas are shown without the network
    "results_page",  # in this folder: result files as pages
    "numpydoc",
]
html_math_renderer = "mathml"
exclude_patterns = ["_build", "study"]
smartquotes = False  # they would turn "--out" into a dash and "out"
templates_path = ["_templates"]

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings give the types, as numpydoc has them
numpydoc_show_class_members = False  # the template lists them instead

html_theme = "pydata_sphinx_theme"
html_title = f"renyi {release}"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_sidebars = {"**": ["globaltoc.html"]}  # all pages, on every page
html_theme_options = {
    "navbar_center": [],
    "show_prev_next": True,
    "show_toc_level": 2,
}

EXAMPLES = Path(__file__).parents[1] / "examples"
if EXAMPLES.is_dir():
    extensions.append("sphinx_gallery.gen_gallery")
    sphinx_gallery_conf = {
        "examples_dirs": str(EXAMPLES),
        "gallery_dirs": "auto_examples",
        "filename_pattern": "/",  # run them all, whatever their names
        "within_subsection_order": "FileNameSortKey",
        "abort_on_example_error": True,
        "write_computation_times": False,  # a page that loads scripts from the network
    }


def skip_metadata_routing(app, what, name, obj, skip, options):
    """Leave out what scikit-learn puts on estimators to route metadata."""
    routing = name == "get_metadata_routing" or re.fullmatch("set_.*_request", name)
    return skip or bool(routing)


def unlink_peers(app, what, name, obj, options, lines):
    """Leave the text of links into scikit-learn's own pages, in inherited members."""
    if str(getattr(obj, "__module__", "")).startswith("sklearn"):
        lines[:] = re.sub(
            r":ref:`([^`<]*?)\s*(<[^`]*>)?`", r"\1", "\n".join(lines)
        ).split("\n")


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", unlink_peers)
    app.connect("autodoc-skip-member", skip_metadata_routing)
