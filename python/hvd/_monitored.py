"""A barrier that says which members did not come: monitored_barrier of torch.distributed."""
import time
from typing import Any, List, Optional

import torch

import hvd
from hvd import _flight
from hvd._job import expect_no_others


class _Words:
    """The messages between member 0, which leads, and the others, in host memory."""

    def __init__(self, group: Any, tag: int):
        self._group, self._tag = group, tag

    def say(self, member: int, word: Optional[torch.Tensor] = None) -> None:
        """It is small, so it is on its way at once, also to a member that never comes."""
        word = torch.empty(0) if word is None else word
        hvd.send_async(word, self._group.global_rank(member), self._tag, self._group.number)

    def hear(self, member: int, word: Optional[torch.Tensor] = None) -> _flight.Handle:
        word = torch.empty(0) if word is None else word
        rank = self._group.global_rank(member)
        return hvd.recv_async(word, rank, self._tag, self._group.number)


def _is_heard(handle: _flight.Handle, seconds: float) -> bool:
    """Is that word there within so many seconds? If not, this rank's end does not wait for it."""
    if not handle.wait_for(seconds):
        expect_no_others(handle)
        return False
    handle.wait()
    return True


def _lead(words: _Words, size: int, seconds: float) -> List[int]:
    others = range(1, size)
    answers = [words.hear(member) for member in others]
    for member in others:
        words.say(member)
    end = time.monotonic() + seconds
    missing = [
        member
        for member, answer in zip(others, answers)
        if not _is_heard(answer, max(0.0, end - time.monotonic()))
    ]
    verdict = torch.zeros(size, dtype=torch.uint8)
    verdict[missing] = 1
    for member in others:  # one that comes too late learns at once that it did
        words.say(member, verdict)
    return missing


def _follow(words: _Words, size: int, seconds: float) -> List[int]:
    """It answers only while it waits: so member 0 takes none for present that has given up."""
    if not _is_heard(words.hear(0), seconds):
        return [0]
    words.say(0)
    verdict = torch.zeros(size, dtype=torch.uint8)
    # member 0 has come, perhaps just now, and waits as long for the others
    if not _is_heard(words.hear(0, verdict), 2 * seconds):
        return [0]
    return verdict.nonzero().flatten().tolist()


def missing_members(group: Any, tag: int, seconds: float) -> List[int]:
    """The members that did not come within so many seconds; each member gets the same answer, if
    member 0 has come."""
    meet = _lead if group.rank() == 0 else _follow
    return meet(_Words(group, tag), group.size(), seconds)
