"""Named tuples of arrays, handed from kernel to kernel by their address.

numba hands a tuple on field by field: a kernel with a `State` and a `Data` has some 400 parameters, and each call takes them apart and puts
them together again, which is most of the code that LLVM then has to read.  Here the named tuples of this package are handed on by address.
Tuples do not change, only what the arrays in them hold: so a parameter is read where it stands, and handing it on costs nothing.

This is the calling convention of all compiled code that takes such tuples, entry points too; it is set where
`nrmmix.kernels.core.backend` fits numba, and nowhere else.
"""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import Any

from llvmlite import ir
from numba.core import cgutils, lowering, types
from numba.core import ir as numba_ir
from numba.core.cpu import CPUContext
from numba.core.datamodel import default_manager
from numba.core.datamodel.manager import DataModelManager
from numba.core.datamodel.models import TupleModel
from numba.cpython import slicing
from numba.np import arrayobj

PACKAGE = __name__.partition(".")[0] + "."
PROMISES = ("noalias", "captures(none)", "nonnull")  # of an address, to LLVM

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


def _is_kept(address: Any) -> bool:
    """Whether what stands at an address stays there unchanged: a parameter, a part of one, or a variable that is set once."""
    while isinstance(address, ir.GEPInstr):
        address = address.pointer
    return isinstance(address, ir.Argument) or getattr(address, "is_set_once", False)


def _source(value: Any) -> Any:
    """What a value is that has been put into a tuple and taken out again."""
    while isinstance(value, ir.instructions.ExtractValue) and len(value.indices) == 1:
        tuple_, place = value.aggregate, value.indices[0]
        while isinstance(tuple_, ir.instructions.InsertValue) and tuple(tuple_.indices) != (place,):
            tuple_ = tuple_.aggregate
        if not isinstance(tuple_, ir.instructions.InsertValue):
            break
        value = tuple_.value
    return value


def address_of(builder: Any, value: Any) -> Any:
    """Where a value stands; on the stack, if it stands nowhere yet."""
    source = _source(value)
    if isinstance(source, ir.LoadInstr) and _is_kept(source.operands[0]):
        return source.operands[0]
    return cgutils.alloca_once_value(builder, value)


