"""Named tuples of arrays that kernels get by one address.

numba hands a named tuple on field by field, and a `State` has 40 arrays of up to ten words each, with those of tuples within it.  Here a
kernel gets the address of a table: for each array where its first element is, and its lengths; for a tuple within the tuple the address of
its own table.  Python makes the table once, when a tuple is first handed to a kernel, and checks each field then; kernels read it and never
write or make one.  So it cannot change while a kernel runs, and LLVM is told so.
"""

from __future__ import annotations

import operator
from functools import cached_property
from hashlib import sha256
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    intrinsic,
    lower_builtin,
    lower_getattr_generic,
    models,
    register_model,
    type_callable,
    typeof_impl,
    unbox,
)

# What fields are declared as: arrays of float64, int64 and uint8 in C order, by their dimensions.
F1 = Annotated[np.ndarray, types.Array(types.float64, 1, "C")]
F2 = Annotated[np.ndarray, types.Array(types.float64, 2, "C")]
F3 = Annotated[np.ndarray, types.Array(types.float64, 3, "C")]
I1 = Annotated[np.ndarray, types.Array(types.int64, 1, "C")]
I2 = Annotated[np.ndarray, types.Array(types.int64, 2, "C")]
I3 = Annotated[np.ndarray, types.Array(types.int64, 3, "C")]
U2 = Annotated[np.ndarray, types.Array(types.uint8, 2, "C")]

CONVENTION = "address of a table of words: data and lengths"  # part of the names of types: a change of it must change them
WORD = ir.IntType(64)
Cls = TypeVar("Cls", bound=type)


class Handle(types.Type):
    """The address of a tuple's table.  The name says how kernels read it, so that code on disk that reads another one is not taken."""

    def __init__(self, cls: type):
        self.cls = cls
        layout = f"{CONVENTION}: {[(name, str(kind), place) for name, (kind, place) in cls.fields.items()]}"
        super().__init__(f"{cls.__name__}@{sha256(layout.encode()).hexdigest()[:16]}")


class Handles(types.Type):
    """The address of a table of addresses, of tuples of one class."""

    def __init__(self, cls: type):
        self.cls = cls
        super().__init__(f"tuple of {cls.__name__}@{sha256(CONVENTION.encode()).hexdigest()[:16]}")


class AnyHandle(types.Type):
    """The address of the table of a tuple of which only who made it knows the class, or 0 for none."""

    def __init__(self) -> None:
        super().__init__(f"some tuple@{sha256(CONVENTION.encode()).hexdigest()[:16]}")


Anything = Annotated[Any, AnyHandle()]  # a field that holds such a tuple, or ()


def reader(cls: Any) -> Any:
    """A function for kernels: what stands in a field `Anything` is a tuple of this class.  Nothing checks it."""
    if config.DISABLE_JIT:
        return lambda given: given

    @intrinsic
    def read(typing_context, given):  # type: ignore[no-untyped-def]
        return (cls.type(given), lambda context, builder, signature, values: values[0]) if isinstance(given, AnyHandle) else None

    return read


class ByAddress:
    """Methods that a named tuple has besides, under `@handle`."""

    fields: dict[str, tuple[Any, int]]  # numba's type of each field, and the first of its words in the table

    @property
    def table_address(self) -> int:
        """Address of the table, which lives as long as the tuple.

        Raises
        ------
        TypeError
            If a field is not what it is declared to be.
        """
        tables = self.__dict__.get("_tables")
        if tables is None:  # threads that ask at once all get those of the first
            tables = self.__dict__.setdefault("_tables", self._made())
        return int(tables[0].ctypes.data)

    def _made(self) -> list[Any]:
        """The table, those of fields that are several tuples, and tuples that follow from this one, which have tables too."""
        words: list[int] = []
        others: list[Any] = []
        for name, (kind, _) in type(self).fields.items():
            value = getattr(self, name)
            found = _words(f"{type(self).__name__}.{name}", value, kind)
            if name not in self._fields:  # type: ignore[attr-defined]
                others.append(value)
            if isinstance(kind, Handles):
                others.append(np.array(found, np.int64))
                found = [others[-1].ctypes.data]
            words += found
        return [np.array(words, np.int64), *others]

    def __reduce__(self) -> Any:  # without the table: where things are is no one else's business
        return type(self), tuple(self)  # type: ignore[call-overload]


def _words(name: str, value: Any, kind: Any) -> list[int]:
    """Return the words of a field in the table; of several tuples what is in theirs."""
    if isinstance(kind, Handle):
        if not isinstance(value, kind.cls):
            raise TypeError(f"{name} must be a {kind.cls.__name__}, not a {type(value).__name__}.")
        return [value.table_address]
    if isinstance(kind, Handles):
        if not isinstance(value, tuple) or not all(isinstance(one, kind.cls) for one in value):
            raise TypeError(f"{name} must be a tuple of {kind.cls.__name__}.")
        return [one.table_address for one in value]
    if isinstance(kind, AnyHandle):
        if value != () and not isinstance(value, ByAddress):
            raise TypeError(f"{name} must be a tuple under @handle, or (), not a {type(value).__name__}.")
        return [value.table_address if isinstance(value, ByAddress) else 0]
    dtype = np.dtype(str(kind.dtype))
    if not isinstance(value, np.ndarray) or value.dtype != dtype or value.ndim != kind.ndim or not value.flags.carray:
        found = f"{value.ndim}-dimensional of {value.dtype}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
        if isinstance(value, np.ndarray) and not value.flags.carray:
            found += ", read-only or not in C order"
        raise TypeError(f"{name} must be a writable array of {dtype} in C order with {kind.ndim} dimensions; it is {found}.")
    return [value.ctypes.data, *value.shape]


