"""A listener that writes TensorBoard files (extra ``tensorboard``)."""

from pathlib import Path
from typing import Any

from eclose.errors import ConfigError
from eclose.events import Listener


def tensorboard_listener(folder: Path) -> Listener:
    """Curves of every training as ``name/train_loss``, ``name/valid``, ``name/rate``, ``name/attention``."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ConfigError(
            "run.tensorboard needs TensorBoard: pip install 'eclose[tensorboard]', or leave the setting out"
        ) from None
    writer = SummaryWriter(str(folder))
    names: dict[int, str] = {}

    def listen(event: str, fields: dict[str, Any]) -> None:
        if event == "trial":
            names[fields["trial"]] = f"{fields['trial']}-{fields['name'].replace(':', '.')}"
        elif event == "epoch":
            for key in ("train_loss", "valid", "rate", "attention"):
                if fields.get(key) is not None:
                    writer.add_scalar(f"{names[fields['trial']]}/{key}", fields[key], fields["epoch"])
        elif event == "trial_end":
            writer.flush()
        elif event == "result":
            writer.close()

    return listen