class Lower(lowering.Lower):
    """numba's lowering for kernels that count no references, with parameters read where they stand."""

    def setup_function(self, fndesc: Any) -> None:
        super().setup_function(fndesc)
        for argument in self.call_conv.get_arguments(self.function):
            if isinstance(argument.type, ir.PointerType) and isinstance(getattr(argument.type, "pointee", None), ir.IdentifiedStructType):
                for promise in PROMISES:
                    argument.add_attribute(promise)
        sets = Counter(inst.target.name for block in self.blocks.values() for inst in block.find_insts(numba_ir.Assign))
        self._set_once = {name for name, times in sets.items() if times == 1}

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        if name in self._set_once and is_by_address(self.context, self.typeof(name)):
            kept = isinstance(value, ir.LoadInstr) and _is_kept(value.operands[0])
            self._singly_assigned_vars.discard(name)
            if kept:
                self.varmap[name] = value.operands[0]
                return
            self._alloca_var(name, self.typeof(name))
            self.varmap[name].is_set_once = True
            self.builder.store(value, self.varmap[name])
            return
        super().storevar(value, name, argidx)

    def delvar(self, name: str) -> None:
        """Nothing to do where no references are counted, but to know that the variable is used in several blocks."""
        if name not in self._blk_local_varmap:
            self._singly_assigned_vars.discard(name)

    def incref(self, typ: Any, val: Any) -> None:
        """None are counted."""

    def decref(self, typ: Any, val: Any) -> None:
        """None are counted."""

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        place = self.place_of(value.name, index.name)
        if place is None:
            return super().lower_getitem(resty, expr, value, index, signature)
        item = arrayobj.load_item(self.context, self.builder, self.typeof(value.name), place)
        return self.context.cast(self.builder, item, signature.return_type, resty)

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> Any:
        place = self.place_of(target_var.name, index_var.name)
        if place is None:
            return super().lower_setitem(target_var, index_var, value_var, signature)
        array, kind = self.typeof(target_var.name), signature.args[2]
        value = self.context.cast(self.builder, self.loadvar(value_var.name), self.typeof(value_var.name), kind)
        arrayobj.store_item(self.context, self.builder, array, self.context.cast(self.builder, value, kind, array.dtype), place)
        return None

    def place_of(self, name: str, index_name: str) -> Any:
        """Where an element of a C array stands, as numba finds it, but with a third of the instructions; None where numba has to."""
        array, kinds = self.typeof(name), self.typeof(index_name)
        kinds = kinds.types if isinstance(kinds, types.BaseTuple) else (kinds,)
        is_plain = isinstance(array, types.Array) and array.layout == "C" and not self.context.enable_boundscheck
        if not (is_plain and len(kinds) == array.ndim and all(isinstance(kind, types.Integer) and kind.signed for kind in kinds)):
            return None
        builder, index = self.builder, self.loadvar(index_name)
        indices = [index] if self.typeof(index_name) in kinds else cgutils.unpack_tuple(builder, index, array.ndim)
        data, shape = self._data_and_shape(name, array)
        offset = None
        for d, (given, kind) in enumerate(zip(indices, kinds, strict=True)):
            i = self.context.cast(builder, _source(given), kind, types.intp)
            if not (isinstance(i, ir.Constant) and i.constant >= 0):
                i = slicing.fix_index(builder, i, shape(d))
            offset = i if offset is None else builder.add(builder.mul(offset, shape(d)), i)
        return builder.gep(data, [offset])

    def _data_and_shape(self, name: str, array: Any) -> tuple[Any, Any]:
        """The address of the first element, and a function that gives lengths; read where the array stands, if that is known here."""
        builder, value, model = self.builder, self.loadvar(name), self.context.data_model_manager[array]
        data, shape = (model.get_field_position(field) for field in ("data", "shape"))
        if isinstance(value, ir.LoadInstr) and value.parent is builder.block and _is_kept(value.operands[0]):
            address = value.operands[0]
            first = builder.load(cgutils.gep_inbounds(builder, address, 0, data))
            return first, lambda d: builder.load(cgutils.gep_inbounds(builder, address, 0, shape, d))
        return builder.extract_value(value, data), lambda d: builder.extract_value(value, [shape, d])

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        if expr.op == "getattr":
            typ, address = self.typeof(expr.value.name), self.varmap.get(expr.value.name)
            if address is not None and is_by_address(self.context, typ) and expr.attr in typ.fields:
                return self.builder.load(cgutils.gep_inbounds(self.builder, address, 0, typ.fields.index(expr.attr)))
        return super().lower_expr(resty, expr)


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


# What `nrmmix.kernels.core.backend.fits_numba` looks at: parameters of what is overridden or called, names that it reads.
OVERRIDDEN = {
    lowering.Lower.storevar: "self value name argidx", lowering.Lower.delvar: "self name", lowering.Lower.incref: "self typ val",
    lowering.Lower.decref: "self typ val", lowering.Lower.lower_expr: "self resty expr", lowering.Lower.loadvar: "self name",
    lowering.Lower._alloca_var: "self name fetype", lowering.Lower.setup_function: "self fndesc", TupleModel.__init__: "self dmm fe_type",
    lowering.Lower.lower_getitem: "self resty expr value index signature", slicing.fix_index: "builder idx size",
    lowering.Lower.lower_setitem: "self target_var index_var value_var signature", arrayobj.load_item: "context builder arrayty ptr",
    arrayobj.store_item: "context builder arrayty val ptr",
    CPUContext.create_cfunc_wrapper: "self library fndesc env call_helper", DataModelManager.register: "self fetypecls handler",
}
RELIED_ON = {
    lowering.Lower.storevar: "_alloca_var _singly_assigned_vars _blk_local_varmap getvar", lowering.Lower.getvar: "varmap",
    lowering.Lower.delvar: "_singly_assigned_vars _blk_local_varmap", lowering.Lower.lower_normal_function: "setup_function",
    CPUContext.create_cfunc_wrapper: "get_value_type llvm_cfunc_wrapper_name call_function raise_error",
}
