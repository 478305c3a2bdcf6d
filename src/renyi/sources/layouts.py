"""How text tables are written: the header, what separates cells, and rows as CSV.

Public tables come with a header of ARFF or KEEL (``@attribute``), with Orange's three
rows of names, types and flags, without any header, or with blanks between cells.
`recognise` finds out which. Rows that are not CSV are rewritten line by line while they
are read (`as_csv`), so that one reader reads them all.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from renyi.formatting import listed, number_of
from renyi.validation import InputError, ParameterError

OPTIONS = ("sep", "no_header", "names")  # of the command line
BLANK = " "  # a separator: any number of spaces and tabs
_SEPARATORS = {"tab": "\t", "\\t": "\t", "space": BLANK}
_WORDS = {
    ",": "comma-separated",
    ";": "semicolon-separated",
    "\t": "tab-separated",
    "|": "separated by '|'",
    BLANK: "separated by blanks",
}
_MAY_HAVE_BLANKS = (".data", ".dat", ".txt")  # between cells
_LOOKED_AT = 20  # lines, in search of a separator
_LOOKED_AT_CHARACTERS = 2**20

# The second and third row of Orange's header.
_ORANGE_LABELS = {"d", "discrete"}
_ORANGE_TYPES = {"c", "continuous", "s", "string", "t", "time"} | _ORANGE_LABELS
_ORANGE_FLAGS = {"m": "meta", "i": "ignore", "w": "weight", "c": "class"}
_ORANGE_FLAGS |= {flag: flag for flag in ("meta", "ignore", "weight", "class", "")}
_ORANGE_NAME = re.compile(r"(?!#)([mciw]?)([CDST]?)#(.+)", re.S)  # with a prefix

_NUMERIC = {"numeric", "real", "integer"}
_OTHER_TYPES = {"string", "date"}
_ATTRIBUTE = re.compile(
    r"""@attribute\s+
    ('(?:[^'\\]++|\\.)*+' | "(?:[^"\\]++|\\.)*+" | [^\s{'"][^\s{]*(?=[\s{]))  # the name
    \s*(\{.*\}|\w+)""",  # values, or the name of a type
    re.I | re.X,
)
_ARFF_CELL = (
    r"""[ ]*(?:'((?:[^'\\]++|\\.)*+)'|"((?:[^"\\]++|\\.)*+)"|([^'" SEP][^SEP]*|))"""
    r"[ ]*(SEP|$)"
)
_ARFF_CELLS = {c: re.compile(_ARFF_CELL.replace("SEP", c)) for c in ",\t"}
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r"}
_SPARSE = (
    "a sparse row in braces; save the table with all cells of a row, or as CSV, "
    "without Weka's filter NonSparseToSparse"
)


class Layout(NamedTuple):
    """What a user says about a text table."""

    separator: str | None = None  # recognised if None
    has_header: bool = True
    names: tuple[str, ...] | None = None  # of a table without header

    @classmethod
    def of(cls, sep: str | None, header: bool, names: Iterable[str] | None) -> Layout:
        """Return a layout after a look at the parameters; names mean no header."""
        separator = None if sep is None else _SEPARATORS.get(sep, sep)
        if separator is not None and (
            len(separator) != 1 or not separator.isascii() or separator in '"\r\n\0'
        ):
            problem = f"must be one character, tab or space, not {sep!r:.40}"
            raise ParameterError("sep", problem)
        if isinstance(names, str):
            raise ParameterError("names", "must be a list of names, not a text")
        given = None if names is None else tuple(names)
        if given is not None and not all(isinstance(n, str) and n for n in given):
            raise ParameterError("names", "must be texts, none of which is empty")
        return cls(separator, header and given is None, given)


PLAIN = Layout()  # nothing is said


class Header(NamedTuple):
    """How a text table begins, and what that says about its columns and rows."""

    names: list[str]
    delimiter: str  # of the rows, once they are CSV
    lines: int  # before the rows
    form: str = "CSV"  # or "ARFF" or "blanks": how the rows are written
    target: str | None = None
    aside: Mapping[str, str] = MappingProxyType({})  # columns left out, and why
    labels: frozenset[str] = frozenset()  # columns of labels, even if numbers
    has_names: bool = True  # the file itself names its columns
    said: str = ""  # what was recognised, in a few words
    size: int = 0  # bytes before the rows
    is_all: bool = False  # the file ends without a line end after the header

    def label_kinds(self, others: Collection[str] = ()) -> dict[str, str]:
        """Return which columns, but for `others`, the header declares as labels."""
        declared = self.labels.difference(others)
        return {name: "label" for name in self.names if name in declared}

    def described(self, kind: str, how: str) -> Header:
        """Return the header with a few words on its kind and its separator."""
        parts = [kind] if kind else []
        parts.append(number_of(len(self.names) - len(self.aside), "column"))
        if self.target is not None:
            parts.append(f"target {self.target!r}")
        if self.aside:
            why = ", ".join(sorted({*self.aside.values()}))
            parts.append(f"left out {listed(list(self.aside))} ({why})")
        said = "; ".join(filter(None, [", ".join(parts), how]))
        return self._replace(said=said if kind or how else "")


