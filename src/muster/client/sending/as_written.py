"""YAML as it is written. Apart from the rest: most programs send no file, and YAML loads slowly."""

import yaml

_NULL = "tag:yaml.org,2002:null"

YAMLError = yaml.YAMLError


class _AsWritten(yaml.SafeLoader):
    """Reads every scalar but null as text: `007` and `no` stay as written, and the daemon checks."""


_AsWritten.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in pairs if tag == _NULL]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_yaml(text: str) -> object:
    """Return what the text says, with scalars as text; `YAMLError` if it is not YAML."""
    found: object = yaml.load(text, Loader=_AsWritten)
    return found
