"""Find words and sentences that a reader would stumble over.

    python scripts/lint_words.py [PATH...]

The script reads README, CHANGELOG, CONTRIBUTING, SECURITY, the pages of the
documentation, and the docstrings, comments and texts (messages, help) of the package.
It looks for the words in `WORDS`, each with what to write instead, and for sentences
that are too long. Code in backticks, literal blocks and doctests are not read.

The script fails if it finds anything. With paths it reads these only.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "benchmarks/README.md",
    "experiments/README.md",
)
LONGEST = {"README.md": 25}  # words in a sentence
LONGEST_ELSEWHERE = 30

WORDS = {  # pattern: what to write instead
    r"errs?\b|erred\b": "is wrong, error rate",
    r"wrong answers?\b|mistakes?\b": "error, error rate",
    r"judg(e|es|ed|ing)\b": "evaluate",
    r"mend(s|ed|ing)?\b": "fix",
    r"(tell|tells|telling|told)\b(?!.{0,40} apart\b)": "report, say",
    r"stands?\b(?! (for|alone)\b)|stood\b": "is, is listed",
    r"(speaks?|spoken|speaking) (of|for)\b": "apply to, be about",
    r"(goes|go|going|went) on\b": "continue",
    r"refus(e|es|ed|ing|al)\b": "reject",
    r"holds? (a|an|the|its|their|all|every|no|one|two|more|less)\b": "contain",
    r"(draw|draws|drawn|drawing) (a |the |its )?"
    r"(path|plot|chart|figure|picture|curve|line|bar|axis|diagram)s?\b": "plot",
    r"roads?\b": "path, input path",
    r"strangers?\b": "untrusted",
    r"dear(er|est|ly)?\b": "expensive",
    r"beside\b": "next to, compared with",
    r"(?<!there )is no (?!longer|more|less|larger|smaller|better|worse|greater|higher)"
    r"(?!lower|wider|narrower|faster|slower|one\b)\w": "is not a",
    r"who (does|must|may|doubts|wants|needs|has)\b": "if you …",
    r"(?<=of )(its|their) own\b": "separate, own …",
    r"too(?=[.,;:])(?<=, too)": "also",
    r"counts of pairs\b(?! of)": "pair counts",
    r"promis(e|es|ed|ing)\b|claim(s|ed)?\b|what is proven\b": "guarantee",
    r"worst errors?\b": "guarantee, worst-case error",
    r"error on new rows\b": "error to expect",
    r"population certificates?\b|sampled errors?\b": "bound (95 % confidence)",
    r"known exactly, for comparison\b": "baseline",
    r"swing(s|ing)?\b": "importance",
    r"foreign\b|latecomers?\b": "unseen label",
}

EXCEPTIONS = {  # text in which a finding is right: why it may stay
}

_SKIPPED = r"\.\. (code-block|math|toctree|image|figure|autosummary|raw|plot|literal)"
_ITEM = r"([*+-]|\d+\.|#\.)\s"
_PATTERNS = {
    re.compile(rf"\b({words})", re.IGNORECASE): WORDS[words] for words in WORDS
}
Block = tuple[int, str]  # a paragraph, an item or a cell, with its first line


def without_code(text: str) -> str:
    """Replace code, roles and addresses by one word each."""
    text = re.sub(r":[\w:]+:(?=`)", "", text)
    text = re.sub(r"`([^`<]+?)\s*<[^`>]+>`_*", r"\1", text)  # link with a text
    text = re.sub(r"``.+?``|`[^`]*`_*", "CODE", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"<[^<>]*>|\w+://\S+", "", text)


def blocks(lines: list[str], first: int) -> Iterator[Block]:
    """Yield the paragraphs, items and cells of a page or a docstring."""
    begun = first
    part = ""
    depth = 0
    limit = 999  # literal blocks are indented more than this
    fenced = False
    example = False
    for number, line in enumerate([*lines, ""], first):
        text = line.strip()
        indent = len(line) - len(line.lstrip()) if text else depth
        limit = limit if indent > limit or not text else 999
        fence = text.startswith("```")
        fenced = fenced != fence
        example = bool(text) and (example or text.startswith(">>>"))
        if fence or fenced or example or indent > limit:
            text = ""
        ruled = bool(re.fullmatch(r"[-=~^\"'*+|: ]+", text))
        item = bool(re.match(_ITEM, text))
        row = bool(re.search(r"\S {2,}\S", text)) or text.startswith("|")
        moved = indent != depth and not re.match(_ITEM, part)
        if not text or ruled or item or row or moved or text.startswith("#"):
            yield begun, part
            begun = number
            part = ""
        if re.match(_SKIPPED, text) or re.match(r"(?!\.\. ).*::$", text):
            limit = indent
        depth = indent
        text = re.sub(r"^\.\. [\w-]+::", "", text)
        if row:
            yield from ((number, cell) for cell in re.split(r" {2,}|\|", text))
        elif not ruled and not re.match(r"\.\. |:[\w-]+:", text):
            part = f"{part} {text}".strip()
    yield begun, part


def texts_of(node: ast.AST, docstrings: set[ast.AST]) -> Iterator[Block]:
    """Yield the texts below a node that are not docstrings, line by line."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.JoinedStr):
            parts = [getattr(part, "value", None) for part in child.values]
            text = "".join(part if isinstance(part, str) else "X" for part in parts)
        elif isinstance(child, ast.Constant) and isinstance(child.value, str):
            text = "" if child in docstrings else child.value
        else:
            yield from texts_of(child, docstrings)
            continue
        styles = re.search(r"\{[\w-]+:[^}]*\}", text)
        if len(text.split()) > 2 and not styles:
            yield from ((child.lineno, line) for line in text.split("\n"))


