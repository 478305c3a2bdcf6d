"""Settings of the documentation; `make docs` builds it."""

from pathlib import Path

from sphinx.application import Sphinx

import renyi

project = "renyi"
author = "The renyi developers"
copyright = f"2026, {author}"
version = release = renyi.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings give the types, as numpydoc has them
numpydoc_show_class_members = False  # the template lists them instead

html_theme = "pydata_sphinx_theme"
html_title = f"renyi {release}"
html_theme_options = {
    "show_prev_next": False,
    "show_toc_level": 2,
}

EXAMPLES = Path(__file__).parents[1] / "examples"
if EXAMPLES.is_dir():
    extensions.append("sphinx_gallery.gen_gallery")
    sphinx_gallery_conf = {
        "examples_dirs": str(EXAMPLES),
        "gallery_dirs": "auto_examples",
        "filename_pattern": "/",  # run them all, whatever their names
        # No scraper: it would make the documentation need matplotlib.
        "image_scrapers": (),
        "reset_modules": (),
    }


def skip_metadata_routing(app, what, name, obj, skip, options):
    """Leave out the set_*_request methods that scikit-learn puts on estimators."""
    return skip or (name.startswith("set_") and name.endswith("_request"))


def setup(app: Sphinx) -> None:
    app.connect("autodoc-skip-member", skip_metadata_routing)
