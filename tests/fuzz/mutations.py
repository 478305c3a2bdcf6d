"""Mutations: bytes, JSON documents, archives and tables, each changed in a few places.

Those of documents and archives are signed anew, so that what lies behind the checksum
is reached. All take a `random.Random`: a case can be made again from its number.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from renyi import files

MOST = 2**16  # bytes of a mutated file
TEXTS = ["", "?", "a", "nan", "1e999", "-0", "007", "\x00", "\x1b[31m", "\u202e", "é"]
TEXTS += ["\ud800", "=1+1", '"', "'", ",", "\r\n", "true", "9" * 400, "x" * 3000]
NUMBERS = [0, 1, -1, 2, 3, 255, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, 2**63, 2**64]
NUMBERS += [10**30, 0.5, -0.0, 1e-300, 5e-324, 1e17, 1e154, 1e308, -1e308]
VALUES: list[Any] = [None, True, False, [], {}, [[]], [0] * 500, {"a": {}}]
TOKENS = [b"\x00", b"\xff" * 4, b"\n", b'"', b"\r", b",", b";", b"\t", b"\\", b"[" * 99]
TOKENS += [b"\xef\xbb\xbf", b"NaN", b"1e999", b"{", b"}", b"null", b"\x7f\xff\xff\xff"]


# ---- bytes


def _flip(raw: bytearray, rng: Random) -> None:
    for _ in range(rng.choice([1, 1, 2, 8])):
        raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)


def _overwrite(raw: bytearray, rng: Random) -> None:
    """Write a number of 1 to 8 bytes, as sizes and offsets are written."""
    width, value = (
        rng.choice([1, 2, 4, 8]),
        rng.choice([*NUMBERS[:12], rng.getrandbits(64)]),
    )
    at = rng.randrange(len(raw))
    raw[at : at + width] = (int(value) % 2 ** (8 * width)).to_bytes(width, "little")


def _cut(raw: bytearray, rng: Random) -> None:
    at = rng.randrange(len(raw))
    del raw[at : rng.choice([len(raw), at + 1, at + rng.randrange(1, 64)])]


def _repeat(raw: bytearray, rng: Random) -> None:
    at = rng.randrange(len(raw))
    piece = raw[at : at + rng.choice([1, 8, 64, 512])]
    raw[at:at] = piece * min(rng.choice([1, 2, 16, 1024]), MOST // max(len(piece), 1))


def _insert(raw: bytearray, rng: Random) -> None:
    at = rng.randrange(len(raw) + 1)
    raw[at:at] = rng.choice(TOKENS)


def _move(raw: bytearray, rng: Random) -> None:
    size, at, to = (
        rng.randrange(1, 64),
        rng.randrange(len(raw)),
        rng.randrange(len(raw)),
    )
    raw[to : to + size] = raw[at : at + size]


def _number(raw: bytearray, rng: Random) -> None:
    found = list(re.finditer(rb"-?\d[\d.e+-]*", raw))
    if found:
        a, b = rng.choice(found).span()
        raw[a:b] = str(rng.choice(NUMBERS)).encode()


_BYTES = [_flip, _flip, _overwrite, _overwrite, _cut, _repeat, _insert, _move, _number]


def of_bytes(raw: bytes, rng: Random, others: list[bytes]) -> bytes:
    """Change bytes in one to four places, or join two files."""
    data = bytearray(raw)
    if rng.random() < 0.05:
        other = rng.choice(others)
        data[rng.randrange(len(data)) :] = other[rng.randrange(len(other)) :]
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        if data:
            rng.choice(_BYTES)(data, rng)
    return bytes(data[:MOST])


def within(raw: bytes, rng: Random, others: list[bytes]) -> bytes:
    """Change the last or the first bytes only, where formats keep their metadata."""
    size = rng.choice([8, 64, 1024])
    if rng.random() < 0.7:
        return raw[:-size] + of_bytes(raw[-size:], rng, others)
    return of_bytes(raw[:size], rng, others) + raw[size:]


def in_place(raw: bytes, rng: Random, others: list[bytes]) -> bytes:
    """Change some bytes that are not zero, of a file of any size, or cut its end.

    Files with checksums are left as they are now and then, or none would be accepted.
    """
    if rng.random() < 0.1:
        return raw
    data = bytearray(raw)
    used = [k for k, byte in enumerate(raw) if byte]
    for _ in range(rng.choice([1, 2, 8])):
        data[rng.choice(used)] = rng.randrange(256)
    return bytes(data[: rng.choice([len(data), len(data), rng.randrange(len(data))])])


# ---- JSON documents


def _places(data: Any) -> list[tuple[Any, Any]]:
    """Return every (container, key) of a document."""
    items = data.items() if isinstance(data, dict) else enumerate(data)
    found = [(data, key) for key, _ in items]
    for container, key in list(found):
        if isinstance(container[key], (dict, list)):
            found += _places(container[key])
    return found


def _edit(data: dict[str, Any], rng: Random) -> None:
    """Change one place of a document."""
    places = _places(data)
    if not places:
        return
    (container, key), (other, there) = rng.choice(places), rng.choice(places)
    value, way = container[key], rng.randrange(8)
    if way == 0:
        del container[key]
    elif way == 1:
        container[key] = _copied(other[there])
    elif way == 2 and isinstance(container, list):
        container.insert(key, _copied(value))
    elif way == 3 and isinstance(container, dict):
        container[rng.choice([*TEXTS, str(there)])] = container.pop(key)
    elif way == 4 and isinstance(value, list):
        rng.shuffle(value)
    elif way <= 5 and type(value) in (int, float):
        changed = [value + 1, value - 1, -value, value / 2, value * 1e9]
        container[key] = rng.choice(changed)
    else:
        container[key] = _copied(rng.choice([*VALUES, *TEXTS, *NUMBERS]))


def _copied(value: Any) -> Any:
    return json.loads(json.dumps(value))


def _edited(data: dict[str, Any], rng: Random) -> dict[str, Any]:
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        _edit(data, rng)
    return data


def of_document(raw: bytes, rng: Random, _: list[bytes]) -> bytes:
    """Change a JSON document and sign it anew."""
    return signed(_edited(json.loads(raw), rng))


def of_certificate(raw: bytes, rng: Random, _: list[bytes]) -> bytes:
    """Change the certificate of a model and sign it anew."""
    data = json.loads(raw)
    _edited(data["certificate"], rng)
    return signed(data)


def signed(data: dict[str, Any]) -> bytes:
    """Return a document with a checksum that agrees."""
    data.pop("checksum", None)
    try:
        return files.to_bytes({**data, "checksum": files.checksum(data, {})})
    except ValueError:  # a number that JSON has not
        return json.dumps(data).encode("utf-8", "backslashreplace")


# ---- archives


def _array(array: np.ndarray, rng: Random) -> np.ndarray:
    """Change an array: a cell, one with its mirror, the shape or the type."""
    array, way = array.copy(), rng.randrange(9)
    flat = array.reshape(-1)
    if way <= 4 and flat.size:
        at = rng.randrange(flat.size)
        near = [float(flat[at]) + 1, float(flat[at]) - 1, float(flat[at]) + 2**40]
        value = rng.choice(near if way < 3 else NUMBERS)
        with np.errstate(all="ignore"):
            flat[at] = np.array(np.clip(float(value), -1e18, 1e18)).astype(array.dtype)
        if array.ndim == 2 and way % 2 and array.shape[0] == array.shape[1]:
            array.T.flat[at] = flat[at]
    elif way == 5:
        return array.astype(rng.choice(["<f8", "<i8", "|u1", "<i4", ">i8", "<f4"]))
    elif way == 6 and flat.size:
        return np.array(array[: rng.randrange(len(array))])
    elif way == 7:
        return array.reshape(rng.choice([(-1,), (1, -1), (*array.shape, 1)]))
    elif array.size:
        array = np.roll(array, rng.choice([1, -1]), axis=rng.randrange(array.ndim))
    return array


def of_archive(raw: bytes, rng: Random, _: list[bytes]) -> bytes:
    """Change the header or the arrays of an archive and sign it anew."""
    with np.load(io.BytesIO(raw)) as found:
        arrays = {name: found[name] for name in found.files}
    header = json.loads(arrays.pop("header").tobytes())
    compressed = header["format"] == "renyi-marginals"
    if rng.random() < 0.5 or not arrays:
        header = _edited(header, rng)
    else:
        name = rng.choice(list(arrays))
        inner = arrays[name].tobytes()
        if inner.startswith(b"PK"):
            arrays[name] = np.frombuffer(of_archive(inner, rng, _), np.uint8)
        elif rng.random() < 0.1:
            arrays[rng.choice(["header2", "0", "counts", "x"])] = arrays.pop(name)
        else:
            arrays[name] = _array(arrays[name], rng)
    stream = io.BytesIO()
    try:
        files.write_archive(stream, header, arrays, compressed)
    except ValueError:
        return raw[: rng.randrange(len(raw))]
    return stream.getvalue()


# ---- tables


def _column(rows: int, rng: Random) -> Any:
    """Return a column of some type that tables have."""
    whole = [rng.choice([None, *range(6)]) for _ in range(rows)]
    wide = [rng.choice([None, -(2**63), 2**63 - 1, 2**53 + 1, 0]) for _ in range(rows)]
    real = [rng.choice([None, 0.0, -0.0, 1e308, float("inf"), float("nan"), 0.1])]
    real = [rng.choice([*real, float(k)]) for k in range(rows)]
    text = [rng.choice([None, *TEXTS[:11], "b"]) for _ in range(rows)]
    makes: list[Callable[[], Any]] = [
        lambda: pa.array(whole, rng.choice([pa.int8(), pa.uint64(), pa.float16()])),
        lambda: pa.array(wide, pa.int64()),
        lambda: pa.array(real, rng.choice([pa.float32(), pa.float64()])),
        lambda: pa.array(text, rng.choice([pa.string(), pa.large_string()])),
        lambda: pa.array(text).dictionary_encode(),
        lambda: pa.array(text).cast(pa.binary()),
        lambda: pa.array(wide, rng.choice([pa.timestamp("us"), pa.timestamp("ns")])),
        lambda: pa.array(wide, pa.timestamp("us", "Asia/Tokyo")),
        lambda: pa.array(wide, pa.duration("s")),
        lambda: pa.array(whole, rng.choice([pa.date32(), pa.time32("s")])),
        lambda: pa.array(whole).cast(pa.decimal128(30, 3)),
        lambda: pa.array([None] * rows, pa.null()),
        lambda: pa.array([[k] for k in whole]),
        lambda: pa.array([{"a": k} for k in whole]),
        lambda: pa.array([None if k is None else k > 2 for k in whole]),
    ]
    return rng.choice(makes)()


def _changed_table(table: pa.Table, rng: Random) -> pa.Table:
    """Change the columns of a table: types, names, number, rows."""
    for _ in range(rng.choice([1, 1, 2])):
        at, way = rng.randrange(table.num_columns), rng.randrange(6)
        try:
            if way <= 2:
                name = table.schema.names[at]
                table = table.set_column(at, name, _column(table.num_rows, rng))
            elif way == 3:
                names = list(table.schema.names)
                names[at] = rng.choice([*TEXTS, *names]).replace("\ud800", "")
                table = table.rename_columns(names)
            elif way == 4:
                table = table.slice(0, rng.choice([0, 1, 2, 9, 39]))
            else:
                table = table.append_column("new", _column(table.num_rows, rng))
        except (pa.ArrowException, TypeError):  # no such value in that type
            continue
    return table


def of_parquet(raw: bytes, rng: Random, _: list[bytes]) -> bytes:
    """Change the table in a Parquet file, and the way in which it is written."""
    table, sink = _changed_table(pq.read_table(io.BytesIO(raw)), rng), io.BytesIO()
    try:
        pq.write_table(
            table,
            sink,
            compression=rng.choice(["none", "snappy", "zstd", "gzip"]),
            use_dictionary=rng.random() < 0.5,
            row_group_size=rng.choice([1, 7, 1000]),
            data_page_version=rng.choice(["1.0", "2.0"]),
            write_statistics=rng.random() < 0.5,
            store_schema=rng.random() < 0.7,
        )
    except (pa.ArrowException, OSError):
        return raw[: rng.randrange(len(raw))]
    return sink.getvalue()


def of_ipc(raw: bytes, rng: Random, _: list[bytes]) -> bytes:
    """Change the table in an Arrow file, and the way in which it is written."""
    table = _changed_table(pa.ipc.open_file(raw).read_all(), rng)
    options = pa.ipc.IpcWriteOptions(compression=rng.choice([None, "lz4", "zstd"]))
    sink = io.BytesIO()
    new = rng.choice([pa.ipc.new_file, pa.ipc.new_file, pa.ipc.new_stream])
    with new(sink, table.schema, options=options) as writer:
        writer.write_table(table, rng.choice([1, 7, 1000]))
    return sink.getvalue()


def of_csv(raw: bytes, rng: Random, _: list[bytes]) -> bytes:
    """Change cells, lines or the header of a table of text."""
    lines = raw.decode().split("\n")
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(lines))
        cells, way = lines[at].split(","), rng.randrange(5)
        if way <= 2:
            cells[rng.randrange(len(cells))] = rng.choice(
                [*TEXTS, str(rng.choice(NUMBERS)), '"a,b"', '"a\nb"', '"a""b"', ' "a']
            ).replace("\ud800", "\ufffd")
            lines[at] = ",".join(cells)
        elif way == 3:
            lines[at] = lines[at].replace(",", rng.choice([";", "\t", "|", ",,"]))
        else:
            lines[at:at] = [lines[rng.randrange(len(lines))]] * rng.choice([1, 3, 200])
    return rng.choice(["\n", "\n", "\r\n", "\r"]).join(lines).encode()[:MOST]
