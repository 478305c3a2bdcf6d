"""Which bounds at 95 % are violated how often, and how wide are they?

A piece is some samples of one size from one population, and the methods of one package
(`experiments.promises`). Populations are known (`experiments.populations`). So the
error of every trained rule is a sum, and on the worst population with the same pair
frequencies a linear program. A bound is violated if that error is above it. The tables
also say whether the method covers that setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binom

from experiments import command, promises
from experiments.populations import NAMES, SAME, SETTINGS, WORST, population
from experiments.promises import CREPES, MRCPY, PACKAGES, PROMISES, Sample
from experiments.reports import Report

EXTRAS = ("matplotlib", "highspy")
OPTIONS = {
    "samples": command.Option(500, "samples of each population and size"),
    "slow": command.Option(500, "of these, for crepes and MRCpy, which take longer"),
    "rows": command.Option((200, 1000, 5000), "rows of a sample", 100),
}
_GROUP = 25
_SLACK = 1e-7  # of the linear programs' answers
_DELTA = 1 - promises.CONFIDENCE
_DOUBT = 1e-4  # a bound counts as violated if chance explains it this rarely
# These would compare every row of the population with every held-out row.
_NOT_DONE = {(CREPES, "adult")}


def missing() -> list[str]:
    """Return a sentence for every package that is not installed."""
    return [
        f"{name} is not installed, and left out where it is not finished: "
        "experiments/README.md says how to install it in a separate folder."
        for name in PACKAGES
        if name not in promises.installed()
    ]


def possible(key: str) -> bool:
    """Return whether the package of a piece is installed.

    >>> possible("additive 200 renyi 0-25")
    True
    """
    return key.split()[2] in promises.installed()


def keys(settings: Mapping[str, Any]) -> list[str]:
    """Return the pieces: some samples of every population and size, then the next.

    >>> keys({"samples": 30, "slow": 1, "rows": [200]})[:2]
    ['additive 200 renyi 0-25', 'logistic 200 renyi 0-25']
    """
    most = dict.fromkeys(PACKAGES, settings["samples"])
    for name in (CREPES, MRCPY):
        most[name] = min(settings["samples"], settings["slow"])
    return [
        f"{name} {n} {package} {first}-{min(first + _GROUP, most[package])}"
        for first in range(0, settings["samples"], _GROUP)
        for package in PACKAGES
        if first < most[package]
        for n in settings["rows"]
        for name in NAMES
        if (package, name) not in _NOT_DONE
    ]


def cost(key: str) -> float:
    """Return roughly the seconds that a piece takes."""
    name, n, package, _ = key.split()
    heavy = {"kr-vs-kp": 3, "promoters": 4, "adult": 6}.get(name, 1)
    return heavy * (0.5 + int(n) / 5000) * (1.0 if package == MRCPY else 0.3)


def work(key: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Count violations, and add up bounds and errors, over the samples of a piece."""
    name, n, package, span = key.split()
    known = population(name)
    tally: dict[str, Any] = {}
    for k in range(*map(int, span.split("-"))):
        random = np.random.default_rng([settings["seed"], NAMES.index(name), int(n), k])
        sample = Sample(known, *known.sample(int(n), random), k)
        errors: dict[int, dict[str, float]] = {}
        for claim, (bound, loss, size) in promises.claims(package, sample).items():
            if id(loss) not in errors:  # bounds on one rule share its losses
                errors[id(loss)] = known.errors(loss)
            mean = 0.0 if size is None else float(known.p.sum(axis=1) @ size)
            for setting, error in errors[id(loss)].items():
                upper = bound if isinstance(bound, float) else bound[setting]
                cell = tally.setdefault(claim, {}).setdefault(setting, np.zeros(5))
                cell += [error > upper + _SLACK, upper, error, error**2, mean]
    return {
        claim: {
            setting: [float(f"{v:.9g}") for v in cell] for setting, cell in of.items()
        }
        for claim, of in tally.items()
    }


