"""What numba does to a kernel before it is machine code, without what no kernel needs.

Most of the time that compiling takes is numba's own, in Python, and much of that goes into things that change nothing here: the cyclic
garbage collector, which walks through all that a compilation keeps; passes for closures and array expressions; live variables, which are
found many times a function and read once; types of operators, sizes and hashes, found anew wherever they stand; registries, searched before
every function.  While kernels are compiled these are left out, or done by the functions of `QUICK`, which give what numba's give.
Afterwards numba is as it was.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from types import CodeType
from typing import Any

from numba.core import event, ir, postproc, transforms, types
from numba.core.base import BaseContext
from numba.core.compiler import Compiler, CompilerBase, Flags
from numba.core.compiler_machinery import register_pass
from numba.core.cpu import CPUContext
from numba.core.funcdesc import FunctionDescriptor
from numba.core.itanium_mangler import mangle
from numba.core.typed_passes import BaseNativeLowering, NativeLowering, NopythonRewrites
from numba.core.types.functions import BaseFunction
from numba.core.typing.context import BaseContext as TypingContext
from numba.core.untyped_passes import InlineClosureLikes

from nrmmix.kernels.compiler.ahead import begins
from nrmmix.kernels.compiler.lowering import Lower

_run_postprocessor = postproc.PostProcessor.run
_get_call_type = BaseFunction.get_call_type
_hash = types.Type.__hash__
_size = BaseContext.get_abi_sizeof
_NOTHING = frozenset({str, int, bool, float, type(None), ir.Loc})  # holds no variables


def _variables(values: Iterable[Any], found: list[Any]) -> list[Any]:
    for value in values:
        kind = type(value)
        if kind is ir.Var:
            found.append(value)
        elif kind in _NOTHING:
            continue
        elif isinstance(value, ir.Inst):
            found.extend(value.list_vars())
        elif isinstance(value, (list, tuple)):
            _variables(value, found)
        elif isinstance(value, dict):
            _variables(value.values(), found)
    return found


def variables_of_statement(self: ir.Stmt) -> list[Any]:
    return _variables(vars(self).values(), [])


def variables_of_expression(self: ir.Expr) -> list[Any]:
    return _variables(self._kws.values(), [])


def process(self: postproc.PostProcessor, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
    """Lifetimes are found when they are asked for; variables alive where a block begins only generators and Python objects need."""
    if emit_dels or self.func_ir.is_generator:
        _run_postprocessor(self, emit_dels, extend_lifetimes)
        return
    self.func_ir.blocks = transforms.canonicalize_cfg(self.func_ir.blocks)
    self.func_ir.variable_lifetime = postproc.VariableLifetime(self.func_ir.blocks)
    self.func_ir.generator_info = None


_signatures: dict[int, tuple[Any, dict[Any, Any]]] = {}  # of operators, by what they are given; each with the operator, so that it stays


def call_type(self: BaseFunction, context: Any, args: Any, kws: Any) -> Any:
    """The signature of an operator is found once for the types that it is given."""
    if kws or getattr(self.typing_key, "__module__", None) != "_operator":
        return _get_call_type(self, context, args, kws)
    _, known = _signatures.setdefault(id(self), (self, {}))
    args = tuple(args)
    if args not in known:
        known[args] = _get_call_type(self, context, args, kws)
    return known[args]


_hashes: dict[int, tuple[Any, int]] = {}  # of types, each with the type, so that it stays


def hash_of_tuple(self: types.BaseTuple) -> int:
    """Hashes of types of large tuples are asked for ten thousands of times, and found once."""
    known = _hashes.get(id(self))
    if known is None:
        known = _hashes[id(self)] = self, _hash(self)
    return known[1]


def short_name(self: BaseContext, name: str, types: Iterable[Any], *, abi_tags: Iterable[str] = (), uid: int | None = None) -> str:
    """What LLVM calls a function, with a digest of its types; written out those of a `State` take thousands of letters at each call."""
    digest = sha256(" ".join(one.name for one in types).encode()).hexdigest()[:16]
    return mangle(name, (), abi_tags=(*abi_tags, digest), uid=uid)


_sizes: dict[tuple[Any, int], int] = {}


def size_of(self: BaseContext, ty: Any) -> int:
    """LLVM is asked once for the size of a type; numba writes a module for each question."""
    asked = ty, id(self._internal_codegen)
    if asked not in _sizes:
        _sizes[asked] = _size(self, ty)
    return _sizes[asked]


_refreshed: dict[int, tuple[Any, list[int]]] = {}  # by the registries of a context; each with them, so that they stay


def _registered(registries: Iterable[Any]) -> list[int]:
    """What grows when something is told to numba: by a module that is imported, or by a decorator."""
    lists = [one for registry in registries for one in vars(registry).values() if isinstance(one, list)]
    return [len(sys.modules), *map(len, lists)]


def _if_new(refresh: Callable[[Any], None]) -> Callable[[Any], None]:
    """Contexts look for what is new before every function, and seldom find something."""

    def refresh_if_new(self: Any) -> None:
        _, before = _refreshed.get(id(self._registries), (None, None))
        now = _registered(self._registries)
        if now != before:
            refresh(self)
            _refreshed[id(self._registries)] = self._registries, now

    return refresh_if_new


UNHEARD = frozenset({"numba:llvm_lock", "numba:compiler_lock", "numba:run_pass"})  # what it only measures time by


def _but_unheard(tell: Callable[..., None]) -> Callable[..., None]:
    """Of what happens ten thousands of times numba tells all who began to compile and have not ended: each nested function's caller."""

    def tell_others(kind: str, *args: Any, **keywords: Any) -> None:
        if kind not in UNHEARD:
            tell(kind, *args, **keywords)

    return tell_others


