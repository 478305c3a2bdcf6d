"""The lint of words finds what it should, in prose and not in code."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "lint_words.py"


@pytest.fixture
def lint(tmp_path, monkeypatch):
    """Return what the lint says about a file of this name and text."""
    spec = importlib.util.spec_from_file_location("lint_words", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)

    def findings(name, text):
        (tmp_path / name).write_text(text, "utf-8")
        return list(module.findings(tmp_path / name))

    return findings


@pytest.mark.parametrize(
    "text",
    [
        "The model errs on 6 % of the rows.",
        "That is no estimate.",
        "Who doubts the certificate checks it.",
        "It is a file\nof its own.",
        "Rows are counted, too.",
        "The rows stand beside the answers.",
        "| a | every road ends here |",
        ".. note:: Such columns are refused.",
        ".. list-table::\n\n   * - judged by rows",
    ],
)
def test_a_word_is_found_in_prose(lint, text):
    assert lint("page.rst", text)


@pytest.mark.parametrize(
    "text",
    [
        "There is no row, and it is no longer needed; X stands for it.",
        "Nobody can tell the two apart. The bound holds for every population.",
        "The name ``errs`` and the name `road` are code.",
        "An example::\n\n    errs beside the road\n\nand more.",
        ".. code-block:: sh\n\n   errs",
        "```\nerrs\n```",
        ">>> 'errs'\n'errs'",
        "We recommend this.",
    ],
)
def test_other_uses_and_code_are_left_alone(lint, text):
    assert lint("page.rst", text) == []


def test_sentences_of_the_readme_are_shorter(lint):
    words = " ".join(["word"] * 28) + "."
    assert "28 words" in lint("README.md", words)[0]
    assert lint("page.rst", words) == []
    assert "31 words" in lint("page.rst", f"Two more {words[:-1]} ``a = b``.")[0]
    assert lint("README.md", "One two. " * 40) == []


@pytest.mark.parametrize(
    "text",
    [
        '"""The model errs."""',
        "x = 1  # as told before",
        "# a comment on two\n# lines is refused",
        'raise ValueError(f"{x} is no number")',
        'print("a text on two "\n    "lines, too.")',
    ],
)
def test_a_module_is_read_where_people_read_it(lint, text):
    assert lint("module.py", text)


def test_names_in_a_module_are_not_prose(lint):
    assert lint("module.py", 'errs = {"errs": 1}\nroad = errs["errs"]\n') == []
