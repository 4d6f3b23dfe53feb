"""The line that says why a program failed, out of the end of its log."""

import pytest

from muster.daemon.gang.last_words import last_words

CHAINED = """step 7
Traceback (most recent call last):
  File "train.py", line 2, in f
    1/0
    ~^~
ZeroDivisionError: division by zero

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "train.py", line 5, in <module>
    f()
ValueError: no such file: /data
in the second line of its message
"""
TORCHRUN = """[rank1]: Traceback (most recent call last):
[rank1]:   File "ddp.py", line 9, in <module>
[rank1]:     main()
[rank1]: RuntimeError: CUDA out of memory. Tried to allocate 2 GiB
W1116 02:26:23.1 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 7 SIGTERM
E1116 02:26:23.1 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1)
Traceback (most recent call last):
  File "torchrun", line 8, in <module>
    sys.exit(main())
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
ddp.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-16_02:26:23
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 312)
  error_file: <N/A>
============================================================
"""
WRAPPED = TORCHRUN[TORCHRUN.index("W1116") :].replace("exitcode  : 1", "exitcode  : -9")
NATIVE = """terminate called after throwing an instance of 'c10::Error'
  what():  CUDA driver error: unknown error
Exception raised from query at CUDAEvent.cpp:49
"""


@pytest.mark.parametrize(
    ("tail", "found"),
    [
        (CHAINED, "ValueError: no such file: /data"),
        (TORCHRUN, "RuntimeError: CUDA out of memory. Tried to allocate 2 GiB"),
        (WRAPPED, "a process of torchrun failed, exit code -9 (pid: 312)"),
        (NATIVE, "c10::Error: CUDA driver error: unknown error"),
        ("Fatal Python error: Segmentation fault\n\nThread 0x1:\n  File x\n",
         "Fatal Python error: Segmentation fault"),
        ("Traceback (most recent call last):\n  File x\nKeyboardInterrupt\n", "KeyboardInterrupt"),
        ("sh: 1: pythn: not found\n\n", "sh: 1: pythn: not found"),
        ("Traceback (most recent call last):", "Traceback (most recent call last):"),
        ("", ""),
    ],
)  # fmt: skip
def test_what_a_log_says_of_the_failure(tail: str, found: str) -> None:
    assert last_words(tail) == found
