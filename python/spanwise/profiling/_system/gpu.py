"""What a GPU says, where there is one: memory from Torch, utilization from NVML.

Torch is asked for its raw statistics, several times cheaper than its own functions. NVML is
asked by a thread of its own, since its figures are averages over a while anyway.
"""

from __future__ import annotations

import sys
import threading
from typing import Any, Optional

from ... import _native

_sampler: list = [None]
MEBIBYTE = 1024.0 * 1024.0


def torch_memory() -> Optional[float]:
    """What tensors hold on the current GPU in MiB; none without Torch and CUDA in use."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    try:
        if not torch.cuda.is_initialized():
            return None
        statistics = torch._C._cuda_memoryStats(torch.cuda.current_device())
        return statistics["allocated_bytes"]["all"]["current"] / MEBIBYTE
    except Exception:
        # Other versions of Torch may keep their statistics elsewhere.
        return None


class Nvml:
    """The first GPU, as NVML reports it; an `OSError` if it does not."""

    def __init__(self) -> None:
        # Loaded only here: most programs that profile have no GPU.
        import ctypes

        self._ctypes = ctypes
        self._library = ctypes.CDLL("libnvidia-ml.so.1")
        self._device = ctypes.c_void_p()
        if self._library.nvmlInit_v2() != 0:
            raise OSError("NVML cannot be used")
        if self._library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self._device)) != 0:
            raise OSError("NVML knows no GPU")

    def utilization(self) -> Optional[float]:
        """In percent."""
        # Of the GPU, and of its memory's bus.
        found = (self._ctypes.c_uint * 2)()
        ask = self._library.nvmlDeviceGetUtilizationRates
        has_answer = ask(self._device, self._ctypes.byref(found)) == 0
        return float(found[0]) if has_answer else None

    def memory(self) -> Optional[tuple]:
        """MiB that are used, and that there are."""
        # Total, free, used.
        found = (self._ctypes.c_ulonglong * 3)()
        ask = self._library.nvmlDeviceGetMemoryInfo
        has_answer = ask(self._device, self._ctypes.byref(found)) == 0
        return (found[2] / MEBIBYTE, found[0] / MEBIBYTE) if has_answer else None


class NvmlSampler:
    """Asks NVML for the first GPU's utilization now and then."""

    def __init__(self, interval_s: float) -> None:
        self._nvml = Nvml()
        self.percent: Optional[float] = self._nvml.utilization()
        self._interval_s = max(0.01, interval_s)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="spanwise-nvml", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._interval_s):
            percent = self._nvml.utilization()
            self.percent = self.percent if percent is None else percent

    def stop(self) -> None:
        """Ends the thread."""
        self._stop.set()
        self._thread.join()


def _measure() -> tuple:
    sampler = _sampler[0]
    return torch_memory(), None if sampler is None else sampler.percent


def arrange(is_wanted: bool, profilers: list) -> None:
    """Starts or ends asking, as is wanted."""
    _native.set_gpu_function(_measure if is_wanted else None)
    if is_wanted and _sampler[0] is None:
        interval_s = min(profiler.config.sampling_interval for profiler in profilers)
        try:
            _sampler[0] = NvmlSampler(interval_s)
        except (OSError, AttributeError):
            _sampler[0] = None
    elif not is_wanted and _sampler[0] is not None:
        sampler, _sampler[0] = _sampler[0], None
        sampler.stop()


def forget() -> None:
    """In a forked child: the thread does not exist here."""
    _sampler[0] = None


def memory() -> Optional[float]:
    """For profilers that are asked directly."""
    return torch_memory()


def utilization() -> Optional[float]:
    """The first GPU's utilization in percent, as last seen."""
    sampler: Any = _sampler[0]
    return None if sampler is None else sampler.percent
