"""Slurm's batch scripts as jobs: what their `#SBATCH` lines ask for."""
