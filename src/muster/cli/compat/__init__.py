"""Slurm's commands as views of Muster's jobs, for muscle memory and for programs that call them."""
