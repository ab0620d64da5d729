"""Classes that can be plugged in: hyperpriors, priors, families, covariate kernels, moves and methods.

An object is made again from its arguments: the parameters of its constructor, each of which is also an attribute of the object.  Saved
files, printed code, the command line and tables look classes up here, and only classes that are here are ever made from a file.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, NamedTuple, TypeVar

from nrmmix.common.messages import guided

ROLES = ("hyperprior", "prior", "family", "kernel", "move", "method")  # a base class says which, by its attribute `role`
Made = TypeVar("Made", bound=type)


class Plugin(NamedTuple):
    """A class, what it can be plugged in as, and the arguments that its objects are made again from."""

    made: type
    role: str
    arguments: tuple[str, ...]


PLUGINS: dict[str, Plugin] = {}  # by names of classes


def plugin(made: Made) -> Made:
    """Enter a class of the package."""
    PLUGINS[made.__name__] = Plugin(made, _role(made), _parameters(made))
    if "__init__" in vars(made):
        made.__init__ = guided(made.__init__)  # type: ignore[misc]  # of this class, no instance of another
    return made


def register(made: Made, arguments: tuple[str, ...] | None = None) -> Made:
    """Let saved fits hold objects of a class of one's own, such as a prior derived from `nrmmix.GibbsType`.

    To be called before such a fit is saved, and in every session before `nrmmix.load` reads one; it can stand above the class as a
    decorator.

    Parameters
    ----------
    made : type
        Its name must be that of no other class that files may hold.
    arguments : tuple of str, optional
        Arguments of the class that make an object again; each is also the name of an attribute that holds it.  They may be
        numbers, strings, lists and other objects that can be saved.  Default all of them.

    Returns
    -------
    type
        The class.

    Raises
    ------
    ValueError
        If it is no class, its name is taken, or arguments are not names.

    Examples
    --------
    >>> import nrmmix as nm
    >>> class Antoniak(nm.GibbsType):
    ...     def __init__(self, mass):
    ...         super().__init__(sigma=0.0)
    ...         self.concentration = mass
    >>> nm.register(Antoniak, ("concentration",))
    Traceback (most recent call last):
    ValueError: Antoniak has no argument 'concentration'; its arguments are mass.
    """
    if not isinstance(made, type):
        raise ValueError(f"a class is needed, not {made!r}.")
    name = made.__name__
    if name in PLUGINS and is_own(PLUGINS[name].made):
        raise ValueError(f"files name the package's own {name} so; give the class another name.")
    if isinstance(arguments, str) or not all(isinstance(one, str) for one in arguments or ()):
        raise ValueError(f"arguments must be a tuple of names, not {arguments!r}.")
    accepted = _parameters(made)
    for one in arguments or ():
        if one not in accepted:
            raise ValueError(f"{name} has no argument {one!r}; its arguments are {', '.join(accepted) or 'none'}.")
    PLUGINS[name] = Plugin(made, _role(made), accepted if arguments is None else tuple(arguments))  # defined anew, as in a notebook
    return made


def _role(made: type) -> str:
    """Return the role in which a class is plugged in; "argument" of one that belongs to another, such as an option that is an object."""
    role = getattr(made, "role", "argument")
    if role not in (*ROLES, "argument"):
        raise ValueError(f"{made.__name__}.role must be one of {', '.join(map(repr, ROLES))}, not {role!r}.")
    return role


def _parameters(made: type) -> tuple[str, ...]:
    """Parameters of a constructor, by name."""
    found = inspect.signature(made).parameters.values()
    for one in found:
        if one.kind not in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY):
            raise ValueError(f"{made.__name__}: the argument {one} has no name of its own, by which it could be saved.")
    return tuple(one.name for one in found)


def is_own(made: type) -> bool:
    """Whether a class comes with the package."""
    return made.__module__.startswith("nrmmix.")


# ---- looking up

def plugins(role: str | None = None) -> Iterator[Plugin]:
    """All classes, or those of one role, in the order in which they were entered."""
    return (one for one in tuple(PLUGINS.values()) if role in (None, one.role))


def named(name: str) -> Plugin | None:
    """The class that a file calls so."""
    return PLUGINS.get(name)


def plugin_of(thing: Any) -> Plugin | None:
    """Return the entry of the class of an object; None where it has not been entered."""
    found = PLUGINS.get(type(thing).__name__)
    return found if found is not None and found.made is type(thing) else None


def arguments_of(thing: Any) -> dict[str, Any]:
    """Return the arguments that an object was made from; nothing where its class has not been entered.

    Examples
    --------
    >>> import nrmmix as nm
    >>> arguments_of(nm.Gibbs(subset=50))
    {'subset': 50}
    """
    known = plugin_of(thing)
    return {} if known is None else {name: getattr(thing, name) for name in known.arguments}


def default_of(made: type, argument: str) -> Any:
    """The default of an argument; `inspect.Parameter.empty` where it has none."""
    return inspect.signature(made).parameters[argument].default


def written(thing: Any) -> str:
    """A dataclass with the fields that differ from their defaults."""
    given = [(one.name, getattr(thing, one.name)) for one in fields(thing) if getattr(thing, one.name) != one.default]
    return f"{type(thing).__name__}({', '.join(f'{name}={value!r}' for name, value in given)})"


def code(thing: Any) -> str:
    """An object as a user writes it, by what it prints.

    Examples
    --------
    >>> import nrmmix as nm
    >>> code(nm.Gibbs(subset=50))
    'nm.Gibbs(subset=50)'
    """
    return f"nm.{thing}" if is_own(type(thing)) else str(thing)


def shell_names(role: str) -> dict[str, tuple[type[Any], dict[str, Any]]]:
    """Return shell names of the classes of a role, and options that a name stands for: the attribute `in_shell` of the class."""
    return {name: (one.made, options) for one in plugins(role) for name, options in vars(one.made).get("in_shell", {}).items()}
