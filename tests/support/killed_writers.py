"""Writers of the same files that are killed, two at a time, at random moments.

``killed_writers.py FOLDER KILLS SEED`` lets processes write one file alone and two
together, again and again, until they are ended by SIGKILL or SIGTERM. After each kill
every file must be a whole one that some writer wrote. A killed writer may leave its
temporary file, never half of a file in its place.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import IO

from renyi import files

FORMAT = {"format": "killed", "version": 1}


def write(folder: Path, number: int) -> None:
    """Write one file alone, and two together, so slowly that kills come halfway."""
    data = FORMAT | {"number": number, "more": [number] * 2_000}
    raw = files.to_bytes({**data, "checksum": files.checksum(data, {})})

    def send(stream: IO[bytes]) -> None:
        for at in range(0, len(raw), 1_000):
            stream.write(raw[at : at + 1_000])
            stream.flush()
            time.sleep(0.001)

    with files.replacing(folder / "m.json") as stream:
        send(stream)
    pair = (folder / "pair.json", folder / "pair.renyi")
    files.replace_together(dict.fromkeys(pair, send))


def writer(folder: Path, seed: int, times: int | None) -> int:
    """Start a process that writes; return its number."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            rng = random.Random(seed)
            while times is None or times > 0:
                write(folder, rng.randrange(10**6))
                times = None if times is None else times - 1
            code = 0
        finally:
            os._exit(code)
    return child


def check(folder: Path) -> None:
    """Every file is a whole one."""
    for name in ("m.json", "pair.json", "pair.renyi"):
        if (folder / name).exists():
            data = files.read_json(folder / name, "killed")
            assert data["more"] == [data["number"]] * 2_000


def main() -> None:
    folder, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(seed)
    children = [writer(folder, seed + k, None) for k in range(2)]
    left = 0
    for k in range(kills):
        time.sleep(rng.uniform(0, 0.05))
        os.kill(children[k % 2], rng.choice([signal.SIGKILL, signal.SIGTERM]))
        _, status = os.waitpid(children[k % 2], 0)
        assert os.WIFSIGNALED(status), "a writer failed"
        left = max(left, len(list(folder.glob(".renyi-*"))))
        check(folder)
        children[k % 2] = writer(folder, 1000 * seed + k, None)
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert left > 2, "no writer was killed halfway"
    _, status = os.waitpid(writer(folder, seed, 2), 0)
    assert status == 0
    check(folder)


if __name__ == "__main__":
    main()
