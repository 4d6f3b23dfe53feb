"""fp16: the scale of losses is one for all workers, and an overflow of one is an overflow of all."""

from typing import Any

from accelerate.optimizer import AcceleratedOptimizer, patch_optimizer_step

from muster.runtime.user.session import Session


def share_scaler(session: Session, accelerator: Any) -> None:
    """Let the runtime keep accelerate's scaler, if there is one, and guard its updates."""
    if accelerator.scaler is None:
        return
    session.keep(scaler=accelerator.scaler)
    for optimizer in accelerator._optimizers:
        _follow(optimizer)


def _follow(wrapper: AcceleratedOptimizer) -> None:
    """Step by the optimiser's guarded method: accelerate has kept the one from before."""
    wrapper._optimizer_original_step_method = wrapper.optimizer.step
    wrapper._optimizer_patched_step_method = patch_optimizer_step(wrapper, wrapper.optimizer.step)
