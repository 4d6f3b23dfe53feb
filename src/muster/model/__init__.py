"""The nouns, as frozen values: cluster, jobs, pools, events, views."""
