"""Convert a trace to pprof in the plain way: `plain_pprof.py TRACE OUT`.

The whole document as dictionaries, then one sample an event that has a duration, with
the event itself as its only frame, in the messages of the protobuf package. This is
what a script of a hundred lines does, and what most such scripts do.
"""

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

# The messages of profile.proto that are needed: field, number, type, "*" if repeated.
MESSAGES = {
    "ValueType": [("type", 1, "int64"), ("unit", 2, "int64")],
    "Sample": [("location_id", 1, "uint64*"), ("value", 2, "int64*")],
    "Line": [("function_id", 1, "uint64")],
    "Location": [("id", 1, "uint64"), ("line", 4, "Line*")],
    "Function": [("id", 1, "uint64"), ("name", 2, "int64"), ("filename", 4, "int64")],
    "Profile": [
        ("sample_type", 1, "ValueType*"),
        ("sample", 2, "Sample*"),
        ("location", 4, "Location*"),
        ("function", 5, "Function*"),
        ("string_table", 6, "string*"),
    ],
}


def profile_class() -> type:
    """The class of the message `Profile`, made without protoc."""
    Field = descriptor_pb2.FieldDescriptorProto
    scalars = {
        "int64": Field.TYPE_INT64,
        "uint64": Field.TYPE_UINT64,
        "string": Field.TYPE_STRING,
    }
    file = descriptor_pb2.FileDescriptorProto(
        name="profile.proto", package="pprof", syntax="proto3"
    )
    for message, fields in MESSAGES.items():
        described = file.message_type.add(name=message)
        for name, number, kind in fields:
            field = described.field.add(name=name, number=number)
            is_repeated = kind.endswith("*")
            kind = kind.removesuffix("*")
            field.label = Field.LABEL_REPEATED if is_repeated else Field.LABEL_OPTIONAL
            if kind in scalars:
                field.type = scalars[kind]
            else:
                field.type = Field.TYPE_MESSAGE
                field.type_name = f".pprof.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    described = pool.FindMessageTypeByName("pprof.Profile")
    return message_factory.GetMessageClass(described)


def convert(trace_path: str, out_path: str, Profile: type) -> int:
    """Write the profile; return how many samples it has."""
    with Path(trace_path).open() as file:
        trace = json.load(file)
    profile = Profile()
    strings = {"": 0}
    functions: dict[tuple[str, str], int] = {}

    def string(text: str) -> int:
        return strings.setdefault(text, len(strings))

    profile.sample_type.add(type=string("cpu"), unit=string("nanoseconds"))
    for event in trace["traceEvents"]:
        if "dur" not in event:
            continue
        key = (event["name"], event.get("cat", ""))
        function = functions.get(key)
        if function is None:
            function = functions[key] = len(functions) + 1
            name, filename = string(key[0]), string(key[1])
            profile.function.add(id=function, name=name, filename=filename)
        location = profile.location.add(id=len(profile.location) + 1)
        location.line.add(function_id=function)
        value = int(event["dur"] * 1000)
        profile.sample.add(location_id=[location.id], value=[value])
    profile.string_table.extend(strings)
    Path(out_path).write_bytes(profile.SerializeToString())
    return len(profile.sample)


def main() -> None:
    Profile = profile_class()
    start = time.perf_counter()
    samples = convert(sys.argv[1], sys.argv[2], Profile)
    load_s = time.perf_counter() - start
    result = {
        "load_s": load_s,
        "version": version("protobuf"),
        "read": f"{samples:,} samples of one frame",
    }
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
