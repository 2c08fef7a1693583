"""Numbers as people read them: three significant digits, 1.2 M, 3 min 20 s, 97.8 %."""

import math
from typing import Any

NOTHING = "–"

_METRICS = {  # name -> (as a noun, as a phrase before its value)
    "accuracy": ("accuracy", "an accuracy of"),
    "error": ("error rate", "an error rate of"),
    "nll": ("negative log-likelihood (nats)", "a negative log-likelihood of"),
    "perplexity": ("perplexity", "a perplexity of"),
    "auroc": ("area under the ROC curve", "an area under the ROC curve of"),
    "mse": ("mean squared error", "a mean squared error of"),
    "mae": ("mean absolute error", "a mean absolute error of"),
    "relative_l2": ("relative L2 error", "a relative L2 error of"),
}
SHARES = ("accuracy", "error")
_UNITS = ("", "k", "M", "G", "T", "P", "E")


def number(value: Any) -> str:
    """Three significant digits; a dash for what is no finite number."""
    if not finite(value):
        return NOTHING
    value = float(value)
    if value == 0:
        return "0"
    if 1e3 <= abs(value) < 1e6:
        text = f"{value:.0f}"
    else:
        digits, _, power = f"{value:#.3g}".partition("e")
        text = digits.rstrip(".") + (f"e{int(power)}" if power else "")
    return text.replace("-", "−", 1) if value < 0 else text


def share(value: Any) -> str:
    """A part of the whole in per cent, with more digits near 0 and 100 where they matter."""
    if not finite(value):
        return NOTHING
    hundredth = 100 * float(value)
    if hundredth in (0, 100):
        return f"{hundredth:.0f} %"
    places = 1 if 10 <= hundredth <= 99 else 2
    return f"{hundredth:.{places}f} %"


def count(value: Any) -> str:
    """A large whole number: 1.23 M."""
    if not finite(value):
        return NOTHING
    scaled, unit = float(value), 0
    while abs(scaled) >= 999.5 and unit + 1 < len(_UNITS):
        scaled, unit = scaled / 1000, unit + 1
    return f"{scaled:.3g} {_UNITS[unit]}".strip()


def whole(value: Any) -> str:
    """A whole number in full, in groups of three."""
    return f"{int(value):,}" if finite(value) else NOTHING


def duration(seconds: Any) -> str:
    """A time in its two largest units."""
    if not finite(seconds):
        return NOTHING
    seconds = float(seconds)
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    left = round(seconds)
    parts: list[tuple[int, str]] = []
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        amount, left = divmod(left, size)
        if amount or parts:
            parts.append((amount, unit))
    return " ".join(f"{amount} {unit}" for amount, unit in parts[:2] if amount)


def milliseconds(value: Any) -> str:
    """A time far below a second."""
    return f"{number(value)} ms" if finite(value) else NOTHING


def score(metric: str, value: Any) -> str:
    """The value of a metric: shares in per cent, others in digits."""
    return share(value) if metric in SHARES else number(value)


def metric_noun(metric: str) -> str:
    """``relative L2 error``."""
    return _METRICS.get(metric, (metric or "metric", ""))[0]


def metric_phrase(metric: str) -> str:
    """``a relative L2 error of``, to stand before a value."""
    return _METRICS.get(metric, ("", f"a value of {metric or 'the metric'} of"))[1]


def listed(items: list[str]) -> str:
    """``a, b and c``."""
    return " and ".join(filter(None, [", ".join(items[:-1]), *items[-1:]]))


def shortened(text: str, most: int = 60) -> str:
    """At most ``most`` characters on one line."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def finite(value: Any) -> bool:
    """Whether ``value`` is a number that can be shown."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
