"""Golden files, and forgeries of them that pass every checksum."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import numpy as np

from renyi import files

GOLDEN = Path(__file__).parents[1] / "golden"
MARGINALS, MODEL = GOLDEN / "marginals-v1.renyi", GOLDEN / "model-v1.json"


def signed(change, source=MODEL):
    """Return the golden model with a change and a checksum that agrees."""
    data = json.loads(source.read_text(encoding="utf-8"))
    change(data)
    del data["checksum"]
    return {**data, "checksum": files.checksum(data, {})}


def forged(header_change=None, arrays_change=None):
    """Return the parts of the golden marginals with changes, checksum included."""
    header = files.read_header(MARGINALS, "renyi-marginals")
    shapes = {"counts": (12, 12), "class_counts": (2, 10, 10)}
    arrays = files.read_arrays(MARGINALS, "renyi-marginals", header, shapes)
    if header_change:
        header_change(header)
    if arrays_change:
        arrays_change(arrays)
    return header, arrays


def member(array_or_bytes, declared=None):
    """Return the bytes of an npy file, perhaps with another declared header."""
    stream = io.BytesIO()
    if declared is not None:
        np.lib.format.write_array_header_1_0(stream, declared)
        return stream.getvalue() + array_or_bytes
    np.save(stream, array_or_bytes, allow_pickle=True)
    return stream.getvalue()


def archive(place, members, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(place, "w", compression) as out:
        for name, raw in members:
            out.writestr(name, raw)


def golden_members(**changes):
    with zipfile.ZipFile(MARGINALS) as golden:
        found = {name: golden.read(name) for name in golden.namelist()}
    return list({**found, **changes}.items())