# ---- from pieces to tables


def summary(results: Mapping[str, Any]) -> pd.DataFrame:
    """Return one row for every population, size, bound and setting."""
    rows = []
    for key, found in results.items():
        name, n, _, span = key.split()
        first, last = map(int, span.split("-"))
        for claim, of in found.items():
            for setting, cell in of.items():
                rows.append([name, int(n), claim, setting, last - first, *cell])
    sums = ["samples", "violated", "bound", "error", "squares", "size"]
    groups = ["population", "n", "claim", "setting"]
    table = pd.DataFrame(rows, columns=[*groups, *sums]).groupby(groups).sum()
    for name in sums[2:]:
        table[name] /= table["samples"]
    spread = (table.pop("squares") - table["error"] ** 2).clip(lower=0)
    table["standard error"] = np.sqrt(spread / (table["samples"] - 1).clip(lower=1))
    table = table.reset_index()
    table.insert(4, "promised", [*map(_promised, table["claim"], table["setting"])])
    for name, order in (
        ("population", NAMES),
        ("claim", PROMISES),
        ("setting", SETTINGS),
    ):
        table[name] = pd.Categorical(table[name], list(order))
    table["violated"] = table["violated"].astype(int)
    return (
        table.sort_values(groups)
        .reset_index(drop=True)
        .astype({"population": str, "claim": str, "setting": str})
    )


def _promised(claim: str, setting: str) -> str:
    """Return whether a bound covers a setting.

    >>> _promised("held-out, map", "same"), _promised("held-out, map", "worst")
    ('yes', 'no')
    """
    promise = PROMISES[claim]
    return promise.how if setting in promise.kept_on else "no"


def broken(row: Any) -> bool:
    """Return whether a bound failed more often than chance explains."""
    if PROMISES[row.claim].sets:  # of the mean over samples
        return bool(row.error > _DELTA + 4 * row.standard_error)
    return bool(binom.sf(row.violated - 1, row.samples, _DELTA) < _DOUBT)


def report(results: Mapping[str, Any], settings: Mapping[str, Any]) -> Report:
    """Return the tables: which bounds failed how often, and how wide they are."""
    table = summary(results)
    named = table.rename(columns={"standard error": "standard_error"})
    sets = named["claim"].map(lambda claim: PROMISES[claim].sets)
    bounds, sizes = named[~sets], list(settings["rows"])
    tables = {"What is promised at 95 %": _said(named)}
    tables["In short: violations, percent of all samples, and mean bounds"] = _short(
        bounds, sizes
    )
    for setting, text in SETTINGS.items():
        part = bounds[bounds["setting"] == setting]
        if not part.empty:
            tables[f"Violations: {text}"] = _violations(part, sizes)
    for n in sizes:
        part = bounds[(bounds["n"] == n) & (bounds["setting"] == SAME)]
        tables[f"Mean bound (mean error), percent, {n:,} rows, same population"] = (
            _widths(part)
        )
    for n in sizes:
        part = bounds[(bounds["n"] == n) & (bounds["setting"] == WORST)]
        title = f"Mean bound (mean error), percent, {n:,} rows, worst dependence"
        tables[title] = _widths(part)
    if sets.any():
        tables["Sets: mean share missed, percent, and classes in a set"] = _sets(
            named[sets]
        )
    notes = [*NOTES, *_wider(bounds), *_counts(named)]
    return Report(
        "Guarantees: who keeps which promise",
        tables,
        notes,
        lambda figure: _draw(figure, bounds[bounds["setting"] == SAME]),
        table,
    )


