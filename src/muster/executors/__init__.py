"""Who runs tasks: processes of this machine; other engines to come."""
