"""What the system, the GPU and other processes offer to the profiler."""
