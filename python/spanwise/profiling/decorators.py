"""Decorators: functions, methods, classes, conditions, coroutines."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Optional

from .. import _native
from ._core.wrap import FunctionSpec, wrap
from .config import ProfilerLevel

# Where no component is given, names of modules and classes are searched for these: a convention of
# the programs that this interface was made for, documented in docs/reference/python/profiling.md.
COMPONENTS_BY_MODULE = ("evolution", "metrics", "training", "network")
COMPONENTS_BY_CLASS = (
    ("Evolution", "evolution"),
    ("Metrics", "metrics"),
    ("Train", "training"),
    ("Network", "network"),
)


def _component_of_module(module: Optional[str]) -> str:
    parts = (module or "").split(".")
    return next((part for part in COMPONENTS_BY_MODULE if part in parts), "general")


def _component_of_class(name: str, module: Optional[str]) -> str:
    found = (component for part, component in COMPONENTS_BY_CLASS if part in name)
    return next(found, _component_of_module(module))


def _finish(made: Any, function: Any, config: dict) -> Any:
    made._profiled = True
    made._profile_config = config
    made.__wrapped__ = function
    return made


def _config(wanted: FunctionSpec, **more: Any) -> dict:
    return {
        "operation_name": wanted.name,
        "component": wanted.component,
        "profiler_names": wanted.profiler_names and list(wanted.profiler_names),
        "tags": list(wanted.tags),
        "level": ProfilerLevel(wanted.level),
        **more,
    }


def _outcome(row: dict) -> dict:
    metrics = {"success": not row["has_failed"]}
    if row["has_failed"]:
        metrics["exception_type"] = row["exception"]
    metrics["execution_time"] = row["duration"]
    return metrics


def _function_metrics(name: str, module: Optional[str], **more: Any) -> Callable:
    def metrics(row: dict) -> dict:
        return {
            "function_name": name,
            "module": module,
            "args_count": row["args_count"],
            "kwargs_count": row["kwargs_count"],
            **more,
            **_outcome(row),
        }

    return metrics


def _wrapped(function: Any, wanted: FunctionSpec, **more: Any) -> Any:
    return _finish(wrap(function, wanted), function, _config(wanted, **more))


def _inside(decorate: Callable) -> Callable:
    """The same for static and class methods: what they hold is decorated."""

    def decorate_any(function: Any) -> Any:
        if isinstance(function, (staticmethod, classmethod)):
            return type(function)(decorate(function.__func__))
        return decorate(function)

    return decorate_any


def _with_or_without_parentheses(given: Any, decorator_for: Callable) -> Any:
    """What stands first is the operation's name, or what is to be decorated."""
    if callable(given) or isinstance(given, (staticmethod, classmethod)):
        return decorator_for(None)(given)
    return decorator_for(given)


def _names(profiler_names: Any) -> Optional[tuple]:
    return None if profiler_names is None else tuple(profiler_names)


def _level(level: ProfilerLevel) -> int:
    return max(1, level.value)


def profile_function(
    operation_name: Any = None,
    component: Optional[str] = None,
    profiler_names: Any = None,
    tags: Any = None,
    level: ProfilerLevel = ProfilerLevel.BASIC,
) -> Any:
    """Profiles a function: each call is an operation. Generators and coroutines too.

    Works with and without parentheses. Nothing is recorded below the level. Without a component,
    one is taken from the name of the module (`COMPONENTS_BY_MODULE`), or else it is "general".
    """

    def named(given: Any) -> Callable:
        def decorate(function: Any) -> Any:
            module = getattr(function, "__module__", None)
            name = getattr(function, "__name__", type(function).__name__)
            return _wrapped(function, FunctionSpec(
                given or name,
                component or _component_of_module(module),
                tuple(tags or ()),
                _names(profiler_names),
                _level(level),
                _function_metrics(name, module),
            ))

        return _inside(decorate)

    return _with_or_without_parentheses(operation_name, named)


def profile_method(
    operation_name: Any = None,
    component: Optional[str] = None,
    profiler_names: Any = None,
    tags: Any = None,
    level: ProfilerLevel = ProfilerLevel.BASIC,
    include_self_info: bool = True,
) -> Any:
    """Profiles a method: the operation is named after the object's class and the method.

    Without a component, one is taken from the name of the class (`COMPONENTS_BY_CLASS`), or of its
    module, or else it is "general".
    """

    def named(given: Any) -> Callable:
        return _inside(lambda function: _method(
            function, given, component, profiler_names, tags, level, include_self_info
        ))

    return _with_or_without_parentheses(operation_name, named)


def _about_object(instance: Any) -> dict:
    """Metrics of an object: never more than its own dictionary has."""
    attributes = getattr(instance, "__dict__", {})
    metrics: dict = {"self_attributes_count": len(attributes), "has_config": "config" in attributes}
    name = attributes.get("name")
    if isinstance(name, str):
        metrics["object_name"] = name
    return metrics


