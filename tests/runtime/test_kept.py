"""What is kept, found or refused when a training begins; and what a script resumes by itself."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import ExponentialLR, LinearLR, SequentialLR
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import TensorDataset

import muster
from muster.runtime.errors import BadCheckpointError, BadTrainingError
from muster.runtime.user.kept import OncePerStep


def model_and_optimizer() -> tuple[nn.Module, Any]:
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def session(model: nn.Module, optimizer: Any, steps: int = 6) -> Any:
    ctx = muster.init()
    ctx.wrap(model, optimizer)
    x = torch.randn(16, 3)
    ctx.data(TensorDataset(x, x.sum(1, keepdim=True)), global_batch=4, steps=steps)
    return ctx


def train(ctx: Any, model: nn.Module, optimizer: Any, after: Any = lambda: None) -> None:
    for x, y in ctx.steps():
        optimizer.zero_grad()
        ctx.backward((model(x) - y).square().mean(1))
        optimizer.step()
        after()


class Writer:
    """Has no state."""


def test_what_has_no_state_is_refused() -> None:
    ctx = session(*model_and_optimizer())
    with pytest.raises(BadTrainingError, match=r"keep\(writer=...\): a Writer has no state_dict\(\)"):
        ctx.keep(writer=Writer())
    ctx.keep(ema=nn.Linear(1, 1))
    with pytest.raises(BadTrainingError, match="twice"):
        ctx.keep(ema=nn.Linear(1, 1))


def test_a_schedule_that_nobody_was_told_of_is_found_and_saved(tmp_path: Path) -> None:
    def run(steps: int) -> tuple[Any, float]:
        model, optimizer = model_and_optimizer()
        ctx = session(model, optimizer, steps)
        ctx.checkpoint(str(tmp_path), every=2)
        warm, cool = LinearLR(optimizer, 0.5, total_iters=2), ExponentialLR(optimizer, 0.5)
        schedule = SequentialLR(optimizer, [warm, cool], [2])  # made after wrap
        train(ctx, model, optimizer, schedule.step)
        return ctx, optimizer.param_groups[0]["lr"]

    ctx, rate = run(4)
    assert [type(each).__name__ for each in ctx._state.schedulers] == ["SequentialLR"]
    assert rate == pytest.approx(0.1 * 0.5**2)
    _, rate = run(6)  # from the checkpoint of step 4, with its schedule
    assert rate == pytest.approx(0.1 * 0.5**4)


def test_two_schedules_of_one_optimiser_must_be_named() -> None:
    model, optimizer = model_and_optimizer()
    ctx = session(model, optimizer)
    held = ExponentialLR(optimizer, 0.9), LinearLR(optimizer)
    with pytest.raises(BadTrainingError, match="change one optimiser's rate"):
        train(ctx, model, optimizer)
    assert held


def test_an_average_is_found() -> None:
    model, optimizer = model_and_optimizer()
    ctx, average = session(model, optimizer), AveragedModel(model)
    train(ctx, model, optimizer, lambda: average.update_parameters(model))
    assert ctx._state.kept == {"AveragedModel": average}


def test_what_an_earlier_training_left_behind_is_nobodys() -> None:
    for _ in range(2):
        model, optimizer = model_and_optimizer()
        ctx, average = session(model, optimizer), AveragedModel(model)
        scaler = torch.amp.GradScaler("cpu")
        train(ctx, model, optimizer, lambda scaler=scaler: scaler.is_enabled())
        assert ctx._state.kept == {"AveragedModel": average, "GradScaler": scaler}


def test_a_redone_step_calls_a_schedule_as_often_as_one_run_does() -> None:
    class Engine:
        void = False
        state = type("State", (), {"position": type("Position", (), {"step": 7})})

    gradients = type("Gradients", (), {"engine": Engine(), "runs": 1})()
    guard = OncePerStep(gradients)
    calls: list[str] = []
    guard(calls.append, "a")
    guard(calls.append, "b")
    gradients.runs = 2  # redone
    guard(calls.append, "again a")
    guard(calls.append, "again b")
    guard(calls.append, "c")
    assert calls == ["a", "b", "c"]
    gradients.engine.void = True
    guard(calls.append, "d")
    assert calls == ["a", "b", "c"]


def test_a_schedule_made_after_wrap_leaves_the_optimiser_guarded() -> None:
    model, optimizer = model_and_optimizer()
    ctx = session(model, optimizer)
    schedule = ExponentialLR(optimizer, 0.9)
    for x, y in ctx.steps():
        with pytest.raises(BadTrainingError, match=r"before ctx.backward"):
            optimizer.step()
        ctx.backward((model(x) - y).square().mean(1))
        optimizer.step()
    assert schedule


def test_a_script_that_resumes_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    model, optimizer = model_and_optimizer()
    train(session(model, optimizer), model, optimizer)
    fresh, other = model_and_optimizer()
    other.load_state_dict(optimizer.state_dict())
    ctx = session(fresh, other)
    train(ctx, fresh, other)
    assert "the data starts at sample 0" in capsys.readouterr().err
    again, third = model_and_optimizer()
    ctx = session(again, third, steps=8)
    ctx.start_at(epoch=1, step=1)
    seen = [ctx.step for _ in _trained(ctx, again, third)]
    assert seen[0] == 5  # an epoch has four steps
    assert len(seen) == 3
    assert not capsys.readouterr().err


def _trained(ctx: Any, model: nn.Module, optimizer: Any) -> Any:
    for x, y in ctx.steps():
        yield ctx.step
        optimizer.zero_grad()
        ctx.backward((model(x) - y).square().mean(1))
        optimizer.step()


def test_a_last_checkpoint_that_fails_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, optimizer = model_and_optimizer()
    ctx = session(model, optimizer)
    ctx.checkpoint(str(tmp_path / "here"), every=100)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(ctx.checkpoints.place), "write", full)
    with pytest.raises(BadCheckpointError, match=r"the last checkpoint of step 6 .*No space left"):
        train(ctx, model, optimizer)
