"""Makes the wheel of a package of plain Python, for pip: needs neither setuptools nor a network."""
import base64
import hashlib
import os
import re
import zipfile
from typing import Any, Dict, List, Optional, Tuple


def _read_project() -> Dict[str, Dict[str, str]]:
    """The plain values of pyproject.toml, by the names of its tables. Python 3.8 to 3.10 have no
    reader for it."""
    with open("pyproject.toml", encoding="utf-8") as file:
        tables = re.split(r"^\[(.*)\]$", file.read(), flags=re.MULTILINE)
    values = [dict(re.findall(r'^([\w-]+) = "(.*)"$', text, re.MULTILINE)) for text in tables[2::2]]
    return dict(zip(tables[1::2], values))


def _modules() -> List[str]:
    """The files of the packages: every folder here that has an __init__.py."""
    found = []
    for folder, folders, names in os.walk("."):
        inside = folder != "."
        folders[:] = [
            each for each in folders if os.path.exists(os.path.join(folder, each, "__init__.py"))
        ]
        if inside:
            found.extend(os.path.join(folder, name)[2:] for name in names if name.endswith(".py"))
    return sorted(found)


def _metadata(tables: Dict[str, Dict[str, str]]) -> str:
    project = tables["project"]
    lines = ["Metadata-Version: 2.1", "Name: " + project["name"], "Version: " + project["version"]]
    lines.append("Summary: " + project["description"])
    lines.append("Requires-Python: " + project["requires-python"])
    if "tool.hvd" in tables:
        lines.append("Requires-Dist: " + tables["tool.hvd"]["requires-hvd"])
    return "\n".join(lines) + "\n"


def _entry_points(tables: Dict[str, Dict[str, str]]) -> str:
    lines = []
    for name, values in tables.items():
        group = re.sub(r'^project\.(entry-points\."(.*)"|scripts)$', r"\2", name)
        if group != name:
            lines.append("[%s]" % (group or "console_scripts"))
            lines.extend("%s = %s" % pair for pair in values.items())
    return "\n".join(lines) + "\n" if lines else ""


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def _contents(tables: Dict[str, Dict[str, str]], info: str) -> List[Tuple[str, bytes]]:
    contents = []
    for path in _modules():
        with open(path, "rb") as file:
            contents.append((path, file.read()))
    tag = "Wheel-Version: 1.0\nGenerator: hvd\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    contents.append((info + "/METADATA", _metadata(tables).encode()))
    contents.append((info + "/WHEEL", tag.encode()))
    if _entry_points(tables):
        contents.append((info + "/entry_points.txt", _entry_points(tables).encode()))
    return contents


def build_wheel(
    wheel_directory: str, config_settings: Any = None, metadata_directory: Optional[str] = None
) -> str:
    """What pip calls: write the wheel, and return its name."""
    tables = _read_project()
    project = tables["project"]
    stem = "%s-%s" % (project["name"].replace("-", "_"), project["version"])
    info = stem + ".dist-info"
    contents = _contents(tables, info)
    record = ["%s,sha256=%s,%d" % (name, _digest(data), len(data)) for name, data in contents]
    record.append(info + "/RECORD,,")
    contents.append((info + "/RECORD", ("\n".join(record) + "\n").encode()))
    wheel = stem + "-py3-none-any.whl"
    with zipfile.ZipFile(
        os.path.join(wheel_directory, wheel), "w", zipfile.ZIP_DEFLATED
    ) as archive:
        for name, data in contents:
            archive.writestr(name, data)
    return wheel
