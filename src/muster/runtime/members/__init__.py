"""Who is a member, and how that changes."""
