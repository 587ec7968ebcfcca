#!/usr/bin/env python3
"""Profiling, from one function to a whole training run: each part is a function below.

    python profiling_system_example.py [FOLDER]

Writes its sessions into the folder (`profiling_example`); then, for any of them:

    spanwise report profiling_example/basic.spanwise-session
"""

import asyncio
import sys
import time

from spanwise.profiling import (
    EvolutionProfiler,
    OperationProfiler,
    ProfilerConfig,
    ProfilerLevel,
    ProfilerManager,
    create_comprehensive_profiler,
    create_evolution_focused_profiler,
    create_lightweight_profiler,
    create_standard_profiler,
    profile_async,
    profile_component,
    profile_function,
    profile_method,
    profile_operation,
    profile_training,
)


class Network:
    """Layers of some widths, in place of a real one."""

    def __init__(self, widths):
        self.widths = widths

    def parameters(self):
        return [Weights(above * below) for above, below in zip(self.widths, self.widths[1:])]


class Weights:
    def __init__(self, count):
        self.count = count

    def numel(self):
        return self.count


@profile_function(component="data", tags=["loading"])
def load_batch(size):
    return [number * 0.5 for number in range(size)]


@profile_component(component_name="network")
class Model:
    def forward(self, batch):
        return sum(value * value for value in batch)

    def backward(self, loss):
        return loss / 2


class Trainer:
    def __init__(self):
        self.model = Model()

    @profile_method(component="training")
    def train_step(self, size):
        return self.model.backward(self.model.forward(load_batch(size)))


@profile_async(component="network")
async def fetch(number):
    await asyncio.sleep(0.001)
    return number


def basic(folder):
    """Functions, methods, classes, coroutines and blocks."""
    profiler = create_standard_profiler(output_dir=folder)
    profiler.start_session("basic")
    trainer = Trainer()
    for _ in range(20):
        trainer.train_step(2_000)
    with profile_operation("checkpoint", "io") as operation:
        operation.add_metric("bytes", 4096)
    asyncio.run(fetch(1))
    profiler.end_session()
    print(profiler.get_performance_report())


def evolution(folder):
    """Which strategy helped, and which analyzer is worth its time."""
    profiler = create_evolution_focused_profiler(output_dir=folder)
    profiler.start_session("evolution")
    tracked: EvolutionProfiler = profiler.get_profiler("evolution_profiler")
    network = Network([784, 128, 10])
    for strategy, width, gain in (("wider", 160, 0.03), ("deeper", 128, 0.05), ("wider", 192, 0.01)):
        grown = Network([784, width, *([64] if strategy == "deeper" else []), 10])
        tracked.track_growth_event(strategy, "add_layer", network, grown, gain)
        tracked.track_architecture_change(network.widths, grown.widths, "growth", strategy)
        tracked.track_analyzer_execution("extrema", 0.01, {"dead": 3}, width * 784)
        network = grown
    profiler.end_session()
    for row in tracked.get_strategy_ranking():
        print(f"{row['strategy_name']}: {row['average_improvement']:+.3f} on average")
    print("cheapest analyzer:", tracked.get_analyzer_efficiency_report()["most_efficient"])


@profile_training("epoch")
def epoch(trainer):
    for _ in range(5):
        trainer.train_step(1_000)


def training(folder):
    """Epochs, watched while they run."""
    profiler = create_lightweight_profiler(output_dir=folder)
    profiler.start_session("training")
    trainer = Trainer()
    for number in range(3):
        epoch(trainer)
        busiest = profiler.live()["operations"][0]
        print(f"epoch {number}: {busiest['name']} {busiest['new_count']} times")
    profiler.end_session()


def comprehensive(folder):
    """All that can be measured, with a logger of W&B's sort."""

    class Run:
        def log(self, metrics):
            print(f"logged {len(metrics)} figures")

    profiler = create_comprehensive_profiler(output_dir=folder)
    profiler.integrate_with_wandb(Run())
    profiler.start_session("comprehensive")
    operation_id = profiler.start_operation("preparation", "data")
    rows = load_batch(50_000)
    profiler.end_operation(operation_id, rows=len(rows))
    session = profiler.end_session(save_results=True)
    (row,) = profiler.get_profiler("evolution_profiler").get_metrics(operation_name="preparation")
    print("memory gained:", row["custom_metrics"]["memory_delta"], "MiB")
    print("session took", round(session["session_duration"], 3), "s")


def comparison(folder):
    """What each level costs, by its own account and by the clock."""
    for level in ProfilerLevel:
        config = ProfilerConfig(level=level, output_dir=folder, adaptive_sampling=False)
        manager = ProfilerManager(config)
        manager.register_profiler(OperationProfiler("all", config))
        manager.start_session(f"level_{level.name.lower()}")
        began = time.perf_counter()
        for _ in range(200):
            load_batch(1_000)
        seconds = time.perf_counter() - began
        manager.end_session(save_results=False)
        summary = manager.get_profiler("all").get_summary_stats()
        cost = summary.get("overhead_percentage", 0.0)
        print(f"{level.name:13} {seconds * 1e6 / 200:8.1f} us a call, profiling {cost:.2f} % of it")


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "profiling_example"
    for part in (basic, evolution, training, comprehensive, comparison):
        print(f"\n== {part.__name__}: {part.__doc__.strip()}")
        part(folder)


if __name__ == "__main__":
    main()
