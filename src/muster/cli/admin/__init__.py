"""Commands about nodes, pools, policies and tokens."""
