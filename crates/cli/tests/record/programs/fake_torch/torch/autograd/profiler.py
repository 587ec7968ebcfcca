"""The profiler below the one that programs use: there is one at a time."""

running = None


class profile:
    def __init__(self):
        self.events = []

    def _prepare_trace(self):
        global running
        if running is not None:
            raise RuntimeError("Profiler is already enabled on this thread")
        running = self

    def __enter__(self):
        self._prepare_trace()
        return self

    def __exit__(self, *_):
        global running
        running = None
