"""A process ends well although a thread of it is in torch's C++."""

import subprocess
import sys

SCRIPT = """
import sys, time
from datetime import timedelta
from torch import distributed
from muster.runtime.comm.awaited import start_awaited

store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)

def meet():
    try:
        store.wait(["nobody comes"], timedelta(seconds=1))
    except RuntimeError:
        pass

class Slow:
    def __del__(self, sleep=time.sleep):
        sleep(2)  # the interpreter is being taken down

sys.modules["kept until the end"] = Slow()
start_awaited(meet, "meeting")
"""


def test_the_end_waits_for_a_thread_that_is_in_torch() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
