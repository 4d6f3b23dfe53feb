"""Starting the tasks of a job on this node and coordinating them, without a daemon."""
