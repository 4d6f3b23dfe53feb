"""Asynchronous training with parameter servers (Optimus' other form): no barrier, no common steps.

Servers hold ranges of the parameters. A worker pulls them, computes the gradient of its mini-batch
(global batch over workers) and pushes it; servers apply it at once. So gradients may be stale (counted
and reported), the result depends on timing, and samples are used at least once per epoch, not exactly
once. With one worker it is plain training. BatchNorm statistics stay local. Workers may join, leave and
die at any time. A lost server loses its part of the parameters: an error names the checkpoint to
continue from.
"""
