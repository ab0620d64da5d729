"""numba's lowering of kernels to LLVM instructions, with fewer of them.

Of what numba writes for an element of an array, or a step of a loop, LLVM throws most away again, but writing, reading and simplifying it
takes more time than all that is left.  Here the usual cases, elements of C arrays and ranges that go up by one, are written as they end up.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

from llvmlite import ir
from numba.core import cgutils, lowering, types
from numba.core import ir as numba_ir
from numba.cpython import slicing
from numba.np import arrayobj

from nrmmix.kernels.compiler import structs
from nrmmix.kernels.compiler.structs import is_kept, part_of

INT = ir.IntType(64)
LAST = INT(2**63 - 1)  # where a slice ends that has no end


def is_integer(kind: Any) -> bool:
    return isinstance(kind, types.Integer) and kind.signed


class Lower(lowering.Lower):
    """numba's lowering for kernels that count no references, with parameters read where they stand."""

    def setup_function(self, fndesc: Any) -> None:
        super().setup_function(fndesc)
        for argument in self.call_conv.get_arguments(self.function):
            if isinstance(argument.type, ir.PointerType) and isinstance(getattr(argument.type, "pointee", None), ir.IdentifiedStructType):
                for promise in structs.PROMISES:
                    argument.add_attribute(promise)
        sets = Counter(inst.target.name for block in self.blocks.values() for inst in block.find_insts(numba_ir.Assign))
        self._set_once = {name for name, times in sets.items() if times == 1}

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        if name in self._set_once and structs.is_by_address(self.context, self.typeof(name)):
            kept = isinstance(value, ir.LoadInstr) and is_kept(value.operands[0])
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
        if place is not None:
            found = arrayobj.load_item(self.context, self.builder, self.typeof(value.name), place)
        else:
            found = self.view_of(value.name, index.name, signature.return_type)
        if found is None:
            return super().lower_getitem(resty, expr, value, index, signature)
        return self.context.cast(self.builder, found, signature.return_type, resty)

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> Any:
        place = self.place_of(target_var.name, index_var.name)
        if place is None:
            return super().lower_setitem(target_var, index_var, value_var, signature)
        array, kind = self.typeof(target_var.name), signature.args[2]
        value = self.context.cast(self.builder, self.loadvar(value_var.name), self.typeof(value_var.name), kind)
        arrayobj.store_item(self.context, self.builder, array, self.context.cast(self.builder, value, kind, array.dtype), place)
        return None

    def place_of(self, name: str, index_name: str) -> Any:
        """Where an element of a C array stands, as numba finds it, but with fewer instructions; None where numba has to."""
        array, kinds = self.typeof(name), self._kinds(index_name)
        if not (self._is_plain(array) and len(kinds) == array.ndim and all(map(is_integer, kinds))):
            return None
        data, shape = self._data_and_shape(name, array)
        offset = None
        for d, (given, kind) in enumerate(zip(self._indices(index_name), kinds, strict=True)):
            i = self._from_the_front(self.context.cast(self.builder, given, kind, types.intp), shape, d)
            offset = i if offset is None else self.builder.add(self.builder.mul(offset, shape(d)), i)
        return self.builder.gep(data, [offset])

    def view_of(self, name: str, index_name: str, result: Any) -> Any:
        """The part of a C array that numbers, and after them perhaps a slice without a step, leave; None where numba has to find it."""
        array, kinds = self.typeof(name), self._kinds(index_name)
        numbers = kinds[:-1] if kinds[-1:] == (types.slice2_type,) else kinds
        if not (self._is_plain(array) and isinstance(result, types.Array) and all(map(is_integer, numbers))):
            return None
        builder, value, model = self.builder, self.loadvar(name), self.context.data_model_manager[array]
        data, shape = self._data_and_shape(name, array)
        lengths = [shape(d) for d in range(array.ndim)]
        offset = INT(0)
        for d, (given, kind) in enumerate(zip(self._indices(index_name), kinds, strict=True)):
            if is_integer(kind):
                i = self._from_the_front(self.context.cast(builder, given, kind, types.intp), shape, d)
            else:
                i, end = (self._within(self._from_the_front(part_of(builder, given, place), shape, d), lengths[d]) for place in (0, 1))
                between = builder.sub(end, i)
                kept = builder.select(builder.icmp_signed(">", between, INT(0)), between, INT(0))
            offset = i if d == 0 else builder.add(builder.mul(offset, lengths[d]), i)
        for length in lengths[len(kinds) :]:
            offset = builder.mul(offset, length)
        lengths = lengths[len(numbers) :]
        if len(numbers) < len(kinds):
            lengths[0] = kept
        n_items = lengths[0]
        for length in lengths[1:]:
            n_items = builder.mul(n_items, length, flags=["nsw"])
        strides = part_of(builder, value, model.get_field_position("strides"))
        parts = {field: part_of(builder, value, model.get_field_position(field)) for field in ("meminfo", "parent", "itemsize")} | {
            "nitems": n_items, "data": builder.gep(data, [offset]), "shape": cgutils.pack_array(builder, lengths, INT),
            "strides": cgutils.pack_array(builder, [part_of(builder, strides, d) for d in range(len(numbers), array.ndim)], INT),
        }
        places = self.context.data_model_manager[result].get_field_position
        return self._tuple(result, [parts[field] for field in sorted(parts, key=places)])

    def _kinds(self, index_name: str) -> tuple[Any, ...]:
        kinds = self.typeof(index_name)
        return tuple(kinds.types) if isinstance(kinds, types.BaseTuple) else (kinds,)

    def _indices(self, index_name: str) -> list[Any]:
        index, kinds = self.loadvar(index_name), self.typeof(index_name)
        return [part_of(self.builder, index, d) for d in range(len(kinds))] if isinstance(kinds, types.BaseTuple) else [index]

    def _is_plain(self, array: Any) -> bool:
        return isinstance(array, types.Array) and array.layout == "C" and array.ndim > 0 and not self.context.enable_boundscheck

    def _from_the_front(self, i: Any, shape: Any, d: int) -> Any:
        """An index of dimension d that is not negative."""
        return i if isinstance(i, ir.Constant) and i.constant >= 0 else slicing.fix_index(self.builder, i, shape(d))

    def _within(self, i: Any, length: Any) -> Any:
        """An end of a slice, for which there are no others than 0 to the length."""
        i = self.builder.select(self.builder.icmp_signed("<", i, INT(0)), INT(0), i)
        return self.builder.select(self.builder.icmp_signed(">=", i, length), length, i)

    def _data_and_shape(self, name: str, array: Any) -> tuple[Any, Any]:
        """The address of the first element, and a function that gives lengths; read where the array stands, if that is known here."""
        builder, value, model = self.builder, self.loadvar(name), self.context.data_model_manager[array]
        data, shape = (model.get_field_position(field) for field in ("data", "shape"))
        if isinstance(value, ir.LoadInstr) and value.parent is builder.block and is_kept(value.operands[0]):
            address = value.operands[0]
            first = builder.load(cgutils.gep_inbounds(builder, address, 0, data))
            return first, lambda d: builder.load(cgutils.gep_inbounds(builder, address, 0, shape, d))
        return builder.extract_value(value, data), lambda d: builder.extract_value(value, [shape, d])

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        write = self.WAYS.get(expr.op)
        value = None if write is None else write(self, resty, expr)
        return super().lower_expr(resty, expr) if value is None else value

    def field(self, resty: Any, expr: Any) -> Any:
        """A field of a named tuple that stands somewhere, or the shape of an array."""
        typ = self.typeof(expr.value.name)
        if isinstance(typ, types.Array) and expr.attr == "shape":
            return part_of(self.builder, self.loadvar(expr.value.name), self.context.data_model_manager[typ].get_field_position("shape"))
        address = self.varmap.get(expr.value.name)
        if address is None or not structs.is_by_address(self.context, typ) or expr.attr not in typ.fields:
            return None
        return self.builder.load(cgutils.gep_inbounds(self.builder, address, 0, typ.fields.index(expr.attr)))

    def call(self, resty: Any, expr: Any) -> Any:
        """`range` of one or two integers, or a slice between two places; None is 0 or the end."""
        made = getattr(self.typeof(expr.func.name), "typing_key", None)
        kinds = [self.typeof(one.name) for one in expr.args]
        if expr.kws or expr.vararg or not 0 < len(kinds) <= 2:
            return None
        if made is range and resty is types.range_state64_type:
            ends = self._integers(expr.args)
            return self._tuple(resty, [*([INT(0)] if len(ends) == 1 else []), *ends, INT(1)])
        if made is slice and resty is types.slice2_type and len(kinds) == 2 and all(is_integer(one) or one is types.none for one in kinds):
            given = [None if kind is types.none else self._integers([one])[0] for one, kind in zip(expr.args, kinds, strict=True)]
            return self._tuple(resty, [*(end if one is None else one for one, end in zip(given, (INT(0), LAST), strict=True)), INT(1)])
        return None

    def _integers(self, names: Any) -> list[Any]:
        return [self.context.cast(self.builder, self.loadvar(one.name), self.typeof(one.name), types.int64) for one in names]

    def first_step(self, resty: Any, expr: Any) -> Any:
        """Begin to go through a range, if it is known to go up by one: a number, and how many are left."""
        if resty is not types.range_iter64_type:
            return None
        builder, state = self.builder, self.loadvar(expr.value.name)
        start, stop, step = (part_of(builder, state, place) for place in range(3))
        if not (isinstance(step, ir.Constant) and step.constant == 1):
            return None
        number, left = (cgutils.alloca_once(builder, INT) for _ in range(2))
        length = builder.sub(stop, start)
        builder.store(start, number)
        builder.store(builder.select(builder.icmp_signed(">", length, INT(0)), length, INT(0)), left)
        return self._tuple(resty, [number, stop, step, left])

    def step(self, resty: Any, expr: Any) -> Any:
        """The next number of a range, and whether there is one; nobody asks for it where there is none."""
        if self.typeof(expr.value.name) is not types.range_iter64_type:
            return None
        builder, state = self.builder, self.loadvar(expr.value.name)
        number, by, left = (part_of(builder, state, place) for place in (0, 2, 3))
        value, count = builder.load(number), builder.load(left)
        builder.store(builder.add(value, by), number)
        builder.store(builder.sub(count, INT(1), flags=["nsw"]), left)
        return self._tuple(resty, [value, builder.icmp_signed(">", count, INT(0))])

    def first(self, resty: Any, expr: Any) -> Any:
        return part_of(self.builder, self.loadvar(expr.value.name), 0)

    def second(self, resty: Any, expr: Any) -> Any:
        return part_of(self.builder, self.loadvar(expr.value.name), 1)

    WAYS: ClassVar = {
        "getattr": field, "call": call, "getiter": first_step, "iternext": step, "pair_first": first, "pair_second": second,
    }

    def _tuple(self, typ: Any, values: list[Any]) -> Any:
        made = ir.Constant(self.context.get_value_type(typ), ir.Undefined)
        for place, value in enumerate(values):
            made = self.builder.insert_value(made, value, place)
        return made


# What `nrmmix.kernels.compiler.backend.fits_numba` looks at: parameters of what is overridden or called, names that it reads.
OVERRIDDEN = {
    lowering.Lower.storevar: "self value name argidx", lowering.Lower.delvar: "self name", lowering.Lower.incref: "self typ val",
    lowering.Lower.decref: "self typ val", lowering.Lower.lower_expr: "self resty expr", lowering.Lower.loadvar: "self name",
    lowering.Lower._alloca_var: "self name fetype", lowering.Lower.setup_function: "self fndesc",
    lowering.Lower.lower_getitem: "self resty expr value index signature", slicing.fix_index: "builder idx size",
    lowering.Lower.lower_setitem: "self target_var index_var value_var signature", arrayobj.load_item: "context builder arrayty ptr",
    arrayobj.store_item: "context builder arrayty val ptr",
}
RELIED_ON = {
    lowering.Lower.storevar: "_alloca_var _singly_assigned_vars _blk_local_varmap getvar", lowering.Lower.getvar: "varmap",
    lowering.Lower.delvar: "_singly_assigned_vars _blk_local_varmap", lowering.Lower.lower_normal_function: "setup_function",
}