QUICK = [
    (types.NamedTuple, "__hash__", hash_of_tuple), (BaseContext, "get_abi_sizeof", size_of), (BaseContext, "mangler", short_name),
    (BaseContext, "refresh", _if_new(BaseContext.refresh)), (TypingContext, "refresh", _if_new(TypingContext.refresh)),
    (ir.Stmt, "list_vars", variables_of_statement), (ir.Expr, "list_vars", variables_of_expression),
    (postproc.PostProcessor, "run", process), (BaseFunction, "get_call_type", call_type),
    (event, "start_event", _but_unheard(event.start_event)), (event, "end_event", _but_unheard(event.end_event)),
]

_is_quick = False


@contextmanager
def quickly() -> Iterator[None]:
    """Within the block numba compiles by `QUICK` and without the garbage collector.  Who enters it holds numba's lock of compilers."""
    global _is_quick
    if _is_quick:
        yield
        return
    slow = [(owner, name, vars(owner).get(name)) for owner, name, _ in QUICK]
    collects = gc.isenabled()
    _is_quick = True
    try:
        for owner, name, function in QUICK:
            setattr(owner, name, function)
        gc.disable()
        yield
    finally:
        for owner, name, function in slow:
            if function is None:  # inherited
                delattr(owner, name)
            else:
                setattr(owner, name, function)
        for known in (_hashes, _sizes, _refreshed):
            known.clear()
        if collects:
            gc.enable()
        _is_quick = False


@register_pass(mutates_CFG=True, analysis_only=False)
class KernelLowering(BaseNativeLowering):
    """numba's pass of the name `native_lowering`, for kernels that count no references."""

    _name = "kernel_lowering"

    @property
    def lowering_class(self) -> Any:
        return Lower


class KernelFlags(Flags):
    """Options of a compilation, which numba compares some hundred thousand times: by what is set alone, which is quick."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(frozenset(self._values))

    def __eq__(self, other: object) -> bool:
        return self._values == other._values if isinstance(other, KernelFlags) else super().__eq__(other)


class KernelCompiler(Compiler):
    """numba's passes for what this package compiles."""

    def __init__(self, typingctx: Any, targetctx: Any, library: Any, args: Any, return_type: Any, flags: Any, locals: Any):
        begins()
        super().__init__(typingctx, targetctx, library, args, return_type, KernelFlags(flags), locals)

    def compile_extra(self, func: Any) -> Any:
        self._has_closures = any(isinstance(constant, CodeType) for constant in func.__code__.co_consts)
        with quickly():
            return super().compile_extra(func)

    def define_pipelines(self) -> list[Any]:
        made = super().define_pipelines()
        if not self.state.flags.nrt:  # no array of its own, so no array expressions to rewrite
            without = {NopythonRewrites} if self._has_closures else {NopythonRewrites, InlineClosureLikes}
            for passes in made:
                kept = [(one, text) for one, text in passes.passes if one not in without]
                passes.passes = [(KernelLowering if one is NativeLowering else one, text) for one, text in kept]
                passes.finalize()
        return made


# What `nrmmix.kernels.compiler.backend.fits_numba` looks at: parameters of what is overridden or called, names that it reads.
OVERRIDDEN = {
    ir.Stmt.list_vars: "self", ir.Expr.list_vars: "self", _run_postprocessor: "self emit_dels extend_lifetimes",
    _get_call_type: "self context args kws", transforms.canonicalize_cfg: "blocks", postproc.VariableLifetime.__init__: "self blocks",
    Compiler.compile_extra: "self func", CompilerBase.define_pipelines: "self",
    Compiler.__init__: "self typingctx targetctx library args return_type flags locals", _hash: "self", _size: "self ty",
    BaseContext.refresh: "self", TypingContext.refresh: "self", BaseContext.mangler: "self name types abi_tags uid",
    mangle: "ident argtys abi_tags uid", event.start_event: "kind data", event.end_event: "kind data exc_details",
}
RELIED_ON = {
    ir.Stmt.list_vars: "_rec_list_vars __dict__", ir.Expr.list_vars: "_rec_list_vars _kws",
    _run_postprocessor: "canonicalize_cfg VariableLifetime variable_lifetime block_entry_vars is_generator generator_info _insert_var_dels",
    FunctionDescriptor.__init__: "mangled_name env_name argtypes", _hash: "key", _size: "get_abi_size target_data",
    CPUContext.target_data.fget: "_internal_codegen", event.trigger_event: "start_event",
    BaseContext.install_registry: "_registries new_registrations", TypingContext.install_registry: "_registries new_registrations",
    BaseNativeLowering.run_pass: "library get_executable insert_user_function targetctx", Flags.__init__: "_values update",
}