NOTES = (
    "A violation is a sample after which the error of the trained rule is above its "
    "bound. Errors are exact: sums over the rows of the population, of rules that "
    "answer at random the expectation; on the worst population, a linear program for "
    "every rule by itself, where all outcomes can be listed (the first five).",
    "Shares of violations are means over the populations, and the largest of them; in "
    "short, over populations and sizes, in brackets where nothing is promised. "
    "Promised says whether the method claims to hold there: where it says no, a "
    "violation is no fault of the method. A promise is kept unless it failed more "
    "often than in 5 % of the samples, by more than chance does in one of 10,000 tests "
    "(of sets: unless the mean is above 5 % by four standard errors).",
    "4γ and 2γ are the bounds that hold for all populations with the same pairs; the "
    "rows without them speak of the sampled population alone. In-sample bounds are "
    "exact for the pairs of the sample, a promise that is not tested here.",
    "Held-out, logistic regression, MAPIE and crepes train on half of the sample and "
    "judge by the other half; cross-fitting, in-sample and MRCpy use all of it.",
    "MAPIE is asked for the largest accuracy that it grants to one of nine thresholds, "
    "with Bonferroni's correction, under which this is no choice after the fact. By "
    "class: two bounds of Clopper and Pearson at 97.5 %, for the same population the "
    "larger of both. Conformal sets promise a mean over samples: that the sets of one "
    "sample miss more than 5 % is no violation.",
    "MRCpy's bound is over distributions with nearly the same means of ±x, in which "
    "pairs of features may differ, too. On the first five populations it is computed "
    "over all outcomes, on the others over the rows of the sample, its default.",
)


def _said(table: Any) -> pd.DataFrame:
    """Return the bound of every method, and its settings."""
    there = [claim for claim in PROMISES if claim in set(table["claim"])]
    return pd.DataFrame(
        [
            {
                "method": claim,
                "bounds": PROMISES[claim].text,
                **{setting: _promised(claim, setting) for setting in SETTINGS},
            }
            for claim in there
        ]
    )


def _short(table: Any, sizes: list[int]) -> pd.DataFrame:
    """Return violations over all populations and sizes, in brackets if not covered."""
    rows = []
    for claim, part in table.groupby("claim", sort=False):
        row = {"method": claim}
        for setting in SETTINGS:
            cells = part[part["setting"] == setting]
            if cells.empty:
                continue
            share = f"{100 * cells['violated'].sum() / cells['samples'].sum():.1f}"
            covered = _promised(claim, setting) != "no"
            row[setting] = share if covered else f"({share})"
        same = part[part["setting"] == SAME]
        for n in sizes:
            mean = 100 * same.loc[same["n"] == n, "bound"].mean()
            row[f"bound, n = {n:,}"] = f"{mean:.1f}"
        rows.append(row)
    return pd.DataFrame(rows).fillna("")


def _violations(table: Any, sizes: list[int]) -> pd.DataFrame:
    """Return the share of violations over the populations, for every size."""
    rows = []
    for claim, part in table.groupby("claim", sort=False):
        promised = part["promised"].iloc[0]
        row = {"method": claim, "promised": promised}
        for n in sizes:
            row[f"n = {n:,}"] = _share(part[part["n"] == n])
        failed = [r for r in part.itertuples() if broken(r)]
        kept = "yes" if not failed else f"no: {_places(failed)}"
        rows.append({**row, "kept": "" if promised == "no" else kept})
    return pd.DataFrame(rows)


def _share(part: Any) -> str:
    if part.empty:
        return ""
    shares = 100 * part["violated"] / part["samples"]
    worst = shares.idxmax()
    if shares[worst] == 0:
        return "0"
    where = part["population"][worst]
    return f"{shares.mean():.1f} %, at most {shares[worst]:.1f} ({where})"


def _places(failed: list[Any]) -> str:
    return ", ".join(f"{row.population} {row.n:,}" for row in failed)


def _widths(table: Any) -> pd.DataFrame:
    rows = []
    for claim, part in table.groupby("claim", sort=False):
        row = {"method": claim, "promised": part["promised"].iloc[0]}
        for r in part.itertuples():
            row[str(r.population)] = f"{100 * r.bound:.1f} ({100 * r.error:.1f})"
        rows.append(row)
    return pd.DataFrame(rows).fillna("")


