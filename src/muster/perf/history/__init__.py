"""What jobs have shown: links, neighbours, and steps against their predictions."""
