"""
The worker's handle on one page process: start it, hand it a batch, take the results, and end it at a limit.

Nothing here waits without a limit: writing, reading and starting all end at a deadline, and a silent child is looked
at every 50 ms: its resident size, and the processor time it has used since its last sign of life. The time limit is one
of processor time, so that a busy machine, or a worker that was stopped and goes on, condemns no innocent page; only a
child that is silent for three times as long on the clock is lost without having worked.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from worker.core.extract import PageLimits
from worker.shell.page_protocol import FRAME_HEADER, Frame, PageRead, batch_frame, decode_results

__all__ = ["COMMAND", "PageProcess", "ProcessDiedError"]

COMMAND = (sys.executable, "-P", "-X", "faulthandler", "-m", "worker.shell.page_child")
START_TIMEOUT_S = 180.0  # the first start on a machine compiles the kernels
_SLICE_S = 0.05
_ASLEEP_FACTOR = 3
_STDERR_BYTES_MAX = 4_096
_PIPE_BYTES = 1 << 20
_PIECES_MAX = 512  # systems take 1,024 in one call
_RESULTS_BYTES_MAX = 64 << 20
_OUT_OF_MEMORY = (b"memory allocation of", b"MemoryError", b"bad_alloc", b"out of memory")


class ProcessDiedError(Exception):
    """The child is gone. `code` is what its last page is guilty of: "extractor-crashed", "-timeout" or "-memory"."""

    def __init__(self, code: str, text: str) -> None:
        self.code = code
        super().__init__(text)


class _Silence(NamedTuple):
    """When the child was heard last, and the processor time it had used by then."""

    since_s: float
    processor_s: float


class PageProcess:
    """
    One child. Use it from one thread, and let that thread live as long as the child: Linux kills the child with it.

    Args:
        greeting: the HELLO frame.
        stop: set it from any thread, and every wait here ends within 50 ms.
        command: what to run; it must speak page_protocol.
    """

    def __init__(
        self, greeting: bytes, limits: PageLimits, stop: threading.Event, command: Sequence[str] = COMMAND
    ) -> None:
        self._limits = limits
        self._stop = stop
        self._stderr = b""
        self._input = bytearray()
        self._idle_bytes = 0
        self._silence = _Silence(0.0, 0.0)
        self._process = subprocess.Popen(  # noqa: S603  # our own module, no shell
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, process_group=0
        )
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._stdin, self._stdout, self._stderr_fd = (
            stream.fileno() for stream in (self._process.stdin, self._process.stdout, self._process.stderr)
        )
        for descriptor in (self._stdin, self._stdout, self._stderr_fd):
            os.set_blocking(descriptor, False)
        _widen_pipe(self._stdin)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._stdout, selectors.EVENT_READ)
        self._selector.register(self._stderr_fd, selectors.EVENT_READ)
        try:
            self._exchange([greeting], Frame.READY, START_TIMEOUT_S)
        except BaseException:
            self.kill()
            raise
        self._idle_bytes = self._resident_bytes()

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    def run(self, messages: Sequence[bytes]) -> list[PageRead]:
        """
        Send a batch of messages and give what came of each.

        Raises:
            ProcessDiedError: it crashed, worked in silence for `page_timeout_s`, or outgrew `memory_mb`; it is gone.
        """
        try:
            answer = self._exchange(batch_frame(messages), Frame.RESULTS, self._limits.page_timeout_s)
            pages = decode_results(answer)
            if len(pages) == len(messages):
                return pages
            problem = f"{len(pages)} results for {len(messages)} documents"
        except ValueError as error:
            problem = str(error)
        self.kill()
        raise ProcessDiedError("extractor-crashed", f"the page process sent nonsense: {problem}")

    def is_bloated(self) -> bool:
        """Say whether it kept more than half of its memory limit from earlier pages: time for a fresh one."""
        return self._resident_bytes() - self._idle_bytes > (self._limits.memory_mb << 19)

    def kill(self) -> None:
        """End it at once; it has nothing to save."""
        self._process.kill()
        self._process.wait()
        self._selector.close()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _exchange(self, request: Sequence[bytes], answer: Frame, silence_s_max: float) -> bytes:
        """Write the pieces of a request while reading; give the payload of the first frame of the kind `answer`."""
        unsent = deque(memoryview(piece) for piece in request)
        self._heard()
        self._selector.register(self._stdin, selectors.EVENT_WRITE)
        writing = True
        try:
            while True:
                ready = self._selector.select(_SLICE_S)
                for key, _ in ready:
                    if key.fd == self._stdin:
                        self._write(unsent)
                        self._silence = self._silence._replace(since_s=time.monotonic())
                    elif key.fd == self._stderr_fd:
                        self._read_stderr()
                    else:
                        self._read_stdout()
                        self._heard()
                if writing and not unsent:
                    self._selector.unregister(self._stdin)
                    writing = False
                while (received := self._take_frame()) is not None:
                    if received[0] is answer:
                        return received[1]
                if not ready or self._stop.is_set():
                    self._check_limits(silence_s_max)
        finally:
            if writing and self._process.returncode is None:
                self._selector.unregister(self._stdin)

    def _check_limits(self, silence_s_max: float) -> None:
        if self._stop.is_set():
            self.kill()
            raise ProcessDiedError("stopped", "the page process was stopped with its pool")
        grown = self._resident_bytes() - self._idle_bytes
        if self._idle_bytes and grown > self._limits.memory_mb << 20:
            self.kill()
            raise ProcessDiedError(
                "extractor-memory", f"the page took {grown >> 20} MiB, the limit is {self._limits.memory_mb} MiB"
            )
        if self._is_out_of_time(silence_s_max):
            self.kill()
            raise ProcessDiedError("extractor-timeout", f"the page took more than the limit of {silence_s_max:g} s")

    def _is_out_of_time(self, silence_s_max: float) -> bool:
        silent_s = time.monotonic() - self._silence.since_s
        if silent_s <= silence_s_max:
            return False
        processor_s = self._processor_s()
        worked_s = silent_s if processor_s is None else processor_s - self._silence.processor_s
        return worked_s > silence_s_max or silent_s > silence_s_max * _ASLEEP_FACTOR

    def _write(self, unsent: deque[memoryview]) -> None:
        """Write what the pipe takes, and take it out of `unsent`."""
        try:
            written = os.writev(self._stdin, list(itertools.islice(unsent, _PIECES_MAX)))
        except BlockingIOError:
            return
        except BrokenPipeError:
            raise self._death() from None
        while unsent and written >= len(unsent[0]):
            written -= len(unsent.popleft())
        if written:
            unsent[0] = unsent[0][written:]

    def _read_stdout(self) -> None:
        data = os.read(self._stdout, _PIPE_BYTES)
        if not data:
            raise self._death()
        self._input += data

    def _read_stderr(self) -> None:
        data = os.read(self._stderr_fd, _PIPE_BYTES)
        if data:
            self._stderr = (self._stderr + data)[-_STDERR_BYTES_MAX:]
        else:
            self._selector.unregister(self._stderr_fd)

    def _take_frame(self) -> tuple[Frame, bytes] | None:
        if len(self._input) < FRAME_HEADER.size:
            return None
        length, kind = FRAME_HEADER.unpack_from(self._input)
        if length > _RESULTS_BYTES_MAX or kind not in Frame.__members__.values():
            raise ValueError(f"a frame of kind {kind} and {length} bytes")
        end = FRAME_HEADER.size + length
        if len(self._input) < end:
            return None
        payload = bytes(self._input[FRAME_HEADER.size : end])
        del self._input[:end]
        return Frame(kind), payload

    def _death(self) -> ProcessDiedError:
        """Say what the child died of: its exit status and the end of its stderr."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=1.0)  # it closed its pipes: it is about to be gone
        with contextlib.suppress(OSError, ValueError):
            self._stderr = (self._stderr + os.read(self._stderr_fd, _PIPE_BYTES))[-_STDERR_BYTES_MAX:]
        self.kill()
        status = self._process.returncode
        how = f"signal {-status} ({signal.strsignal(-status)})" if status < 0 else f"exit code {status}"
        is_memory = any(sign in self._stderr for sign in _OUT_OF_MEMORY)
        said = self._stderr.decode("utf-8", "replace").strip()
        text = f"the page process ended with {how}" + (f": {said[-500:]}" if said else "")
        return ProcessDiedError("extractor-memory" if is_memory else "extractor-crashed", text)

    def _heard(self) -> None:
        """Begin to count from here: the child has given a sign of life."""
        self._silence = _Silence(time.monotonic(), self._processor_s() or 0.0)

    def _processor_s(self) -> float | None:
        """Give the processor time used so far; None where the system does not say."""
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            return None
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _resident_bytes(self) -> int:
        """Give the resident size; 0 where the system does not say."""
        try:
            pages = int(Path(f"/proc/{self._process.pid}/statm").read_bytes().split()[1])
        except (OSError, IndexError):
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE")


def _widen_pipe(descriptor: int) -> None:
    """Let a pipe hold 1 MiB where the system allows it: fewer switches between the processes."""
    if sys.platform == "linux":
        import fcntl  # noqa: PLC0415

        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
