"""The command datasets: the bundled tables."""

from __future__ import annotations

import argparse

from renyi import datasets
from renyi.cli.output import Recorded, print_json


def run(args: argparse.Namespace, recorded: Recorded) -> None:
    """List the bundled data sets."""
    table = datasets.describe()
    if args.json:
        print_json(table.to_dict("records"))
        return
    print(f"{'name':<10} {'rows':>6} {'features':>8} {'numeric':>8}  target  classes")
    for row in table.itertuples():
        print(
            f"{row.name:<10} {row.rows:>6} {row.features:>8} {row.numeric:>8}  "
            f"{row.target:<7} {row.class_counts}"
        )
    print("\nNext: renyi fit votes --out votes")
