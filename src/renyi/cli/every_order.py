"""``fit --order all``: a model of single columns, pairs, triples and more at once."""

from __future__ import annotations

from renyi.cli import inputs
from renyi.cli.output import Facts
from renyi.cli.parser import Args
from renyi.cli.streams import CodedRows
from renyi.encoding.rows import TrainingRows
from renyi.estimators.model_file import AnyFit
from renyi.fitting.kernel import (
    KernelFit,
    KernelSettings,
    contains_rows,
    fit_kernel,
    shares_text,
)
from renyi.formatting import wrapped
from renyi.marginals.marginals import Marginals
from renyi.scorecard import Scorecard

ALL = "all"


class KernelLearner:
    """Trains a model of every order on rows."""

    def __init__(self, settings: KernelSettings) -> None:
        self.settings = settings

    @classmethod
    def of(cls, args: Args) -> KernelLearner:
        """Return what the options ask for; reject those that need a scorecard."""
        why = "is for scorecards, and a model of --order all is none: leave it out"
        names = ["interactions", "no_intercept", "class_conditional", "marginals"]
        inputs.check_not_given(args, names, why)
        for name, usual in (("rule", "map"), ("objective", "error")):
            if getattr(args, name) != usual:
                raise ValueError(f"--{name} {getattr(args, name)} {why}.")
        if inputs.names_counts(args):
            raise ValueError(
                f"--order all compares rows, and {args.file} contains pair counts: "
                "name a table."
            )
        return cls(
            KernelSettings(
                alpha=args.alpha,
                class_weight=args.class_weight,
                random_state=args.seed or 0,
                calibration=None if args.calibration == "none" else args.calibration,
            )
        )

    def on_rows(self, rows: CodedRows) -> tuple[KernelFit, TrainingRows]:
        """Train on all rows, in memory."""
        joined = rows.joined()
        return fit_kernel(joined, self.settings), joined

    def on_counts(self, m: Marginals) -> KernelFit:
        """Reject counts, which do not contain tuples of every order."""
        raise ValueError("--order all needs rows: name a table.")


def shown_card(fit: AnyFit) -> Scorecard:
    """Return the points to show: of every order those of single columns."""
    return fit.kernel_.main_effects if isinstance(fit, KernelFit) else fit.scorecard_


def order_facts(fit: AnyFit) -> Facts:
    """Return the order of a model, and of every order what it consists of."""
    if not isinstance(fit, KernelFit):
        return {"order": fit.settings.tuple_order, "every_order": None}
    kernel = fit.kernel_.kernel
    every: Facts = {
        "form": kernel.form,
        "rho": float(kernel.rho),
        "order_shares": fit.order_shares,
        "contained_rows": fit.kernel_.rows.shape[1],
    }
    return {"order": ALL, "every_order": every}


def paragraphs(fit: AnyFit) -> list[str]:
    """Return what to know of a model of every order."""
    if not isinstance(fit, KernelFit):
        return []
    return [wrapped(contains_rows(fit)), wrapped(shares_text(fit.order_shares))]
