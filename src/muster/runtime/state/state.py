"""The state of a training: parameters, optimisers, schedules, position in the data."""

import ctypes
import io
from collections.abc import Iterator
from math import nan
from typing import Any

import torch
from torch import Tensor

from muster.runtime.data.feed import Feed
from muster.runtime.data.samples import Position
from muster.runtime.state.checkpoint import signature_of_all

Packed = dict[str, Any]


class TrainingState:
    """The user's models, optimisers and schedules, read and written as a whole or by tensor.

    Everything has a name: what belongs to the first model or optimiser its own (as in a checkpoint
    of one model), the rest a prefix: "model2:bias", "optimizer2". A tensor that only an optimiser
    knows (a learnt weight of a loss) is named by its place there: "optimizer:1.0".
    """

    def __init__(self, model: Any, optimizer: Any = None, scheduler: Any = None) -> None:
        self.models: list[Any] = []
        self.optimizers: list[Any] = []
        self.schedulers: list[Any] = []
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
        self.phase = 0
        """Applied phases of the step under way; a phase is some sums and the update after them."""
        self.updates = 0
        """Phases applied since the members began, the same on all of them."""
        self.partial = 0.0
        """Sum of the losses of the applied phases of the step under way."""
        self.run, self.owner = 0, ""
        """A number for the run, kept for as long as its owner continues it; 0: none yet."""
        self.add(model, optimizer, scheduler)

    def add(self, model: Any, optimizers: Any = None, schedulers: Any = None) -> None:
        """Add a model, with none, one or a list of optimisers and of schedules."""
        self.models.append(model)
        self.optimizers += as_list(optimizers)
        self.schedulers += as_list(schedulers)
        self.find_trained()

    def find_trained(self) -> None:
        """Find the trained parameters: those that require gradients, in models and optimisers."""
        self._loose = self._find_loose()
        of_models = [
            (f"{prefix}{n}", p) for prefix, m in self._models() for n, p in m.named_parameters()
        ]
        named: dict[int, tuple[str, Any]] = {}
        for name, parameter in (*of_models, *self._loose.items()):
            named.setdefault(id(parameter), (name, parameter))  # a tied one is listed once
        trained = [(name, parameter) for name, parameter in named.values() if parameter.requires_grad]
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

    def whole(self) -> Packed:
        """Return everything for a checkpoint; live tensors, not copies."""
        position = self.position
        return {
            **{_named("model", i): model.state_dict() for i, model in enumerate(self.models)},
            **{_named("optimizer", i): each.state_dict() for i, each in enumerate(self.optimizers)},
            "scheduler": None,
            **{_named("scheduler", i): schedule_of(each) for i, each in enumerate(self.schedulers)},
            "loose": {name: p.detach() for name, p in self._loose.items()},
            "position": [position.epoch, position.cursor, position.step],
            "losses": self.losses,
            "loss": self.loss,
            "epoch_loss": self.epoch_loss,
            "feed": self.feed.value() if self.feed else None,
            "run": [self.run, self.owner],
        }

    def restore(self, whole: Packed) -> None:
        """Restore a checkpoint."""
        for i, model in enumerate(self.models):
            model.load_state_dict(whole[_named("model", i)])
        for i, optimizer in enumerate(self.optimizers):
            optimizer.load_state_dict(whole[_named("optimizer", i)])
        for i, scheduler in enumerate(self.schedulers):
            kept = whole.get(_named("scheduler", i))
            if kept:
                scheduler.load_state_dict(kept)
        self._set_loose(whole.get("loose", {}))  # older checkpoints have none
        self.position = Position(*whole["position"])
        self.losses = float(whole["losses"])
        self.loss = float(whole.get("loss", nan))  # older checkpoints have none
        self.epoch_loss = float(whole.get("epoch_loss", nan))
        if self.feed and whole["feed"] is not None:
            self.feed.restore(whole["feed"], alive=False)
        run, owner = whole.get("run", (0, ""))  # older checkpoints have none
        if owner == self.owner:  # else another's, which this training starts from
            self.run = int(run)

    def signature(self) -> str:
        """Describe what a checkpoint must match."""
        tensors = {f"{x}{name}": t for x, m in self._models() for name, t in m.state_dict().items()}
        return signature_of_all({**tensors, **self._loose}, self.optimizers)

    def tensors_of(self, index: int) -> tuple[Packed, list[Tensor]]:
        """Return one parameter with its optimiser state: a description, and tensors."""
        parameter = self.parameters[index]
        optimizer = self.optimizer_of(parameter)
        kept = optimizer.state.get(parameter, {}) if optimizer is not None else {}
        tensors, plain = [parameter.detach()], {}
        described = []
        for key, value in kept.items():
            if isinstance(value, Tensor):
                described.append([key, list(value.shape), str(value.dtype), value.device.type])
                tensors.append(value.detach())
            else:
                plain[key] = value
        return {"parameter": index, "tensors": described, "plain": plain}, tensors

    def room_for(self, described: Packed) -> list[Tensor]:
        """Return where the tensors of a description are received; replaces the optimiser's state."""
        parameter = self.parameters[described["parameter"]]
        room, kept = [parameter.detach()], dict(described["plain"])
        for key, shape, dtype, device in described["tensors"]:
            # Step counters stay in host memory; the rest goes to this member's device.
            counter = not shape and device == "cpu" and not self._on_device(parameter)
            place = "cpu" if counter else parameter.device
            kept[key] = torch.empty(shape, dtype=getattr(torch, dtype.partition(".")[2]), device=place)
            room.append(kept[key])
        optimizer = self.optimizer_of(parameter)
        if kept:
            optimizer.state[parameter] = kept
        elif optimizer is not None:
            optimizer.state.pop(parameter, None)
        return room

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
                group[key] = tuple(value) if isinstance(group.get(key), tuple) else value

    def extras(self) -> Tensor:
        """Return the rest: buffers, frozen parameters, schedules."""
        trained = {id(p) for p in self.parameters}  # by identity: a tied one has several names
        rest = {
            f"{prefix}{name}": value.detach() if isinstance(value, Tensor) else value
            for prefix, model in self._models()
            for name, value in model.state_dict(keep_vars=True).items()
            if id(value) not in trained
        }
        loose = {name: p.detach() for name, p in self._loose.items() if id(p) not in trained}
        packed = io.BytesIO()
        schedules = [schedule_of(each) for each in self.schedulers]
        torch.save({"rest": rest, "loose": loose, "schedulers": schedules}, packed)
        return torch.frombuffer(packed.getbuffer(), dtype=torch.uint8)

    def set_extras(self, packed: Tensor) -> None:
        """Adopt another member's."""
        read = io.BytesIO(ctypes.string_at(packed.data_ptr(), packed.numel()))
        # The sender's device may not exist here.
        extras = torch.load(read, "cpu", weights_only=True)
        for prefix, model in self._models():
            own = {f"{prefix}{name}": name for name in model.state_dict()}
            given = {own[name]: value for name, value in extras["rest"].items() if name in own}
            model.load_state_dict(given, strict=False)
        self._set_loose(extras["loose"])
        for scheduler, kept in zip(self.schedulers, extras["schedulers"], strict=True):
            scheduler.load_state_dict(kept)

    def _models(self) -> Iterator[tuple[str, Any]]:
        """Return the models with their prefixes."""
        for i, model in enumerate(self.models):
            yield f"{_named('model', i)}:" if i else "", model

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

    def _set_loose(self, given: Packed) -> None:
        with torch.no_grad():
            for name, value in given.items():
                self._loose[name].copy_(value)


def as_list(given: Any) -> list[Any]:
    """Return none, one or several as a list."""
    return list(given) if isinstance(given, list | tuple) else [] if given is None else [given]


def _named(kind: str, place: int) -> str:
    """Name the first of a kind plainly, the second "kind2"."""
    return kind if place == 0 else f"{kind}{place + 1}"


def schedule_of(scheduler: Any) -> Packed:
    """Return a schedule's attributes, without our wrapper of its `step`."""
    return {key: value for key, value in scheduler.state_dict().items() if key != "step"}