def handle(cls: Cls) -> Cls:
    """Decorator: kernels get instances of a named tuple by address.

    Its fields are arrays F1 to U2, or such tuples, one or several.  Properties that give such tuples are fields for kernels: what they give
    is kept, and follows from the others whatever has been replaced.
    """
    named: dict[str, Any] = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    given = {name: one.fget for name, one in vars(cls).items() if isinstance(one, property)}
    made: Any = type(cls.__name__, (ByAddress, cls), named | {name: cached_property(get) for name, get in given.items()})
    made.fields, place = {}, 0
    hints = get_type_hints(cls, localns={cls.__name__: made}, include_extras=True)
    hints |= {name: get_type_hints(get, localns={cls.__name__: made})["return"] for name, get in given.items()}
    for name, declared in hints.items():
        if get_origin(declared) is Annotated:
            kind = get_args(declared)[1]
        elif get_origin(declared) is tuple:
            kind = Handles(get_args(declared)[0])
        else:
            kind = declared.type
        if hasattr(ByAddress, name):
            raise TypeError(f"a field of {cls.__name__} cannot have the name {name!r}.")
        made.fields[name] = kind, place
        place += 1 + (kind.ndim if isinstance(kind, types.Array) else 0)
    made.type = Handle(made)
    typeof_impl.register(made)(lambda value, c: made.type)
    return made


@register_model(Handle)
@register_model(Handles)
@register_model(AnyHandle)
class AddressModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any):
        super().__init__(manager, kind, WORD.as_pointer())


@infer_getattr
class FieldType(AttributeTemplate):
    key = Handle

    def generic_resolve(self, typ: Any, attr: str) -> Any:
        kind, _ = typ.cls.fields.get(attr, (None, None))
        return kind


def _load(builder: Any, table: Any, place: Any, kind: Any = WORD) -> Any:
    """A word of a table, which does not change."""
    word = builder.gep(table, [place], inbounds=True)
    if kind is not WORD:
        word = builder.bitcast(word, kind.as_pointer())
    found = builder.load(word)
    found.set_metadata("invariant.load", builder.module.add_metadata([]))
    return found


@lower_getattr_generic(Handle)
def field(context: Any, builder: Any, typ: Any, table: Any, attr: str) -> Any:
    kind, place = typ.cls.fields[attr]
    first = context.get_constant(types.intp, place)
    if not isinstance(kind, types.Array):
        return _load(builder, table, first, context.get_value_type(kind))
    shape = [_load(builder, table, context.get_constant(types.intp, place + 1 + d)) for d in range(kind.ndim)]
    item = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    strides = [item]
    for length in reversed(shape[1:]):
        strides.insert(0, builder.mul(length, strides[0]))
    n_items = shape[0]
    for length in shape[1:]:
        n_items = builder.mul(n_items, length)
    parts = {
        "nitems": n_items, "itemsize": item, "data": _load(builder, table, first, context.get_data_type(kind.dtype).as_pointer()),
        "shape": cgutils.pack_array(builder, shape), "strides": cgutils.pack_array(builder, strides),
    }
    model = context.data_model_manager[kind]
    array = context.get_constant_null(kind)  # nobody counts references to it
    for name, value in parts.items():
        array = builder.insert_value(array, value, model.get_field_position(name))
    return array


@type_callable(operator.getitem)
def type_of_one(context: Any) -> Any:
    def typer(those: Any, index: Any) -> Any:
        return those.cls.type if isinstance(those, Handles) and isinstance(index, types.Integer) else None

    return typer


@lower_builtin(operator.getitem, Handles, types.Integer)
def one_of_several(context: Any, builder: Any, signature: Any, given: Any) -> Any:
    table, index = given
    index = context.cast(builder, index, signature.args[1], types.intp)
    return _load(builder, table, index, context.get_value_type(signature.return_type))


@unbox(Handle)
def address_of(typ: Any, value: Any, c: Any) -> NativeValue:
    """Ask the tuple for the address of its table; the caller holds the tuple, and so the table, while the kernel runs."""
    kept = cgutils.alloca_once_value(c.builder, c.context.get_constant_null(typ))
    address = c.pyapi.object_getattr_string(value, "table_address")
    is_error = cgutils.is_null(c.builder, address)
    with c.builder.if_then(c.builder.not_(is_error)):
        c.builder.store(c.builder.inttoptr(c.pyapi.long_as_longlong(address), WORD.as_pointer()), kept)
        c.pyapi.decref(address)
    return NativeValue(c.builder.load(kept), is_error=is_error)
