"""Configs as people write them: presets and YAML files, overrides `a.b=c`, and errors of one line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from tfdiff.errors import ConfigError
from tfdiff.pipelines.config import Config, EdgeUNet, UNet

_PRESETS = Path(__file__).parent / "presets"
_NETWORKS: dict[str, type[BaseModel]] = {"edge_unet": EdgeUNet, "unet": UNet}


def preset_names() -> list[str]:
    """The presets that come with tfdiff."""
    return sorted(path.stem for path in _PRESETS.glob("*.yaml"))


def load_config(source: str | Path, overrides: Mapping[str, Any] | None = None) -> Config:
    """The config that `source` means, with some keys replaced.

    Args:
        source: name of a preset, path of a YAML file, or a run directory (its config.yaml).
        overrides: dotted key → value, such as {"train.steps": 200}. Another `network.type` drops the settings of
            the old type.

    Raises:
        ConfigError: naming the key, what was found and what to do.
    """
    path = _find(source)
    values = _read(path)
    values.setdefault("name", path.stem)
    for key, value in (overrides or {}).items():
        _replace(values, key, value)
    _check_colons(values, "")
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        text = "; ".join(_line(problem, values) for problem in error.errors())
        raise ConfigError(text if text.endswith("?") else f"{text}.") from None


def parse_overrides(settings: Iterable[str]) -> dict[str, Any]:
    """`["train.steps=200"]` → {"train.steps": 200}; values are YAML.

    Raises:
        ConfigError: for a setting without `=` or with a value that is not YAML.
    """
    overrides = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals or not key:
            raise ConfigError(f"--set {setting!r}: write key=value, such as train.steps=200.")
        try:
            overrides[key.strip()] = yaml.safe_load(text)
        except yaml.YAMLError:
            raise ConfigError(f"--set {setting!r}: the value is not YAML; quote it.") from None
    return overrides


def dump(config: Config) -> str:
    """The resolved config as YAML that `load_config` reads back to an equal one."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, default_flow_style=None, width=110)


def known_keys(network: str = "edge_unet") -> list[str]:
    """Every dotted key of a config with that type of network."""
    return list(_keys(Config, "", _NETWORKS.get(network, EdgeUNet)))


def _find(source: str | Path) -> Path:
    if str(source) in preset_names():
        return _PRESETS / f"{source}.yaml"
    path = Path(source)
    if path.is_dir():
        path /= "config.yaml"
    if not path.is_file():
        raise ConfigError(
            f"no config {str(source)!r}: give a preset ({', '.join(preset_names())}), the path of a YAML file or a run "
            "directory."
        )
    return path


def _read(path: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not YAML: {' '.join(str(error).split())}.") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path} holds {type(values).__name__}, not the sections of a config.")
    return values


def _replace(values: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key inside nested mappings."""
    if key == "network.type" and values.get("network", {}).get("type") != value:
        values["network"] = {}
    *sections, last = key.split(".")
    for depth, section in enumerate(sections):
        if values.get(section) is None:
            values[section] = {}
        values = values[section]
        if not isinstance(values, dict):
            raise ConfigError(
                f"unknown key {key!r}: {'.'.join(sections[: depth + 1])} is {values!r}, which has no keys."
            )
    values[last] = value


def _check_colons(values: Mapping[str, Any], prefix: str) -> None:
    """Refuse `{a:1}`: without a space, YAML takes it for a key "a:1" that has no value."""
    for key, value in values.items():
        name, colon, rest = str(key).partition(":")
        if colon and value is None:
            raise ConfigError(
                f"{prefix.rstrip('.') or 'config'}: YAML needs a space after a colon: write {{{name}: {rest}}}."
            )
        if isinstance(value, Mapping):
            _check_colons(value, f"{prefix}{key}.")


def _line(problem: Any, values: Mapping[str, Any]) -> str:
    """One pydantic problem in the words of a config: the dotted key, the value found, what to do."""
    location = [str(part) for part in problem["loc"]]
    if location[:1] == ["network"] and len(location) > 1 and location[1] in _NETWORKS:
        del location[1]  # pydantic names the member of the union
    key, kind, found = ".".join(location), problem["type"], problem["input"]
    if kind == "value_error":
        return str(problem["ctx"]["error"])
    if kind == "extra_forbidden":
        type_name = str((values.get("network") or {}).get("type", "edge_unet"))
        near = difflib.get_close_matches(key, known_keys(type_name), n=1, cutoff=0.5)
        return f"unknown key {key!r}" + (f": did you mean {near[0]!r}?" if near else "")
    if kind == "missing":
        return f"{key} is missing: set it in the config or with --set {key}=…"
    if kind.startswith("union_tag"):
        return f"network.type={_type_found(found)!r} is unknown: use {' or '.join(_NETWORKS)}"
    # Lists and unions add what pydantic tried; the key before it is the one to change.
    return f"{key}={found!r}: {problem['msg'][0].lower()}{problem['msg'][1:]}"


def _type_found(network: Any) -> Any:
    return network.get("type") if isinstance(network, Mapping) else network


def _keys(model: type[BaseModel], prefix: str, network: type[BaseModel]) -> Iterable[str]:
    for name, field in model.model_fields.items():
        section = network if prefix == "" and name == "network" else field.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            yield from _keys(section, f"{prefix}{name}.", network)
        yield f"{prefix}{name}"
