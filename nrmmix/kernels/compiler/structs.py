"""Named tuples of arrays, handed from kernel to kernel by their address.

numba hands a tuple on field by field: a kernel with a `State` and a `Data` has some 400 parameters, and each call takes them apart and puts
them together again, which is most of the code that LLVM then has to read.  Here the named tuples of this package are handed on by address.
Tuples do not change, only what the arrays in them hold: so a parameter is read where it stands, and handing it on costs nothing.

What Python gives is put in such a place by a loop over the arrays.

This is the calling convention of all compiled code that takes such tuples, entry points too; it is set where
`nrmmix.kernels.compiler.backend` fits numba, and nowhere else.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.callwrapper import PyCallWrapper, _ArgManager
from numba.core.cpu import CPUContext
from numba.core.datamodel import default_manager
from numba.core.datamodel.manager import DataModelManager
from numba.core.datamodel.models import TupleModel
from numba.core.pythonapi import NativeValue, PythonAPI

PACKAGE = __name__.partition(".")[0] + "."
PROMISES = ("noalias", "captures(none)", "nonnull")  # of an address, to LLVM

INT, SHORT = ir.IntType(64), ir.IntType(32)
PAIR = ir.LiteralStructType([INT, INT])

_numbers = count()


class ByAddress(TupleModel):
    """A named tuple of the package: its type has a name, and as an argument it is an address."""

    def get_value_type(self) -> Any:
        if self._value_type is None:
            made = ir.global_context.get_identified_type(f"{self._fe_type.instance_class.__qualname__}.{next(_numbers)}")
            made.set_body(*(model.get_value_type() for model in self._models))
            self._value_type = made
        return self._value_type

    def get_argument_type(self) -> Any:
        return self.get_value_type().as_pointer()

    def as_argument(self, builder: Any, value: Any) -> Any:
        return address_of(builder, value)

    def from_argument(self, builder: Any, value: Any) -> Any:
        return builder.load(value)


def _model(manager: Any, fe_type: Any) -> Any:
    is_own = f"{fe_type.instance_class.__module__}.".startswith(PACKAGE)
    return (ByAddress if is_own else TupleModel)(manager, fe_type)


def register() -> None:
    """From now on named tuples of this package are handed on by address."""
    default_manager.register(types.NamedTuple, _model)


def is_by_address(context: Any, fe_type: Any) -> bool:
    return isinstance(fe_type, types.NamedTuple) and isinstance(context.data_model_manager[fe_type], ByAddress)


def is_kept(address: Any) -> bool:
    """Whether what stands at an address stays there unchanged: a parameter, a part of one, or a variable that is set once."""
    while isinstance(address, ir.GEPInstr):
        address = address.pointer
    return isinstance(address, ir.Argument) or getattr(address, "is_set_once", False)


def inserted(tuple_: Any, place: int) -> Any:
    """What has been put into a place of a tuple; None where that is not known."""
    while isinstance(tuple_, ir.instructions.InsertValue):
        if tuple(tuple_.indices) == (place,):
            return tuple_.value
        tuple_ = tuple_.aggregate
    return None


def part_of(builder: Any, tuple_: Any, place: int) -> Any:
    """What stands in a place of a tuple."""
    known = inserted(tuple_, place)
    return builder.extract_value(tuple_, place) if known is None else known


def source_of(value: Any) -> Any:
    """What a value is that has been put into a tuple and taken out again."""
    while isinstance(value, ir.instructions.ExtractValue) and len(value.indices) == 1:
        known = inserted(value.aggregate, value.indices[0])
        if known is None:
            break
        value = known
    return value


def address_of(builder: Any, value: Any) -> Any:
    """Where a value stands; on the stack, if it stands nowhere yet."""
    source = source_of(value)
    if isinstance(source, ir.LoadInstr) and is_kept(source.operands[0]):
        return source.operands[0]
    return cgutils.alloca_once_value(builder, value)


class FromPython(PythonAPI):
    """numba's way to take what Python gives, with the arrays of a named tuple in a loop; one by one they take hundreds of instructions."""

    def to_native_value(self, typ: Any, obj: Any) -> Any:
        if not _holds_arrays(self.context, typ):
            return super().to_native_value(typ, obj)
        builder, kept = self.builder, cgutils.alloca_once(self.builder, self.context.get_value_type(typ))
        kept.is_set_once = True
        failed = cgutils.alloca_once_value(builder, SHORT(0))
        self._fill(typ, obj, kept, failed)
        is_error = cgutils.is_not_null(builder, builder.load(failed))
        with builder.if_then(is_error, likely=False):
            self.err_set_string("PyExc_TypeError", f"{typ.instance_class.__name__} must hold {len(typ)} arrays or tuples of arrays")
        return NativeValue(builder.load(kept), is_error=is_error)

    def _fill(self, typ: Any, obj: Any, kept: Any, failed: Any) -> None:
        """The arrays of a tuple into `kept`; where it has not as many parts as its type, or one is no array, `failed` is not 0 then."""
        builder = self.builder
        arrays = [place for place, part in enumerate(typ) if isinstance(part, types.Array)]
        nowhere = ir.Constant(kept.type, None)
        table = [PAIR([INT(place), nowhere.gep([SHORT(0), SHORT(place)]).ptrtoint(INT)]) for place in arrays]
        table = cgutils.global_constant(builder.module, ".parts", ir.Constant(ir.ArrayType(PAIR, len(arrays)), table))
        is_whole = builder.icmp_signed("==", self.tuple_size(obj), INT(len(typ)))
        with builder.if_else(is_whole) as (whole, other):
            with other:
                builder.store(SHORT(1), failed)
            with whole:
                first = builder.bitcast(kept, self.voidptr)
                with cgutils.for_range(builder, INT(len(arrays))) as loop:
                    place, offset = (builder.load(builder.gep(table, [INT(0), loop.index, SHORT(which)])) for which in (0, 1))
                    code = self.numba_array_adaptor(self._item(obj, place), builder.gep(first, [offset]))
                    builder.store(builder.or_(builder.load(failed), code), failed)
                for place, part in enumerate(typ):
                    if place not in arrays:
                        self._fill(part, self._item(obj, INT(place)), cgutils.gep_inbounds(builder, kept, 0, place), failed)

    def _item(self, obj: Any, place: Any) -> Any:
        function = self._get_function(ir.FunctionType(self.pyobj, [self.pyobj, self.py_ssize_t]), name="PyTuple_GetItem")
        return self.builder.call(function, [obj, place])