def _sets(table: Any) -> pd.DataFrame:
    rows = []
    for (claim, setting, n), part in table.groupby(
        ["claim", "setting", "n"], sort=False
    ):
        promised = part["promised"].iloc[0]
        failed = [row for row in part.itertuples() if broken(row)]
        kept = "yes" if not failed else f"no: {_places(failed)}"
        row = {"method": claim, "setting": setting, "promised": promised, "n": n}
        for r in part.itertuples():
            row[str(r.population)] = f"{100 * r.error:.1f} ({r.size:.2f})"
        rows.append({**row, "kept": "" if promised == "no" else kept})
    return pd.DataFrame(rows).fillna("")


def _wider(table: Any) -> list[str]:
    """Return a sentence on how often our bounds are the wider ones."""
    found = []
    for ours, theirs, setting in (
        ("cross-fit mixture, map", "logistic regression, Clopper–Pearson", SAME),
        ("cross-fit mixture, map", "held-out, map", SAME),
        ("cross-fit mixture, map", "MAPIE, risk control", SAME),
        ("cross-fit average, sharp, 2γ", "held-out, sharp, 2γ", WORST),
        ("cross-fit average, sharp, 2γ", "MRCpy, s for 95 %", WORST),
    ):
        part = table[table["setting"] == setting]
        wide = part.pivot(index=["population", "n"], columns="claim", values="bound")
        if {ours, theirs} <= set(wide.columns):
            both = wide[[ours, theirs]].dropna()
            wider = int((both[ours] > both[theirs]).sum())
            found.append(
                f"The mean bound of {ours!r} is wider than that of {theirs!r} in "
                f"{wider} of {len(both)} cases (population and number of rows)."
            )
    return found


def _counts(table: Any) -> list[str]:
    """Return a sentence on the samples of each package, and what was not computed."""
    of = table["claim"].map(lambda claim: PROMISES[claim].package)
    counts = table["samples"].groupby(of).min().to_dict()
    found = [
        f"{_release(package)}: {counts[package]:,} samples of each population and size."
        if package in counts
        else f"{package} is not in the tables: it was not installed."
        for package in PACKAGES
    ]
    if CREPES in counts:
        found.append(
            "crepes was not run on adult: it compares each of 36,732 rows with every "
            "row that judges."
        )
    return found


def _release(package: str) -> str:
    """Return a package with its version, if it is installed."""
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return package


def _draw(figure: Any, table: pd.DataFrame) -> None:
    """Plot the mean bounds of each method against the error of its rule."""
    sizes = sorted(set(table["n"]))
    figure.set_size_inches(4 + 3 * len(sizes), 5)
    panels = figure.subplots(1, len(sizes), sharey=True, squeeze=False)[0]
    claims = [claim for claim in PROMISES if claim in set(table["claim"])]
    drawn = {True: ("o", "C0", "promised"), False: ("x", "C1", "not promised")}
    for axes, n in zip(panels, sizes, strict=True):
        for place, claim in enumerate(claims):
            part = table[(table["n"] == n) & (table["claim"] == claim)]
            marker, colour, _ = drawn[_promised(claim, SAME) != "no"]
            excess = 100 * (part["bound"] - part["error"])
            axes.plot(excess, [place] * len(part), marker, color=colour)
        axes.axvline(0, color="black", linewidth=0.8)
        axes.set_title(f"{n:,} rows")
        axes.set_xlabel("mean bound − mean error, %")
    panels[0].set_yticks(range(len(claims)), claims)
    panels[0].invert_yaxis()
    for marker, colour, text in drawn.values():
        panels[-1].plot([], [], marker, color=colour, label=text)
    panels[-1].legend()


if __name__ == "__main__":
    raise SystemExit(command.main("guarantees"))
