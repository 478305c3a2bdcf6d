"""Engines that a few tests need, imported at their first use: collecting is quick."""

from __future__ import annotations

import importlib
from typing import Any


class Engine:
    """A module that is imported when one of its names is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked for by tools that only look
            raise AttributeError(name)
        return getattr(importlib.import_module(self._name), name)


dask = Engine("dask")
dask_dataframe = Engine("dask.dataframe")
datafusion = Engine("datafusion")
duckdb = Engine("duckdb")
onnxruntime = Engine("onnxruntime")
polars = Engine("polars")
psycopg = Engine("psycopg")
py_mini_racer = Engine("py_mini_racer")
