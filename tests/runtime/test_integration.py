"""What integrations with frameworks stand on: weights of losses, orders of samples, a hidden group."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from muster.integration.order import order_of
from muster.integration.process import hide_group
from muster.integration.weights import IGNORED, items_of, kind_of, rows, spread
from muster.runtime.errors import BadTrainingError
from muster.runtime.launch.preload import heavy_imports


def tokens(count: int = 6, length: int = 5) -> dict[str, Tensor]:
    """Rows of which different parts count."""
    torch.manual_seed(0)
    labels = torch.randint(4, (count, length))
    for row in range(count):
        labels[row, row % length + 1 :] = IGNORED
    return {"x": torch.randn(count, length, 8), "labels": labels}


def net() -> nn.Module:
    torch.manual_seed(1)
    return nn.Linear(8, 4)


def loss_of(model: nn.Module, batch: dict[str, Any], items: Any, reduction: str) -> Tensor:
    found = cross_entropy(
        model(batch["x"]).flatten(0, 1), batch["labels"].flatten(), reduction=reduction
    )
    return found if items is None or reduction == "mean" else found / items


def test_a_mean_over_labels_is_told_from_a_sum_that_is_divided() -> None:
    model, batch = net(), tokens()
    mean = kind_of(lambda b, n: loss_of(model, b, n, "mean"), batch, shifts=False, takes_items=True)
    assert not mean.divides
    divided = kind_of(
        lambda b, n: loss_of(model, b, n, "sum" if n is not None else "mean"), batch, False, True
    )
    assert divided.divides


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_shares_add_up_to_the_batch(reduction: str) -> None:
    model, batch = net(), tokens()

    def loss(part: dict[str, Any], items: Tensor | None) -> Tensor:
        return loss_of(model, part, items, reduction if items is not None else "mean")

    kind = kind_of(loss, batch, shifts=False, takes_items=reduction == "sum")
    parts = [{k: v[a:b] for k, v in batch.items()} for a, b in ((0, 1), (1, 6))]
    total = sum(kind.total(loss, part) for part in parts) / sum(kind.items(part) for part in parts)
    torch.testing.assert_close(total, loss_of(model, batch, None, "mean"))


def test_a_loss_over_pairs_of_samples_is_refused() -> None:
    def contrastive(batch: dict[str, Any], items: Tensor | None) -> Tensor:
        flat = batch["x"].flatten(1) / 10
        return cross_entropy(flat @ flat.T, torch.arange(len(flat)))

    with pytest.raises(BadTrainingError, match="not a mean over samples or labels"):
        kind_of(contrastive, {"x": tokens()["x"]}, shifts=False, takes_items=False)


def test_what_a_mean_is_over() -> None:
    batch = {"labels": torch.tensor([[1, 2, IGNORED], [3, IGNORED, IGNORED]])}
    assert items_of(batch, shifts=False) == 3
    assert items_of(batch, shifts=True) == 1, "the first label of a row is never predicted"
    assert items_of({"x": torch.ones(5, 2), "labels": torch.ones(5)}, shifts=False) == 5
    assert items_of([torch.ones(4, 2), torch.ones(4)], shifts=False) == rows(torch.ones(4)) == 4


def test_losses_that_are_spread_sum_to_what_they_were() -> None:
    losses = spread(torch.tensor(6.0), torch.ones(3, 2))
    assert losses.shape == (3,)
    assert float(losses.sum()) == 6.0


def test_an_order_is_the_samplers_own() -> None:
    data = TensorDataset(torch.arange(10))
    assert order_of(DataLoader(data, 4))(3).tolist() == list(range(10))
    assert order_of(DataLoader(data, 4, drop_last=True))(0).tolist() == list(range(8))


def test_a_worker_hides_the_group_it_is_in() -> None:
    environ = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "HOME": "/home/ada"}
    hide_group(environ)
    assert environ["RANK"] == "1", "without Muster it is the user's own"
    environ["MUSTER_COORDINATOR"] = "127.0.0.1:1"
    hide_group(environ)
    assert set(environ) == {"HOME", "MUSTER_COORDINATOR"}


def test_what_a_script_imports_is_loaded_before_its_tasks(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\nfrom muster.hf import Trainer\n\ndef f():\n    import peft\n")
    assert heavy_imports(script) == ("transformers.trainer", "transformers.modeling_utils", "peft")
    script.write_text("import torch\nimport muster\n# import transformers\n")
    assert heavy_imports(script) == ()
    assert heavy_imports(tmp_path / "none.py") == ()
