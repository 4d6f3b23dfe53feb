"""Inside the tasks of a job that was a batch script of Slurm's: the script, and its `srun`."""
