"""Between a coordinator and the tasks of a job."""
