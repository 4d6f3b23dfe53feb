"""The state of a training: parameters, optimisers, schedules, position in the data."""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, astuple
from math import nan
from typing import Any

import torch
from torch import Tensor

from muster.ending import Trend
from muster.runtime.data.feed import Feed
from muster.runtime.data.samples import Position
from muster.runtime.errors import BadTrainingError
from muster.runtime.state.batching import Batching
from muster.runtime.state.checkpoint import signature_of_all
from muster.runtime.state.given_ending import GivenEnding
from muster.runtime.state.kept_values import kept_value, schedule_value
from muster.runtime.state.module_numbers import ModuleNumbers
from muster.runtime.state.tree import PlaceOf, describe, make, placed_like

Packed = dict[str, Any]
EMBEDDINGS = (torch.nn.Embedding, torch.nn.EmbeddingBag)


class TrainingState:
    """The user's models, optimisers and schedules, read and written as a whole or by tensor.

    Everything has a name: what belongs to the first model or optimiser its own (as in a checkpoint
    of one model), the rest a prefix: "model2:bias", "optimizer2". A tensor that only an optimiser
    knows (a learnt weight of a loss) is named by its place there: "optimizer:1.0".
    """

    in_parts = False
    """Whether each member has other parameters, so that they cannot be compared."""

    def __init__(self, model: Any, optimizer: Any = None, scheduler: Any = None) -> None:
        self.models: list[Any] = []
        self.optimizers: list[Any] = []
        self.schedulers: list[Any] = []
        self.kept: Mapping[str, Any] = {}
        """What the user keeps beside them, by name."""
        self.numbers = ModuleNumbers(self.named_models)
        self.feed: Feed | None = None
        self.parameters: list[Any] = []
        """What is trained, of models and optimisers."""
        self.names: list[str] = []
        """Of `parameters`."""
        self.position = Position(0, 0, 0)
        self.losses = 0.0
        """Sum of this epoch's losses so far, over all workers."""
        self.loss = nan
        """Mean loss of the last step over the global batch; NaN: no step was done."""
        self.epoch_loss = nan
        """Mean loss of the last complete epoch; NaN: there was none."""
        self.trend = Trend()
        """Of the epochs' mean losses, if they end the training."""
        self.given = self.told = GivenEnding()
        """What ends the training by order; what this task was told, and all do once it has voted."""
        self.phase = 0
        """Applied phases of the step under way; a phase is some sums and the update after them."""
        self.updates = 0
        """Phases applied since the members began, the same on all of them."""
        self.partial = 0.0
        """Sum of the losses of the applied phases of the step under way."""
        self.batching: Batching | None = None
        """The batch in use, once the data is known."""
        self.changes = 0
        """How often what is trained has changed since the beginning."""
        self.run, self.owner = 0, ""
        """A number for the run, kept for as long as its owner continues it; 0: none yet."""
        self.add(model, optimizer, scheduler)

    def add(self, model: Any, optimizers: Any = None, schedulers: Any = None) -> None:
        """Add a model, with none, one or a list of optimisers and of schedules."""
        self.models.append(model)
        self.optimizers += as_list(optimizers)
        self.schedulers += as_list(schedulers)
        self.find_trained()
        self.numbers.start()
        self._first_groups = [len(group["params"]) for group in self._groups()]

    def is_changed(self) -> bool:
        """Whether something else is trained than was found: unfrozen, frozen, or added to a group."""
        flags = [parameter.requires_grad for parameter in self._all.values()]
        return flags != self._flags or self._held_count() != self._count

    def change(self) -> int:
        """Return a checksum of what is trained now, found or not; not 0."""
        names = [name for name, parameter in self._all.items() if parameter.requires_grad]
        groups = [[len(g["params"]) for g in each.param_groups] for each in self.optimizers]
        return zlib.crc32(repr((names, groups)).encode()) + 1

    def layout(self) -> Packed:
        """Return what is trained and by which group of which optimiser, by name."""
        names = {id(parameter): name for name, parameter in self._all.items()}
        groups = [
            [[names[id(p)] for p in group["params"]] for group in each.param_groups]
            for each in self.optimizers
        ]
        return {"changes": self.changes, "trained": self.names, "groups": groups}

    def set_layout(self, layout: Packed) -> None:
        """Train what another member trains, or a checkpoint did."""
        trained = set(layout["trained"])
        for name, parameter in self._all.items():
            parameter.requires_grad_(name in trained)
        for optimizer, groups in zip(self.optimizers, layout["groups"], strict=True):
            known = {name for group in groups for name in group} - set(self._all)
            if known:
                raise BadTrainingError(
                    f"the others train {sorted(known)[0]}, which this script does not make before "
                    "ctx.wrap: make all tensors first, and unfreeze them later"
                )
            last = optimizer.param_groups[-1]
            optimizer.param_groups += [dict(last) for _ in groups[len(optimizer.param_groups) :]]
            for group, names in zip(optimizer.param_groups, groups, strict=True):
                group["params"] = [self._all[name] for name in names]
        self.find_trained()
        self.changes = int(layout["changes"])

    def sparse(self) -> list[int]:
        """Return the trained parameters whose gradients are sparse: weights of such embeddings."""
        modules = (module for model in self.models for module in model.modules())
        found = {
            id(m.weight)
            for m in modules
            if getattr(m, "sparse", False) is True and hasattr(m, "weight")
        }
        return [index for index, parameter in enumerate(self.parameters) if id(parameter) in found]

    def find_trained(self) -> None:
        """Find the trained parameters: those that require gradients, in models and optimisers."""
        self.loose = self._find_loose()
        self._all = dict(self.all_parameters())
        self._flags = [parameter.requires_grad for parameter in self._all.values()]
        self._count = self._held_count()
        trained = [(name, p) for name, p in self._all.items() if p.requires_grad]
        self.names, self.parameters = [name for name, _ in trained], [p for _, p in trained]
        self._keepers = {id(p): optimizer for optimizer, _, p in self._held()}

    @property
    def model(self) -> Any:
        """The first model, the only one of most trainings."""
        return self.models[0]

    @property
    def optimizer(self) -> Any:
        """The first optimiser, the only one of most trainings."""
        return self.optimizers[0]

    @property
    def scheduler(self) -> Any:
        """The first schedule; None: there is none."""
        return self.schedulers[0] if self.schedulers else None

    def optimizer_of(self, parameter: Any) -> Any:
        """Return the optimiser that updates a parameter; None: none does."""
        return self._keepers.get(id(parameter))

    def row(self) -> dict[str, float]:
        """Return its progress, for a roll call (`MemberStatus`)."""
        position = self.position
        return {
            "step": position.step,
            "epoch": position.epoch,
            "cursor": position.cursor,
            "seen": position.seen,
            "losses": self.losses,
            "loss": self.loss,
            "epoch_loss": self.epoch_loss,
            "run": self.run,
            "phase": self.phase,
            "updates": self.updates,
            "partial": self.partial,
            "changes": self.changes,
            **asdict(self.trend),
            **self.given.row(),
        }

    def whole(self) -> Packed:
        """Return everything for a checkpoint; live tensors, not copies."""
        position = self.position
        return {
            "layout": self.layout() if self.changes else None,
            **{_named("model", i): model.state_dict() for i, model in enumerate(self.models)},
            **{_named("optimizer", i): each.state_dict() for i, each in enumerate(self.optimizers)},
            "scheduler": None,
            **{_named("scheduler", i): schedule_value(each) for i, each in enumerate(self.schedulers)},
            "loose": {name: p.detach() for name, p in self.loose.items()},
            "kept": {name: kept_value(thing) for name, thing in self.kept.items()},
            "numbers": self.numbers.changed(),
            "position": [position.epoch, position.cursor, position.step, position.seen],
            "batching": self.batching.value() if self.batching else None,
            "losses": self.losses,
            "loss": self.loss,
            "epoch_loss": self.epoch_loss,
            "trend": list(astuple(self.trend)),
            "feed": self.feed.value() if self.feed else None,
            "run": [self.run, self.owner],
        }

    def restore(self, whole: Packed) -> None:
        """Restore a checkpoint."""
        if whole.get("layout"):  # older checkpoints have none
            self.set_layout(whole["layout"])
        for i, model in enumerate(self.models):
            model.load_state_dict(whole[_named("model", i)])
        for i, optimizer in enumerate(self.optimizers):
            optimizer.load_state_dict(whole[_named("optimizer", i)])
        for i, scheduler in enumerate(self.schedulers):
            kept = whole.get(_named("scheduler", i))
            if kept:
                scheduler.load_state_dict(kept)
        self._restore_kept(whole.get("kept", {}))
        self.numbers.set(whole.get("numbers", {}))
        self.set_loose(whole.get("loose", {}))  # older checkpoints have none
        self._restore_position(whole)
        self.losses = float(whole["losses"])
        self.loss = float(whole.get("loss", nan))  # older checkpoints have none
        self.epoch_loss = float(whole.get("epoch_loss", nan))
        self.trend = Trend(*whole.get("trend", ()))  # older checkpoints have none
        if self.feed and whole["feed"] is not None:
            self.feed.restore(whole["feed"], alive=False)
        run, owner = whole.get("run", (0, ""))  # older checkpoints have none
        if owner == self.owner:  # else another's, which this training starts from
            self.run = int(run)

    def _restore_position(self, whole: Packed) -> None:
        """Restore how far the training is; older checkpoints have a fixed batch."""
        epoch, cursor, step, *seen = whole["position"]
        own = self.batching.limits.own if self.batching else 0
        self.position = Position(epoch, cursor, step, *(seen or [step * own]))
        if self.batching is not None and whole.get("batching"):
            self.batching.restore(whole["batching"])

    def _restore_kept(self, saved: Packed) -> None:
        """Restore what is kept and was saved; older checkpoints have nothing of the kind."""
        for name in self.kept.keys() & saved.keys():
            self.kept[name].load_state_dict(placed_like(saved[name], kept_value(self.kept[name])))

    def signature(self) -> str:
        """Describe what a checkpoint must match."""
        tensors = {
            f"{x}{name}": t for x, m in self.named_models() for name, t in m.state_dict().items()
        }
        return signature_of_all({**tensors, **self.loose}, self.optimizers, self._first_groups)

    def tensors_of(self, index: int) -> tuple[Packed, list[Tensor]]:
        """Return one parameter with its optimiser state: a description, and tensors."""
        parameter = self.parameters[index]
        optimizer = self.optimizer_of(parameter)
        kept = optimizer.state.get(parameter, {}) if optimizer is not None else {}
        tensors = [parameter.detach()]
        where = f"the optimiser's state of {self.names[index]}"
        return {"parameter": index, "state": describe(dict(kept), tensors, where)}, tensors

    def room_for(self, described: Packed) -> list[Tensor]:
        """Return where the tensors of a description are received; replaces the optimiser's state."""
        parameter = self.parameters[described["parameter"]]
        room = [parameter.detach()]
        kept = make(described["state"], self._places(parameter), room)
        optimizer = self.optimizer_of(parameter)
        if kept:
            optimizer.state[parameter] = kept
        elif optimizer is not None:
            optimizer.state.pop(parameter, None)
        return room

    def _places(self, parameter: Any) -> PlaceOf:
        """Step counters stay in host memory; the rest goes to this member's device."""
        counters = parameter.device if self._on_device(parameter) else "cpu"
        return lambda shape, device: counters if not shape and device == "cpu" else parameter.device

    def _on_device(self, parameter: Any) -> bool:
        """Whether the optimiser wants its step counters on the parameter's device."""
        for group in self._groups():
            if any(parameter is other for other in group["params"]):
                return bool(group.get("fused") or group.get("capturable"))
        return False

    def settings(self) -> list[Packed]:
        """Return the optimisers' hyper-parameters by group, for JSON."""
        return [
            {k: float(v) if isinstance(v, Tensor) else v for k, v in group.items() if k != "params"}
            for group in self._groups()
        ]

    def set_settings(self, groups: list[Packed]) -> None:
        """Adopt another member's."""
        for group, values in zip(self._groups(), groups, strict=True):
            for key, value in values.items():
                if isinstance(group.get(key), Tensor):
                    group[key].fill_(value)  # compiled code and graphs hold on to it
                else:
                    group[key] = tuple(value) if isinstance(group.get(key), tuple) else value

    def all_parameters(self) -> Iterator[tuple[str, Any]]:
        """Return all parameters once, frozen ones too, with their names."""
        of_models = ((f"{x}{n}", p) for x, m in self.named_models() for n, p in m.named_parameters())
        seen: set[int] = set()
        for name, parameter in (*of_models, *self.loose.items()):
            if id(parameter) not in seen:  # a tied one is listed once
                seen.add(id(parameter))
                yield name, parameter

    def named_models(self) -> Iterator[tuple[str, Any]]:
        """Return the models with their prefixes."""
        for i, model in enumerate(self.models):
            yield f"{_named('model', i)}:" if i else "", model

    def _held_count(self) -> int:
        return sum(len(group["params"]) for group in self._groups())

    def _groups(self) -> list[Packed]:
        return [group for optimizer in self.optimizers for group in optimizer.param_groups]

    def _held(self) -> Iterator[tuple[Any, str, Any]]:
        """Return what the optimisers hold: optimiser, name by place, parameter."""
        for i, optimizer in enumerate(self.optimizers):
            for number, group in enumerate(optimizer.param_groups):
                for place, parameter in enumerate(group["params"]):
                    yield optimizer, f"{_named('optimizer', i)}:{number}.{place}", parameter

    def _find_loose(self) -> dict[str, Any]:
        """Return parameters that only an optimiser knows."""
        inside = {id(p) for model in self.models for p in model.parameters()}
        return {name: p for _, name, p in self._held() if id(p) not in inside}

    def set_loose(self, given: Packed) -> None:
        """Adopt the values of parameters that only an optimiser knows."""
        with torch.no_grad():
            for name, value in given.items():
                self.loose[name].copy_(value)


def as_list(given: Any) -> list[Any]:
    """Return none, one or several as a list."""
    return list(given) if isinstance(given, list | tuple) else [] if given is None else [given]


def _named(kind: str, place: int) -> str:
    """Name the first of a kind plainly, the second "kind2"."""
    return kind if place == 0 else f"{kind}{place + 1}"
