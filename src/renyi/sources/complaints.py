"""What is said of files that cannot be read, whatever their format."""

from __future__ import annotations

from pathlib import Path


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
    reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    return f"{path} {what} ({reason:.160}){f': {remedy}' if remedy else ''}."
