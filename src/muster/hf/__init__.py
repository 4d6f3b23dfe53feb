"""Hugging Face: `from muster.hf import Trainer` in place of `from transformers import Trainer`.

Import it before `TrainingArguments` are made: they would form a fixed group of processes.
"""

from muster.integration.process import hide_group

hide_group()

from muster.hf.trainer import Seq2SeqTrainer, Trainer  # noqa: E402

__all__ = ["Seq2SeqTrainer", "Trainer"]
