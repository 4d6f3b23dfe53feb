"""`muster check --offer`: what a node that joins would count as."""

import json
import sys
from pathlib import Path

from muster.executors.transit import offer_of
from muster.files.cluster.classify import Classifier
from muster.files.errors import InputError
from muster.model.offer import NodeOffer
from muster.wire.tasks.codec import BadMessageError

STDIN = Path("-")
MAX_BYTES = 1_000_000


def classified(classifier: Classifier, offer: NodeOffer) -> str:
    """Return what a node would count as, on one line; OfferError if it would be refused."""
    node, kind = classifier.classify(offer)
    devices = f"{kind.devices} {kind.device_type}" if kind.devices else "no devices"
    return (
        f"{node.name}: {kind.name} ({devices}, {kind.millicores / 1000:g} cores, "
        f"{kind.memory / 1e9:,.0f} GB), rack {node.rack}, domain {node.domain}: "
        f"{classifier.reason(offer)}"
    )


def read_offer_file(path: Path) -> NodeOffer:
    """Read what `muster agent --describe` printed; `-` is standard input."""
    name = "standard input" if path == STDIN else str(path)
    try:
        raw = sys.stdin.read(MAX_BYTES) if path == STDIN else path.read_text("utf-8")[:MAX_BYTES]
        record = json.loads(raw)
        if not isinstance(record, dict):
            raise BadMessageError("it is not a JSON object")
        return offer_of(record)
    except FileNotFoundError:
        raise InputError.at(name, "does not exist") from None
    except OSError as error:
        raise InputError.at(name, f"cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        why = error if isinstance(error, BadMessageError) else "it is not JSON"
        problem = f"is not an offer: {why}; write one with muster agent --describe"
        raise InputError.at(name, problem) from None
