"""The cycle in a process of its own, for long queues."""
