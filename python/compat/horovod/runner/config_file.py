"""horovodrun's --config-file: YAML whose keys are the options by another name."""
from typing import Any, Dict, List

# what stands before a section's keys in the names of options
SECTIONS: Dict[str, str] = {
    "params": "",
    "autotune": "autotune-",
    "timeline": "timeline-",
    "stall-check": "stall-check-",
    "library-options": "",
    "logging": "log-",
}


class Unreadable(Exception):
    """The file cannot be used; the text says why."""


def _load(path: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise Unreadable("reading it needs PyYAML (Debian: python3-yaml)") from None
    try:
        with open(path) as file:
            return yaml.safe_load(file)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise Unreadable(" ".join(str(error).split())) from None


def _option(section: str, key: str, value: Any) -> List[str]:
    """The words of one key."""
    name = (SECTIONS[section] + key) if key != "enabled" else section
    if value is True:
        return ["--" + name]
    if value is False:
        return ["--no-" + name]
    if isinstance(value, (dict, list)) or value is None:
        raise Unreadable("%s: %s: expected a number, a word, true or false" % (section, key))
    return ["--%s=%s" % (name, value)]


def words_of(path: str) -> List[str]:
    """The options that a file gives, as words of a command line."""
    content = _load(path)
    if not isinstance(content, dict):
        raise Unreadable("expected sections: %s" % ", ".join(SECTIONS))
    words: List[str] = []
    for title, keys in content.items():
        section = str(title).replace("_", "-")
        if section == "controller":
            words.append("--" + str(keys))
        elif section not in SECTIONS or not isinstance(keys, dict):
            raise Unreadable(
                "%s: expected a section with keys: one of %s" % (title, ", ".join(SECTIONS))
            )
        else:
            for key, value in keys.items():
                words += _option(section, str(key).replace("_", "-"), value)
    return words
