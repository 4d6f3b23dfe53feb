"""What is said of common mistakes."""

NO_END = (
    "when does it end? give ctx.data(..., epochs=...) or steps=..., ctx.epochs(count), "
    "or until=muster.loss < ..."
)
TWICE = (
    "wrap() was called twice: a training has one call. For several parts with one optimiser, wrap "
    "nn.ModuleDict({...}) and one optimiser with a parameter group for each; to train something else, "
    "start another process"
)
ALL_EPOCHS = (
    "ctx.steps() goes through all epochs by itself, and has. For a loop over epochs write "
    "`for epoch in ctx.epochs():` around `for batch in ctx.steps():`"
)