class Lines:
    """The first lines of a file, kept so that they can be read repeatedly."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._rest = lines
        self.kept: list[str] = []

    def __iter__(self) -> Iterator[str]:
        """Yield all lines from the first, reading on only when they are needed."""
        for k in count():
            if k == len(self.kept):
                line = next(self._rest, None)
                if line is None:
                    return
                self.kept.append(line)
            yield self.kept[k]


def superfluous(what: str) -> ValueError:
    """Return the error for a file about which a user has nothing to say."""
    message = f"{what}: leave these out"
    return InputError(message, *OPTIONS, python="sep, header, names")


# ---- headers


def recognise(path: Path, lines: Lines, layout: Layout) -> Header:
    """Return the header of a file that begins with these lines."""
    if _begins_as_arff(lines):
        if layout != PLAIN:
            raise superfluous(
                f"{path} has an ARFF header, which names columns and separator"
            )
        return _arff_header(path, lines)
    separator = layout.separator or _separator(path, lines)
    how = "" if layout.separator else _WORDS[separator]
    before = 0  # lines without any cell
    records = _records(lines, separator)
    for cells, end in records:
        if "".join(cells).strip():
            break
        before = end
    else:
        raise ValueError(f"{path} is empty: it needs a header and rows.")
    header = Header([n.strip() for n in cells], separator, end)
    if separator == BLANK:
        header = header._replace(delimiter="\t", form="blanks")
    orange = _orange(path, header, records)
    if orange is not None:
        if not layout.has_header:
            raise superfluous(f"{path} has a header of Orange, which names its columns")
        return orange.described("Orange header", how)
    if separator == "," or (
        separator == "\t" and re.search(r"\.(tsv|tab)", path.name, re.I)
    ):
        how = ""  # as everybody expects
    if layout.has_header:
        return header._replace(names=_filled(header.names)).described("", how)
    names = _given_names(path, header.names, layout)
    header = header._replace(names=names, lines=before, has_names=False)
    kind = "" if layout.names else f"no header (so {names[0]} to {names[-1]})"
    return header.described(kind, how)


def _filled(names: Iterable[str]) -> list[str]:
    return [name or f"column {k}" for k, name in enumerate(names, 1)]


def _given_names(path: Path, cells: Sequence[str], layout: Layout) -> list[str]:
    """Return the names of the columns of a file whose first row has these cells."""
    if layout.names is None:
        return [f"x{k}" for k in range(1, len(cells) + 1)]
    names = list(layout.names)
    if len(names) != len(cells):
        raise ParameterError(
            "names",
            f"has {number_of(len(names), 'name')}, but {path} has "
            f"{number_of(len(cells), 'column')}: give one for each.",
        )
    if [cell.lower() for cell in cells] == [name.lower() for name in names]:
        raise superfluous(f"The first row of {path} has these names itself")
    return names


def _orange(
    path: Path, header: Header, records: Iterator[tuple[list[str], int]]
) -> Header | None:
    """Return the header of a file of Orange, of one or three rows, or None.

    The rows after the first may be of any size; these are not Orange's.
    """
    prefixed = [_ORANGE_NAME.fullmatch(name) for name in header.names]
    if all(prefixed) or (any(prefixed) and ".tab" in path.name.lower()):
        names = [m[3] if m else n for m, n in zip(prefixed, header.names, strict=True)]
        kinds = [match[2].lower() if match else "" for match in prefixed]
        flags = [match[1] if match else "" for match in prefixed]
        return _of_orange(header._replace(names=names), kinds, flags)
    rows: list[list[str]] = []
    end = header.lines
    with suppress(ValueError, csv.Error):
        while len(rows) < 2:
            cells, end = next(records, ([], end))
            if len(cells) != len(header.names):
                return None
            rows.append([cell.strip().lower() for cell in cells])
    if len(rows) < 2 or not _are_of_orange(*rows):
        return None
    return _of_orange(header._replace(lines=end), *rows)


def _are_of_orange(kinds: Sequence[str], flags: Sequence[str]) -> bool:
    """Whether two rows are types and flags; a type may be a list of values."""
    values = [kind for kind in kinds if kind not in _ORANGE_TYPES]
    are_types = len(values) < len(kinds) and all(" " in v or not v for v in values)
    are_flags = "" in flags and all(_flag(flag) in _ORANGE_FLAGS for flag in flags)
    return are_types and are_flags and (not values or any(flags))


def _flag(cell: str) -> str:
    """Return the flag of a column without its attributes, such as ``unit=cm``."""
    return " ".join(word for word in cell.split() if "=" not in word)


def _of_orange(header: Header, kinds: Sequence[str], flags: Sequence[str]) -> Header:
    """Return a header with what types and flags say about its columns."""
    names = _filled(header.names)
    marks = [_ORANGE_FLAGS[_flag(flag)] for flag in flags]
    marked = dict(zip(names, marks, strict=True))
    classes = [name for name, mark in marked.items() if mark == "class"]
    listed_values = [k in _ORANGE_LABELS or " " in k for k in kinds]
    return header._replace(
        names=names,
        target=classes[0] if len(classes) == 1 else None,
        aside={n: mark for n, mark in marked.items() if mark not in ("", "class")},
        labels=frozenset(n for n, d in zip(names, listed_values, strict=True) if d),
    )


# ---- headers of ARFF and KEEL


def _begins_as_arff(lines: Iterable[str]) -> bool:
    for line in lines:
        text = line.strip()
        if text and not text.startswith("%"):
            return re.match(r"@relation\b", text, re.I) is not None
    return False


def _arff_header(path: Path, lines: Iterable[str]) -> Header:
    """Return the header of an ARFF file; that of KEEL names inputs and outputs."""
    names: list[str] = []
    labels = set()
    uses: dict[str, list[str]] = {"input": [], "output": []}
    numbered = enumerate(lines, 1)
    for number, line in numbered:
        text = line.strip()
        word, *rest = text.split(None, 1) or [""]
        use = word.lower().removeprefix("@").removesuffix("s")
        if word.lower() == "@data":
            break
        try:
            if word.startswith("@") and use in uses:
                uses[use] += filter(None, arff_cells("".join(rest)))
            elif word.lower().startswith("@attribute"):
                name, is_label = _attribute(text)
                names.append(name)
                labels.update([name] if is_label else [])
            elif text and text[0] != "%" and word.lower() != "@relation":
                raise ValueError(f"{text!r:.40} is not part of an ARFF header")
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}.") from None
    else:
        raise ValueError(f"{path} has no line '@data': take a complete copy.")
    if not names:
        raise ValueError(f"{path} has no line '@attribute': take a complete copy.")
    used = {*uses["input"], *uses["output"]}
    unknown = used.difference(names)
    if unknown:
        raise ValueError(f"{path}: no '@attribute' names {min(unknown)!r:.60}.")
    unused = [name for name in names if name not in used] if uses["input"] else []
    delimiter = _arff_delimiter(line for _, line in numbered)
    return Header(
        names,
        delimiter,
        number,
        "ARFF",
        target=uses["output"][0] if len(uses["output"]) == 1 else None,
        aside=dict.fromkeys(unused, "neither input nor output"),
        labels=frozenset(labels),
    ).described("KEEL header" if used else "ARFF header", _WORDS[delimiter])


def _attribute(text: str) -> tuple[str, bool]:
    """Return the name of an attribute, and whether it is one of labels."""
    match = _ATTRIBUTE.match(text)
    if match is None:
        raise ValueError("an '@attribute' needs a name, and a type or {values}")
    name, kind = match.groups()
    is_label = kind.startswith("{")
    if not is_label and kind.lower() not in _NUMERIC | _OTHER_TYPES:
        raise ValueError(f"{kind!r:.40} is not a type that renyi reads")
    return arff_cells(name, "\t")[0], is_label


def _arff_delimiter(lines: Iterator[str]) -> str:
    """Return what is between the cells of the first row."""
    with suppress(ValueError):
        for line in lines:
            text = line.strip()
            if text and not text.startswith("%"):
                return "\t" if "\t" in text and "," not in text else ","
    return ","


# ---- separators


def _separator(path: Path, lines: Lines) -> str:
    """Return what is between the cells of a file that begins with these lines."""
    name = path.name.lower()
    if ".tsv" in name:
        return "\t"
    record: list[
        str
    ] = []  # the first line that is not blank, and those its quotes continue on
    quotes = 0
    for line in lines:
        if record or line.strip():
            record.append(line)
            quotes += line.count('"')
        if record and quotes % 2 == 0:
            break
    unquoted = _unquoted("".join(record))
    if ".tab" in name and "\t" in unquoted:
        return "\t"
    if "," in unquoted:
        return ","
    others = [c for c in ";\t|" if c in unquoted]
    if name.removesuffix(".gz").endswith(_MAY_HAVE_BLANKS) and _has_blanks(lines):
        return BLANK
    return others[0] if others else ","


def _unquoted(text: str) -> str:
    """Return a text without what is quoted, which may contain separators."""
    return re.sub(r'"[^"]*("|$)', "", text)


def _has_blanks(lines: Iterable[str]) -> bool:
    """Whether blanks separate the cells of some lines, and nothing else does.

    A tab in each of them separates cells by itself, unless spaces do as well.
    """
    sample = []
    size = 0
    with suppress(ValueError):
        for line in lines:
            if line.strip():
                sample.append(line.strip())
            size += len(line)
            if len(sample) == _LOOKED_AT or size > _LOOKED_AT_CHARACTERS:
                break
    try:
        widths = {len(cells) for cells, _ in _records(sample, BLANK)}
    except (ValueError, csv.Error):
        return False
    if len(widths) != 1 or widths <= {0, 1}:
        return False
    plain = [_unquoted(line) for line in sample]
    if any(c in line for c in ",;|" for line in plain):
        return False
    tabs = {line.count("\t") for line in plain}
    return len(tabs) > 1 or tabs == {0} or any("  " in line for line in plain)


def _records(lines: Iterable[str], separator: str) -> Iterator[tuple[list[str], int]]:
    """Yield the cells of records, with the number of lines up to their ends."""
    if separator == BLANK:
        lines = map(_of_blanks, lines)
        separator = "\t"
    reader = csv.reader(lines, delimiter=separator)
    for cells in reader:
        yield cells, reader.line_num


# ---- rows as CSV


def as_csv(line: str, header: Header) -> str:
    """Return a line of rows as one of CSV, without its end."""
    if header.form == "ARFF":
        return _of_arff(line, header)
    return _of_blanks(line)


def _of_blanks(line: str) -> str:
    """Return a line with blanks between cells as one with tabs."""
    text = line.strip(" \t\r\n")
    if '"' not in text:
        return re.sub(r"[ \t]+", "\t", text)
    try:
        (cells,) = csv.reader(
            [text.replace("\t", BLANK)],
            delimiter=BLANK,
            skipinitialspace=True,
            strict=True,
        )
    except csv.Error:
        raise ValueError(
            "a quote that is not closed before a blank or the end of the line"
        ) from None
    return _joined(cells, "\t")


def _of_arff(line: str, header: Header) -> str:
    """Return a row of ARFF as CSV; a comment becomes a blank line."""
    text = line.strip(" \r\n")
    if text.startswith("%"):
        return ""
    if text.startswith("{"):
        raise ValueError(_SPARSE)
    if '"' not in text and "'" not in text:
        return text
    cells = arff_cells(text, header.delimiter, len(header.names))
    return _joined(cells, header.delimiter)


def arff_cells(text: str, delimiter: str = ",", most: float = math.inf) -> list[str]:
    r"""Return the cells of a line of ARFF, which may be in quotes of both kinds.

    Of a line with too many, these are one more than `most`.

    >>> arff_cells(r"5.1, 'it\'s, so', u, ?")
    ['5.1', "it's, so", 'u', '?']
    """
    cells = []
    place = 0
    while True:
        match = _ARFF_CELLS[delimiter].match(text, place)
        if match is None:
            raise ValueError("a quote that is not closed, or text next to a quote")
        plain = match[3]
        if plain is None:
            quoted = match[1] if match[1] is not None else match[2]
            plain = re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), quoted)
        cells.append(plain.strip(" "))
        if not match[4] or len(cells) > most:
            return cells
        place = match.end()


def _joined(cells: Iterable[str], delimiter: str) -> str:
    """Return cells as a record of CSV."""
    special = re.compile(f'[{delimiter}"\r\n]')
    return delimiter.join(
        '"' + cell.replace('"', '""') + '"' if special.search(cell) else cell
        for cell in cells
    )
