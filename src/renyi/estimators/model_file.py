"""The model file: a `Fit` as JSON that predicts the same to the last bit.

A document contains the settings, the choice of alpha, the certificate, what held-out
rows prove (if any were held out) and the scorecard. One that `Scorecard.save` wrote
contains a scorecard alone, such as that of a model made elsewhere. It may be untrusted.
This module checks the fields and their types; the scorecard and the certificates check
their own contents.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from renyi import __version__
from renyi.certificates.record import EVERY_ORDER, Certificate
from renyi.encoding import rules as column_rules
from renyi.encoding.columns import Label, label_text
from renyi.encoding.encoder import Encoder
from renyi.encoding.tuples import same_pairs
from renyi.files import LABEL, NUMBER, Sink, check_fields, read_json, valid, write_json
from renyi.fitting.record import Fit, of_scorecard, restored
from renyi.fitting.settings import Settings
from renyi.marginals.file import DataDigest
from renyi.scorecard import Scorecard
from renyi.scorecard_file import FORMAT, VERSION
from renyi.solvers.ridge import AlphaChoice

if TYPE_CHECKING:
    import os

    from renyi.fitting.kernel import KernelCard, KernelFit

Fields = dict[str, tuple[type, ...]]
AnyFit: TypeAlias = "Fit | KernelFit"

_DOCUMENT: Fields = {
    "format": (str,),
    "version": (int,),
    "renyi": (str,),
    "checksum": (str,),
    "target": (str,),
    "data_digest": (dict, NoneType),
    "classifier": (dict,),
    "alpha_choice": (dict,),
    "named": (bool,),
    "certificate": (dict,),
    "scorecard": (dict,),
}
_KERNEL: Fields = {  # of a model of every order
    **{name: kind for name, kind in _DOCUMENT.items() if name != "scorecard"},
    "kernel": (dict,),
}
_CARD: Fields = {  # of a scorecard alone
    name: _DOCUMENT[name] for name in ("format", "version", "checksum", "scorecard")
}
_OPTIONAL: Fields = {
    "heldout": (dict,),  # if rows were held out
    "left_out": (dict,),  # if there were rows
}
_LEFT_OUT: Fields = {
    "by_class": (list,),
    "auc": (*NUMBER, NoneType),
    "log_loss": NUMBER,
}
_CLASS: Fields = {"class": (str,), "rows": NUMBER, "error": (*NUMBER, NoneType)}
_DIGEST: Fields = {"classes": (str,), "pairs": (str, NoneType)}
_SETTINGS: Fields = {
    "order": (int,),
    "alpha": (*NUMBER, str),
    "rule": (str,),
    "fit_intercept": (bool,),
    "class_weight": (list, str, NoneType),
    "random_state": (int, NoneType),
    "calibration": (str, NoneType),
    "objective": (str,),
}
_MORE_SETTINGS: Fields = {"interactions": (int, str, list)}  # if there are pairs
_KERNEL_SETTINGS: Fields = {**_SETTINGS, "rho": (*NUMBER, str), "max_rows": (int,)}
_CHOICE: Fields = {
    "method": (str,),
    "alpha": NUMBER,
    "risk": (*NUMBER, NoneType),
    "error": (*NUMBER, NoneType),
}


def write(fit: AnyFit, path: Sink) -> None:
    """Write a model; see `RenyiClassifier.save`."""
    if isinstance(fit, Fit) and fit.made_elsewhere:
        fit.scorecard_.save(path)
        return
    choice = fit.alpha_choice_
    digest = fit.data_digest_
    document: dict[str, object] = {
        "format": FORMAT,
        "version": VERSION,
        "renyi": __version__,
        "target": fit.target,
        "data_digest": None if digest is None else asdict(digest),
        "classifier": _plain_settings(fit.settings),
        "alpha_choice": {key: getattr(choice, key) for key in _CHOICE},
        "named": fit.named,
        "certificate": fit.certificate_.to_dict(),
    }
    if isinstance(fit, Fit):
        document["scorecard"] = fit.scorecard_.to_dict()
    else:
        document["kernel"] = fit.kernel_.to_dict()
    if fit.heldout is not None:
        document["heldout"] = fit.heldout.to_dict()
    details = fit.left_out_details
    if details is not None:
        document["left_out"] = details
    write_json(path, document)


def _plain_settings(settings: Settings) -> dict[str, object]:
    """Return the settings as plain values; omit a seed that is not a number."""
    seed = settings.random_state
    weights = settings.class_weight
    fields = _KERNEL_SETTINGS if hasattr(settings, "max_rows") else _SETTINGS
    plain = {key: _plain(getattr(settings, key)) for key in fields}
    if settings.pairs is not None:
        plain["interactions"] = [[*pair] for pair in settings.pairs]
    elif settings.interactions is not None:
        plain["interactions"] = _plain(settings.interactions)
    plain["fit_intercept"] = bool(settings.fit_intercept)
    is_number = isinstance(seed, (int, np.integer))
    plain["random_state"] = int(seed) if is_number else None  # type: ignore[arg-type]
    if not isinstance(weights, (str, NoneType)):
        plain["class_weight"] = [[_plain(k), _plain(v)] for k, v in weights.items()]
    return plain


def _plain(value: object) -> object:
    return value.item() if isinstance(value, np.generic) else value


def read(path: str | os.PathLike[str]) -> AnyFit:
    """Read a model; see `RenyiClassifier.load`."""
    data = read_json(path, FORMAT)
    with valid(path):
        return _from_document(data)


def read_scorecard(path: str | os.PathLike[str]) -> Fit:
    """Read a model; one of every order is an error."""
    fit = read(path)
    if not isinstance(fit, Fit):
        raise ValueError(
            f"{path} is a model of every order, which has no scorecard: load it with "
            "KernelRenyiClassifier.load."
        )
    if fit.made_elsewhere:
        raise ValueError(
            f"{path} is a scorecard alone, not a classifier: load it with "
            "Scorecard.load."
        )
    return fit


def _from_document(data: dict[str, Any]) -> AnyFit:
    if {*data} <= {*_CARD, "target"}:
        check_fields(data, _CARD, "document", {"target": (str,)})
        alone = Scorecard.from_dict(data["scorecard"])
        return of_scorecard(replace(alone, target=data.get("target")))
    kernel = "kernel" in data
    check_fields(data, _KERNEL if kernel else _DOCUMENT, "document", _OPTIONAL)
    fields = _KERNEL_SETTINGS if kernel else _SETTINGS
    check_fields(data["classifier"], fields, "classifier", _MORE_SETTINGS)
    check_fields(data["alpha_choice"], _CHOICE, "alpha_choice")
    plain = data["classifier"]
    if isinstance(plain["class_weight"], list):
        plain = {**plain, "class_weight": _weights_of(plain["class_weight"])}
    card: Scorecard | KernelCard
    if kernel:
        from renyi.fitting.kernel import KernelCard, KernelSettings

        card = KernelCard.from_dict(data["kernel"])
        settings: Settings = KernelSettings(**plain)
    else:
        card = Scorecard.from_dict(data["scorecard"])
        settings = Settings(**plain)
    if data["target"] in card.encoder.input_names:
        raise ValueError(f"its target {data['target']!r:.60} is a feature, too")
    _check_features(settings, card.encoder)
    classes = column_rules.class_array(card.classes)
    # This raises an error if a class weight names an unknown class.
    settings.class_factors(classes, np.ones(len(classes)))
    digest = None
    if data["data_digest"] is not None:
        check_fields(data["data_digest"], _DIGEST, "data_digest")
        digest = DataDigest(**data["data_digest"])
    plain_heldout = data.get("heldout")
    heldout = None if plain_heldout is None else Certificate.from_dict(plain_heldout)
    choice = AlphaChoice(**data["alpha_choice"])
    certificate = Certificate.from_dict(data["certificate"])
    if (certificate.order == EVERY_ORDER) != kernel:
        raise ValueError("its certificate is for a model of another order")
    labels = [label_text(label) for label in card.classes]
    details = _left_out(data.get("left_out"), labels)
    named = data["named"]
    card = replace(card, target=data["target"])
    if isinstance(card, Scorecard):
        return restored(
            settings, card, choice, certificate, digest, named, heldout, details
        )
    from renyi.fitting.kernel import KernelFit, KernelSettings

    assert isinstance(settings, KernelSettings)
    return KernelFit(
        settings,
        card,
        choice,
        certificate,
        digest,
        named,
        details,
        heldout=heldout,
    )


def _check_features(settings: Settings, encoder: Encoder) -> None:
    """Raise ValueError unless an encoder has the features of the settings."""
    pairs = encoder.interactions
    if settings.chooses_pairs and (pairs is not None or encoder.order == 1):
        return
    if not same_pairs(settings.pairs, pairs):
        raise ValueError("its pairs of columns are not its scorecard's")
    if pairs is None and settings.order != encoder.order:
        raise ValueError(f"its order is {settings.order!r}, not its scorecard's")


def _left_out(details: Any, classes: list[str]) -> dict[str, Any] | None:
    """Return the figures of left-out rows; raise ValueError if they do not fit."""
    if details is None:
        return None
    check_fields(details, _LEFT_OUT, "left_out")
    for entry in details["by_class"]:
        check_fields(entry, _CLASS, "left_out")
    if [entry["class"] for entry in details["by_class"]] != classes:
        raise ValueError("its errors by class are not those of its classes")
    return dict(details)


def _weights_of(pairs: list[Any]) -> dict[Label, float]:
    """Return the class weights of a model file."""
    for pair in pairs:
        good = isinstance(pair, list) and len(pair) == 2
        if not good or type(pair[0]) not in LABEL or type(pair[1]) not in NUMBER:
            raise ValueError("its class weights are not valid")
    weights = dict(pairs)
    if len(weights) < len(pairs):
        raise ValueError("its class weights name a class twice")
    return weights
