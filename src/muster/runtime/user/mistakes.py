"""What is said of common mistakes."""

NO_END = (
    "when does it end? give ctx.data(..., epochs=...) or steps=..., ctx.epochs(count), "
    "or until=muster.loss < ..."
)
ALL_EPOCHS = (
    "ctx.steps() goes through all epochs by itself, and has. For a loop over epochs write "
    "`for epoch in ctx.epochs():` around `for batch in ctx.steps():`"
)
NO_PHASE = (
    "ctx.backward() was called after ctx.evaluate() or ctx.mean() in one step: call these before the "
    "step's first ctx.backward() or after its last optimizer.step()"
)