def _method(
    function: Any, operation_name: Any, component: Any, profiler_names: Any, tags: Any,
    level: ProfilerLevel, include_self_info: bool,
) -> Any:
    module = getattr(function, "__module__", None)
    parts = getattr(function, "__qualname__", function.__name__).split(".")
    class_name = parts[-2] if len(parts) > 1 and parts[-2] != "<locals>" else ""
    name = operation_name or (f"{class_name}.{parts[-1]}" if class_name else parts[-1])

    def metrics(row: dict) -> dict:
        return {
            "class_name": class_name,
            "method_name": function.__name__,
            "args_count": max(0, row["args_count"] - 1),
            "kwargs_count": row["kwargs_count"],
            **_outcome(row),
        }

    def name_of_class(class_: type) -> str:
        return f"{class_.__name__}.{function.__name__}"

    wanted = FunctionSpec(
        name,
        component or _component_of_class(class_name, module),
        tuple(tags or ()),
        _names(profiler_names),
        _level(level),
        metrics,
        None if operation_name else name_of_class,
        _about_object if include_self_info else None,
    )
    return _wrapped(function, wanted, include_self_info=include_self_info)


def profile_component(
    component_name: Any = None,
    profiler_names: Any = None,
    tags: Any = None,
    level: ProfilerLevel = ProfilerLevel.BASIC,
    methods_to_profile: Any = None,
    exclude_methods: Any = None,
) -> Any:
    """Profiles all public methods of a class, static and class methods too."""

    def decorate(class_: Any) -> Any:
        component = component_name or class_.__name__.lower()
        profiled = []
        for name, member in list(vars(class_).items()):
            held = getattr(member, "__func__", member)
            if not inspect.isfunction(held) or is_profiled(held):
                continue
            if name not in methods_to_profile if methods_to_profile else name.startswith("_"):
                continue
            if exclude_methods and name in exclude_methods:
                continue
            if isinstance(member, (staticmethod, classmethod)):
                named = profile_function(
                    f"{class_.__name__}.{name}", component, profiler_names, tags, level
                )
                setattr(class_, name, named(member))
            else:
                method = profile_method(None, component, profiler_names, tags, level)
                setattr(class_, name, method(member))
            profiled.append(name)
        class_._profiled_component = True
        class_._profile_config = {
            "component_name": component,
            "profiler_names": profiler_names,
            "tags": tags,
            "level": level,
            "profiled_methods": profiled,
        }
        return class_

    if inspect.isclass(component_name):
        class_, component_name = component_name, None
        return decorate(class_)
    return decorate


def profile_if_enabled(
    operation_name: Any = None,
    component: Optional[str] = None,
    condition: Optional[Callable] = None,
) -> Any:
    """Profiles calls for which the condition holds; one that fails does not hold."""

    def named(given: Any) -> Callable:
        def decorate(function: Any) -> Any:
            profiled = profile_function(given, component)(function)
            if condition is None:
                return profiled

            @functools.wraps(function)
            def chosen(*args: Any, **kwargs: Any) -> Any:
                try:
                    is_wanted = condition()
                except Exception:
                    is_wanted = False
                return (profiled if is_wanted else function)(*args, **kwargs)

            config = {**profiled._profile_config, "condition": condition}
            return _finish(chosen, function, config)

        return decorate

    return _with_or_without_parentheses(operation_name, named)


def profile_async(
    operation_name: Any = None,
    component: Optional[str] = None,
    profiler_names: Any = None,
    tags: Any = None,
    level: ProfilerLevel = ProfilerLevel.BASIC,
) -> Any:
    """Profiles a coroutine: how long it took, and for how much of that it worked."""

    def named(given: Any) -> Callable:
        return lambda function: _wrapped(function, FunctionSpec(
            given or function.__name__,
            component or "async",
            tuple(tags or ()),
            _names(profiler_names),
            _level(level),
            _function_metrics(function.__name__, function.__module__, is_async=True),
        ))

    return _with_or_without_parentheses(operation_name, named)


def _of_component(component: str) -> Callable:
    def profile(operation_name: Any = None, **more: Any) -> Any:
        return profile_function(operation_name, component=component, **more)

    profile.__name__ = profile.__qualname__ = f"profile_{component}"
    profile.__doc__ = f"Profiles a function of the component {component!r}."
    return profile


profile_evolution = _of_component("evolution")
profile_metrics = _of_component("metrics")
profile_training = _of_component("training")
profile_network = _of_component("network")


def is_profiled(profiled: Any) -> bool:
    """Whether a function or class was decorated."""
    flag = getattr(profiled, "_profiled", False) or getattr(profiled, "_profiled_component", False)
    return bool(flag)


def get_profile_config(profiled: Any) -> Optional[dict]:
    """How a function or class was decorated; none where it was not."""
    return getattr(profiled, "_profile_config", None)


def remove_profiling(profiled: Any) -> Any:
    """What was there before it was decorated."""
    if inspect.isclass(profiled) and vars(profiled).get("_profiled_component"):
        return _without_component(profiled)
    return getattr(profiled, "__wrapped__", profiled) if is_profiled(profiled) else profiled


def _without_component(class_: Any) -> Any:
    for name in class_._profile_config["profiled_methods"]:
        member = vars(class_)[name]
        if isinstance(member, (staticmethod, classmethod)):
            held: Any = member.__func__
            setattr(class_, name, type(member)(held.__wrapped__))
        else:
            setattr(class_, name, member.__wrapped__)
    del class_._profiled_component, class_._profile_config
    return class_


ProfiledFunction = _native.ProfiledFunction
