"""Starts PyTorch's profiler when a program imports torch, for `spanwise run --torch`.

Python runs this when it starts, because its folder stands first in PYTHONPATH. It runs the
program's own sitecustomize after that, and does nothing else until torch is imported. What is
recorded goes to the folder that the environment names, when the program ends or somebody asks.
"""

import os
import sys


def _run_own():
    """The start-up file that Python would have run without us."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != here]
    ours = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        # Python wants to find a module of this name behind its import.
        sys.modules.setdefault("sitecustomize", ours)


class _WhenImported:
    """Stands before all finders until torch is looked for."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        # Others may only want to know where it is: this one stays until it is run.
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find and finder is not self else None
            if spec is not None:
                self._watch(spec.loader)
                return spec
        return None

    def _watch(self, loader):
        run = getattr(loader, "exec_module", None)
        if run is None:
            return

        def exec_module(module):
            sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]
            del loader.exec_module
            run(module)
            _Recorder.begin()

        loader.exec_module = exec_module


class _Recorder:
    """PyTorch's profiler in this process."""

    the_one = None

    @classmethod
    def begin(cls):
        try:
            cls.the_one = cls(os.environ["SPANWISE_TORCH"])
        except Exception as error:  # Whatever it is, the program is not to suffer from it.
            _note(f"PyTorch's profiler does not start: {error!r}")

    def __init__(self, folder):
        import atexit
        import threading

        self.pid = os.getpid()
        self.folder = folder
        self.profiler = None
        self.is_starting = False
        self.saved = 0
        self._watch_own_use()
        self._start()
        atexit.register(self.finish)
        os.register_at_fork(after_in_child=self._forget)
        # Only where somebody will: a thread more is one that programs may wonder about.
        if "SPANWISE_TORCH_ASKS" not in os.environ:
            return
        if threading.current_thread() is threading.main_thread():
            self._listen(threading)
        else:
            _note("torch was imported by another thread than the first: no trace before the end")

    def _start(self):
        import torch.profiler

        activities = [
            activity
            for activity in torch.profiler.supported_activities()
            if getattr(activity, "name", "") in ("CPU", "CUDA")
        ]
        profiler = torch.profiler.profile(activities=activities, **self._all_threads())
        self.profiler, self.is_starting = profiler, True
        try:
            profiler.start()
        except BaseException:
            self.profiler = None
            raise
        finally:
            self.is_starting = False

    @staticmethod
    def _all_threads():
        """Where PyTorch can: operations of threads that were not made by operations."""
        try:
            from torch._C._profiler import _ExperimentalConfig

            return {"experimental_config": _ExperimentalConfig(profile_all_threads=True)}
        except Exception:
            return {}

    def _watch_own_use(self):
        """There can be one profiler; that of the program comes first."""
        from torch.autograd import profiler

        for name in ("_prepare_trace", "__enter__"):
            real = getattr(profiler.profile, name, None)
            if real is not None:
                setattr(profiler.profile, name, self._stepping_aside(real))

    def _stepping_aside(self, real):
        import functools

        @functools.wraps(real)
        def call(its, *args, **kwargs):
            if self.profiler is not None and not self.is_starting:
                self.finish()
                _note("the program uses PyTorch's profiler itself: from there on it is alone")
            return real(its, *args, **kwargs)

        return call

    def finish(self):
        """What was recorded, to its folder; nothing more is recorded."""
        profiler, self.profiler = self.profiler, None
        if profiler is not None and self.pid == os.getpid():
            try:
                profiler.stop()
                self._export(profiler)
            except Exception as error:
                _note(f"PyTorch's trace cannot be written: {error!r}")

    def _export(self, profiler):
        # In the folder of the recording, where there is one already. Held open: the recorder may
        # end meanwhile, and others may put something else in its place.
        try:
            place = os.open(os.path.join(self.folder, "out"), os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            place = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self.saved += 1
            name = f"torch-{self.pid}-{self.saved}.json"
            # The ending says what it is, to PyTorch as well.
            part = f".{name}.part.json"
            profiler.export_chrome_trace(f"/proc/self/fd/{place}/{part}")
            os.rename(part, name, src_dir_fd=place, dst_dir_fd=place)
        finally:
            os.close(place)

    def _forget(self):
        """A process that was forked has nothing to do with it."""
        self.profiler = None

    def _listen(self, threading):
        """A line in this pipe asks for what was recorded up to now."""
        import ctypes

        pipe = os.path.join(self.folder, f"ask-{self.pid}")
        os.mkfifo(pipe, 0o600)

        @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
        def save(_):
            if self.profiler is not None:
                self.finish()
                try:
                    self._start()
                except Exception as error:
                    _note(f"PyTorch's profiler does not start again: {error!r}")
            return 0

        def wait():
            while self.pid == os.getpid():
                try:
                    with open(pipe) as lines:
                        asked = lines.read()
                except OSError:
                    return
                # Its profiler is that of the thread that started it: the first.
                if asked:
                    ctypes.pythonapi.Py_AddPendingCall(save, None)

        self.kept = save
        threading.Thread(target=wait, name="spanwise", daemon=True).start()


def _note(text):
    """For whoever records, not for whoever reads what the program prints."""
    try:
        with open(os.path.join(os.environ["SPANWISE_TORCH"], "notes"), "a") as notes:
            notes.write(text.replace("\n", " ") + "\n")
    except OSError:
        pass


if "SPANWISE_TORCH" in os.environ:
    sys.meta_path.insert(0, _WhenImported())
_run_own()
