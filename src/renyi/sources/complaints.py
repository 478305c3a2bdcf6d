"""Complaints: what others say of an error, as part of a sentence of ours."""

from __future__ import annotations

from pathlib import Path


def first_line(error: BaseException) -> str:
    r"""Return the first line of what an error says, without its full stop.

    >>> first_line(ValueError("\nParser Error: syntax error.\nLINE 1"))
    'Parser Error: syntax error'
    >>> first_line(EOFError())
    'EOFError'
    """
    lines = [line for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    return text.strip().rstrip(".:!")[:160]


def unreadable(path: Path, error: Exception, what: str, remedy: str = "") -> str:
    """Return one sentence that names a file and says what is wrong with it.

    Parameters
    ----------
    path : Path
        The file.
    error : Exception
        What the system or a reader said.
    what : str
        What the file is then, or is not.
    remedy : str, optional
        What to do.

    Examples
    --------
    >>> unreadable(Path("a.csv"), EOFError("Too short."), "is no CSV file")
    'a.csv is no CSV file (Too short).'
    >>> unreadable(Path("a.csv"), PermissionError(13, "Denied"), "is no CSV file")
    'a.csv may not be read: ask its owner for the permission, or copy it.'
    """
    if isinstance(error, PermissionError):
        return f"{path} may not be read: ask its owner for the permission, or copy it."
    return f"{path} {what} ({first_line(error)}){f': {remedy}' if remedy else ''}."
