"""A genotype: a network as data. Frozen, hashable, printable; JSON, and tensors where choices are continuous."""

import hashlib
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from eclose.errors import ConfigError, RunError
from eclose.runs import STAGES, write_json
from eclose.runs.files import parse_json
from eclose.train import load_tensors, save_tensors
from eclose.train.augment import Augmentation, told_changes


@dataclass(frozen=True, eq=False)
class Genotype:
    """What a space needs to build one of its networks."""

    space: str
    choices: dict[str, Any]  # JSON values only
    tensors: dict[str, Tensor] = field(default_factory=dict)
    origin: str = ""  # how a search came to it: drawn, mutated, crossed, seed; told by the trial table, not saved here
    parents: tuple[int, ...] = ()  # numbers of their trials
    description: str = ""  # in words: what it is, then what was changed: ``child of resnet18: softmax added``
    # How its samples are changed while it is trained, if the search chose that, too: options by name.
    augment: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def hash(self) -> str:
        """Equal for equal networks: of the choices as JSON and the bytes of the tensors.

        Where several choices describe one network, the space puts what they share under ``digest``; it decides.
        """
        told = self.choices.get("digest", self.choices)
        digest = hashlib.sha256(json.dumps([self.space, told], sort_keys=True).encode())
        for name in sorted(self.tensors):
            tensor = self.tensors[name].detach().cpu().contiguous()
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()[:16]

    @property
    def label(self) -> str:
        """A name for tables: ``lenet``, ``lenet with XD-operations``, ``child of resnet18 9bc1``, ``mutated 9bc1``."""
        backbone, name = self.choices.get("backbone"), self.choices.get("label") or self.choices.get("name")
        if backbone is not None:
            other = str(backbone) if self.space == "backbone" else f"{backbone} ({self.space})"
            return self.description or other  # older genotypes have no words
        drawn = "" if self.origin in STAGES else self.origin  # a network has one name in all stages of a portfolio
        kin = self.choices.get("kin") or drawn or self.space
        return str(name or f"{kin} {self.hash[:4]}")

    def named(self, label: str) -> "Genotype":
        """The same network under another name in tables."""
        if "backbone" in self.choices:
            return replace(self, description=label)
        same = self.choices.get("digest", self.choices)  # a name makes no other network
        return replace(self, choices={**self.choices, "digest": same, "label": label})

    def on_changed_samples(self, augment: dict[str, dict[str, Any]]) -> "Genotype":
        """The same network on samples that are changed in this way, or in none; its name says so."""
        label = self.label.removesuffix(_on_samples(self.augment)) + _on_samples(augment)
        return replace(self.named(label), augment=augment)

    @property
    def made_of(self) -> str:
        """The network that it was made of: ``narrow resnet`` for ``narrow resnet with XD-operations``."""
        return self.description.partition(" with ")[0] or str(self.choices.get("backbone", ""))

    def __hash__(self) -> int:
        return int(self.hash, 16)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Genotype) and self.hash == other.hash

    def save(self, folder: Path, stem: str = "genotype") -> None:
        """Write ``genotype.json`` and, where there are tensors, ``genotype.safetensors``."""
        if self.tensors:
            save_tensors(folder / f"{stem}.safetensors", self.tensors)
        data = {"space": self.space, "choices": self.choices, "tensors": sorted(self.tensors)}
        if self.description:
            data["description"] = self.description
        if self.augment:
            data["augment"] = self.augment
        write_json(folder / f"{stem}.json", data)

    @classmethod
    def load(cls, folder: Path, stem: str = "genotype") -> "Genotype":
        """Inverse of :meth:`save`."""
        path = folder / f"{stem}.json"
        try:
            data = parse_json(path.read_text(encoding="utf-8"))
            space, choices, names = data["space"], data["choices"], data["tensors"]
            description, augment = data.get("description", ""), data.get("augment", {})  # not in older runs
            values = (space, choices, names, description, augment)
            if not all(map(isinstance, values, (str, dict, list, str, dict))):
                raise TypeError("a value of another type")
            Augmentation(tuple(augment), augment)  # whatever the file names is there, with options that it takes
        except FileNotFoundError:
            raise RunError(
                f"{path} is missing: the run has not finished (resume it), or its folder was changed"
            ) from None
        except (ValueError, KeyError, TypeError, ConfigError) as error:
            raise RunError(f"{path} is damaged ({error!r:.200}): restore it from a copy, or start a new run") from None
        tensors = load_tensors(folder / f"{stem}.safetensors") if names else {}
        if sorted(tensors) != names:
            raise RunError(f"{path} and {stem}.safetensors do not belong together: restore them from a copy")
        return cls(space, choices, tensors, description=description, augment=augment)


def _on_samples(augment: dict[str, dict[str, Any]]) -> str:
    return f" on {told_changes(augment)} samples" if augment else ""