def _holds_arrays(context: Any, typ: Any) -> bool:
    """Whether it is a named tuple of the package of nothing but arrays and others of these."""
    return is_by_address(context, typ) and all(isinstance(part, types.Array) or _holds_arrays(context, part) for part in typ)


def wrap_entry(context: Any, library: Any, fndesc: Any) -> None:
    """What an entry point's address leads to: the function, with C's way to take arguments and tuples by address."""
    module = context.create_module("entry")
    inner = ir.Function(module, context.call_conv.get_function_type(fndesc.restype, fndesc.argtypes), fndesc.llvm_func_name)
    kinds = [as_entries_take(context, fe_type) for fe_type in fndesc.argtypes]
    outer = ir.Function(module, ir.FunctionType(context.get_value_type(fndesc.restype), kinds), fndesc.llvm_cfunc_wrapper_name)
    builder = ir.IRBuilder(outer.append_basic_block("entry"))
    given = []
    for argument, fe_type in zip(outer.args, fndesc.argtypes, strict=True):
        if is_by_address(context, fe_type):
            for promise in PROMISES:
                argument.add_attribute(promise)
            given.append(builder.load(argument))
        else:
            given.append(argument)
    status, out = context.call_conv.call_function(builder, inner, fndesc.restype, fndesc.argtypes, given)
    with builder.if_then(status.is_error, likely=False):
        api = context.get_python_api(builder)
        gil = api.gil_ensure()
        context.call_conv.raise_error(builder, api, status)
        text = api.string_from_string(context.insert_const_string(builder.module, fndesc.qualname))
        api.err_write_unraisable(text)
        api.decref(text)
        api.gil_release(gil)
    builder.ret(out)
    library.add_ir_module(module)


def as_entries_take(context: Any, fe_type: Any) -> Any:
    """The LLVM type by which an entry point takes an argument."""
    kind = context.get_value_type(fe_type)
    return kind.as_pointer() if is_by_address(context, fe_type) else kind


def given_to_entry(context: Any, builder: Any, fe_type: Any, value: Any) -> Any:
    """A value as an entry point takes it."""
    return address_of(builder, value) if is_by_address(context, fe_type) else value


# What `nrmmix.kernels.compiler.backend.fits_numba` looks at: parameters of what is overridden or called, names that it reads.
OVERRIDDEN = {
    TupleModel.__init__: "self dmm fe_type", CPUContext.create_cfunc_wrapper: "self library fndesc env call_helper",
    DataModelManager.register: "self fetypecls handler", PythonAPI.to_native_value: "self typ obj",
    CPUContext.get_python_api: "self builder", PythonAPI.numba_array_adaptor: "self ary ptr", PythonAPI.tuple_size: "self tup",
    PythonAPI.err_set_string: "self exctype msg", PythonAPI._get_function: "self fnty name",
}
RELIED_ON = {
    PyCallWrapper.build: "get_python_api build_wrapper", _ArgManager.add_arg: "to_native_value is_error",
    CPUContext.create_cfunc_wrapper: "get_value_type llvm_cfunc_wrapper_name call_function raise_error",
}
