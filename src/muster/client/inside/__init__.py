"""Ways into a job's tasks: commands, terminals, ports and files."""
