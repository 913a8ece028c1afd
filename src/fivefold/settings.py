"""Where the policy's values come from (P1), and which of several policies a conversation runs under (P6).

Sources, each over the one before: the defaults, a TOML file, the environment, feature flags, code. In the file each section of the
policy is a table; a section that can be switched may be given as its switch (``auto = false``). In the environment a field is
``FIVEFOLD_<SECTION>_<FIELD>``, a switch ``FIVEFOLD_<SECTION>``. Anything unknown or out of range is refused by the name it had there.

An experiment splits conversations between policies; which one a conversation gets depends on its id alone, so it is the same in
every process and after every restart::

    [experiment]
    name = "reactive-only"
    [experiment.variants.control]
    [experiment.variants.reactive]
    weight = 1
    policy = { auto = { reactive_only = true } }
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Callable, Mapping
from hashlib import blake2b
from itertools import accumulate
from pathlib import Path
from typing import Annotated, NamedTuple, TypeAlias, get_args

import msgspec

from .core.messages import JSON, Object
from .core.policy import Policy
from .errors import PolicyError

PREFIX = "FIVEFOLD_"
MOST_BYTES = 1_000_000
"""A policy file is not larger (H4)."""
_TRUE, _FALSE = frozenset({"true", "yes", "on", "1"}), frozenset({"false", "no", "off", "0"})


class Flag(NamedTuple):
    """What a feature flag says of a conversation: policy values, and the name of the variant it gave."""

    values: Mapping[str, JSON]
    variant: str = ""


Flags: TypeAlias = Callable[[str], Flag]
"""Asked with the conversation's id."""


class Settings(NamedTuple):
    """A policy and how it came to be. ``variant``: ``experiment:variant``, which every event then carries; empty where there is no
    experiment. ``origins``: where each value that is no default is from, by ``section.field``."""

    policy: Policy
    variant: str = ""
    origins: Mapping[str, str] = {}


class _Variant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    weight: Annotated[float, msgspec.Meta(ge=0)] = 1.0
    policy: Object = {}


class _Experiment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    variants: Annotated[dict[str, _Variant], msgspec.Meta(min_length=1)]


def load(
    *,
    file: Path | str | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Flags | None = None,
    code: Mapping[str, JSON] | None = None,
    conversation: str = "",
) -> Settings:
    """The policy of a conversation. ``environment``: the process's own by default; ``conversation``: its id, for experiments and flags.

    Raises PolicyError, which names the source and the field.
    """
    values: dict[str, dict[str, JSON]] = {}
    origins: dict[str, str] = {}
    variant = ""

    def put(given: Mapping[str, JSON], source: str) -> None:
        for section, fields in _sections(given, source).items():
            values.setdefault(section, {}).update(fields)
            origins.update({f"{section}.{name}": source for name in fields})
        _checked(values, source)

    if file is not None:
        table = _read(Path(file))
        experiment = table.pop("experiment", None)
        put(table, f"file {Path(file).name}")
        if experiment is not None:
            found = _experiment(experiment, str(file))
            name = assigned(found.name, {name: one.weight for name, one in found.variants.items()}, conversation)
            variant = f"{found.name}:{name}"
            put(found.variants[name].policy, f"experiment {variant}")
    put(_from_environment(os.environ if environment is None else environment), "the environment")
    if flags is not None:
        flag = flags(conversation)
        put(flag.values, "feature flags")
        variant = flag.variant or variant
    put(code or {}, "code")
    return Settings(Policy.of({**values}), variant, origins)


def assigned(experiment: str, weights: Mapping[str, float], conversation: str) -> str:
    """The variant of a conversation: by a hash of the experiment's name and the id, in shares of the weights."""
    total = sum(weights.values())
    if total <= 0:
        raise PolicyError(f"experiment {experiment!r}: the weights of its variants add up to nothing")
    digest = blake2b(f"{experiment}\0{conversation}".encode(errors="surrogatepass"), digest_size=8).digest()
    place = int.from_bytes(digest, "big") / 2**64 * total
    ends = accumulate(weights.values())
    return next((name for name, end in zip(weights, ends, strict=True) if place < end), list(weights)[-1])


# --- sources


def _sections(given: Mapping[str, JSON], source: str) -> dict[str, dict[str, JSON]]:
    """Values by section; a switch in place of its section spelled out."""
    found: dict[str, dict[str, JSON]] = {}
    for section, fields in given.items():
        if isinstance(fields, bool) and "enabled" in _fields().get(section, ()):
            found[section] = {"enabled": fields}
        elif isinstance(fields, Mapping):
            found[section] = dict(fields)
        else:
            raise PolicyError(f"{source}: {section} is no section of the policy{_like(section, _fields())}")
    return found


def _checked(values: Mapping[str, Mapping[str, JSON]], source: str) -> None:
    try:
        Policy.of({section: dict(fields) for section, fields in values.items()})
    except PolicyError as error:
        raise PolicyError(f"{source}: {error}") from None


def _read(path: Path) -> dict[str, JSON]:
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise PolicyError(f"{path}: larger than {MOST_BYTES:,} bytes; a policy is a short TOML file")
        return tomllib.loads(content.decode("utf-8-sig"))
    except OSError as error:
        raise PolicyError(f"{path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PolicyError(f"{path}: no TOML: {error}") from None


def _experiment(given: JSON, file: str) -> _Experiment:
    try:
        return msgspec.convert(given, _Experiment)
    except msgspec.ValidationError as error:
        raise PolicyError(f"{file}: experiment: {error}") from None


def _from_environment(environment: Mapping[str, str]) -> dict[str, JSON]:
    """The values that the environment gives. A name that begins like one of a section and is none is refused; others of the prefix are
    none of the policy's."""
    sections = _fields()
    found: dict[str, JSON] = {}
    for name in sorted(environment):
        key = name.removeprefix(PREFIX).lower()
        section = next((one for one in sections if key == one or key.startswith(f"{one}_")), None)
        if not name.startswith(PREFIX) or section is None:
            continue
        field = key[len(section) + 1 :] or "enabled"
        kind = sections[section].get(field)
        if kind is None:
            raise PolicyError(f"the environment: {name}: {section} has no field {field!r}{_like(field, sections[section])}")
        fields = found.setdefault(section, {})
        assert isinstance(fields, dict)
        fields[field] = _value(name, environment[name], kind)
    return found


def _value(name: str, text: str, kind: object) -> JSON:
    """A variable's text as what the field takes."""
    if kind is bool:
        if text.lower() in _TRUE | _FALSE:
            return text.lower() in _TRUE
        raise PolicyError(f"the environment: {name} is {text!r}, it has to be true or false")
    if get_args(kind)[-1:] == (...,):
        return [part.strip() for part in text.split(",") if part.strip()]
    for number in (int, float):
        try:
            return number(text.replace("_", ""))
        except ValueError:
            continue
    return text


def _fields() -> dict[str, dict[str, object]]:
    """The fields of each section with their types."""
    sections = {field.name: field.type for field in msgspec.structs.fields(Policy)}
    return {name: {field.name: field.type for field in msgspec.structs.fields(section)} for name, section in sections.items()}


def _like(name: str, known: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}"