def module_blocks(source: str) -> Iterator[Block]:
    """Yield the docstrings, comments and texts of a module."""
    tree = ast.parse(source)
    docstrings: set[ast.AST] = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            value = body[0].value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                docstrings.add(value)
                yield from blocks(value.value.split("\n"), value.lineno)
    yield from texts_of(tree, docstrings)
    yield from comments(source)


def comments(source: str) -> Iterator[Block]:
    """Yield the comments of a module, those on successive lines together."""
    begun = last = 0
    part = ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        text = re.sub(r"^#:?( ----| type:.*| noqa.*)?", "", token.string)
        alone = not token.line[: token.start[1]].strip()
        if not alone or token.start[0] != last + 1:
            yield begun, part
            begun = token.start[0]
            part = ""
        part += text
        last = token.start[0] if alone else 0
    yield begun, part


def findings(path: Path) -> Iterator[str]:
    """Yield what is wrong in a file, one line each."""
    source = path.read_text("utf-8")
    name = path.relative_to(ROOT).as_posix()
    longest = LONGEST.get(name, LONGEST_ELSEWHERE)
    page = path.suffix != ".py"
    for line, text in blocks(source.split("\n"), 1) if page else module_blocks(source):
        prose = " ".join(without_code(text).split())
        for exception in EXCEPTIONS:
            prose = prose.replace(exception, "…")
        for pattern, better in _PATTERNS.items():
            for match in pattern.finditer(prose):
                around = prose[max(0, match.start() - 25) : match.end() + 20]
                yield f"{name}:{line}: '{match[0]}' ({better}): … {around} …"
        for sentence in re.split(r"(?<=[.!?])[)\"*]* (?=[\W\d]*[A-Z]|[\"“])", prose):
            length = len(re.findall(r"[\w'’]*[^\W\d][\w'’.-]*", sentence))
            if length > longest:
                yield f"{name}:{line}: {length} words: {sentence[:60]} …"


def main() -> int:
    """Print the findings; return 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", type=Path)
    options = parser.parse_args()
    pages = [ROOT / page for page in PAGES] + [*(ROOT / "docs").rglob("*.rst")]
    made = ("docs/_", "docs/generated", "docs/auto_examples", "docs/sg_")
    paths = [*pages, *(ROOT / "src").rglob("*.py")]
    asked = [path.resolve() for path in options.paths]
    failed = False
    for path in sorted(paths):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(made):
            continue
        wanted = any(path == one or one in path.parents for one in asked)
        if asked and not wanted:
            continue
        lines = list(findings(path))
        failed = failed or bool(lines)
        print("\n".join(lines), end="\n" if lines else "")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
