"""Prints the reference of the Python package, from its docstrings: python3 python/make_reference.py
>python/REFERENCE.md"""
import enum
import inspect
import re
from typing import Any, Iterator, List

import hvd
import hvd.elastic
import hvd.errors
import hvd.launch

HEAD = """# The Python package hvd: reference

Made by `python/make_reference.py` from the docstrings; hvd(3) explains what holds for all calls,
and README.md shows the package at work.
"""

# modules whose classes are listed with their methods
WITH_METHODS = (
    "hvd._flight",
    "hvd._job",
    "hvd.elastic",
    "hvd.launch",
    "hvd.torch.elastic.constant_batch",
    "hvd.torch.elastic.sampler",
    "hvd.torch.elastic.state",
)


def signature(thing: Any) -> str:
    """The signature of a call, without types."""
    if isinstance(thing, enum.EnumMeta):  # Pythons differ in how they describe its call
        return "(%s)" % " | ".join(thing.__members__)
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return ""
    words = []
    for each in parameters:
        word = str(each.replace(annotation=inspect.Parameter.empty))
        word = re.sub(r"<class '[\w.]*\.(\w+)'>|<\w+\.(\w+): \d+>", r"\1\2", word)
        word = re.sub(r"=ProcessSet\(process_set_id=0, .*\)", "=global_process_set", word)
        words.append(word)
    return "(%s)" % ", ".join(words)


def entry(name: str, thing: Any) -> Iterator[str]:
    text = inspect.cleandoc(thing.__doc__ or "").strip()
    yield "\n`%s%s`" % (name, signature(thing))
    if text:
        yield "\n" + "\n".join(("> " + line).rstrip() for line in text.split("\n"))


def section(module: Any, names: List[str]) -> Iterator[str]:
    yield "\n## %s\n" % module.__name__
    yield inspect.cleandoc(module.__doc__ or "")
    for name in sorted(names, key=str.lower):
        thing = getattr(module, name)
        if inspect.isfunction(thing) or inspect.isclass(thing):
            yield from entry("%s.%s" % (module.__name__, name), thing)
        if inspect.isclass(thing) and thing.__module__ in WITH_METHODS:
            for method, function in sorted(vars(thing).items()):
                if inspect.isfunction(function) and function.__doc__ and method[0] != "_":
                    yield from entry("%s.%s.%s" % (module.__name__, name, method), function)


def public(module: Any) -> List[str]:
    return [
        name
        for name, thing in vars(module).items()
        if not name.startswith("_")
        and (inspect.isfunction(thing) or inspect.isclass(thing))
        and thing.__module__.startswith("hvd")
    ]


def reference() -> str:
    import hvd.distributed
    import hvd.torch
    import hvd.torch.elastic as torch_elastic

    own = [name for name in torch_elastic.__all__ if name not in hvd.elastic.__all__]
    lines = [HEAD]
    lines += section(hvd, public(hvd))
    lines += section(hvd.torch, public(hvd.torch))
    lines += section(hvd.elastic, hvd.elastic.__all__)
    lines += section(torch_elastic, own)
    lines += section(hvd.distributed, ["buckets_in_window", "reform"])
    lines += section(hvd.errors, ["behind"])
    lines += section(hvd.launch, public(hvd.launch))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(reference(), end="")
