"""How kernels become machine code: each root once, with all that it calls, and nothing else.

numba optimises a function, and makes machine code of it and of a wrapper for Python, also where only other compiled functions call it,
each of which has its code optimised and emitted again.  Here a function that a kernel calls is typed and lowered, and waits as LLVM bitcode
for roots: kernels that Python calls, and entry points.  A root links all that it reaches, and one pass over the whole makes its machine
code.  So a kernel is two dispatchers: the one that Python calls, a root, kept in the cache on disk; and its twin `nested`, which other
compiled functions see by the same name.  A root is made of unoptimised parts, whatever was compiled or loaded before, so that its last bits
do not depend on that.

Only what is compiled through the decorators of `nrmmix.kernels.core.jit` is made so; numba stays as it is for all else.  What is used of
numba here is not promised to stay: where `fits_numba` says no, kernels are compiled in numba's own way, which gives the same numbers but
takes longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

from llvmlite import ir
from llvmlite.binding import Linkage, parse_assembly
from numba import types
from numba.core import codegen
from numba.core.ccallback import CFunc
from numba.core.compiler_lock import require_global_compiler_lock
from numba.core.cpu import CPUContext
from numba.core.environment import Environment, lookup_environment
from numba.core.registry import CPUDispatcher
from numba.core.sigutils import normalize_signature
from numba.core.typing.templates import _OverloadFunctionTemplate

from nrmmix.kernels.compiler import disk, lowering, pipeline, structs
from nrmmix.kernels.compiler.ahead import wait_for
from nrmmix.kernels.compiler.disk import Cache, on_disk
from nrmmix.kernels.compiler.pipeline import KernelCompiler

OPTIONS: dict[str, Any] = {"nopython": True, "boundscheck": None}  # numba's own
WITHOUT_WRAPPERS = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
UNRESOLVED = ".numba.unresolved$"  # pointers by which numba makes recursive calls
WRAPPERS = "_ZN7cpython", "cfunc."  # begin names of what is called from outside: by Python, and by an address


def fits_numba() -> bool:
    """Whether numba is as this module knows it (0.68): methods that it overrides or calls, and what those that it relies on read."""
    library = codegen.JITCodeLibrary
    parameters = {
        library.finalize: "self", library._ensure_finalized: "self", library._get_module_for_linking: "self",
        library._optimize_final_module: "self", library._finalize_final_module: "self", library._raise_if_finalized: "self",
        library.enable_object_caching: "self", library.__init__: "self codegen name", codegen.CPUCodegen._check_llvm_bugs: "self",
        codegen.CPUCodegen._module_pass_manager: "self kwargs", codegen.JITCPUCodegen.set_env: "self env_name env",
        CPUContext.get_executable: "self library fndesc env", CPUContext.subtarget: "self kws",
        CPUDispatcher.__init__: "self py_func locals targetoptions pipeline_class", CPUDispatcher.get_call_template: "self args kws",
        CPUContext.create_cpython_wrapper: "self library fndesc env call_helper release_gil",
        CFunc.__init__: "self pyfunc sig locals options pipeline_class", lookup_environment: "env_name",
        Environment.from_fndesc.__func__: "cls fndesc", library._optimize_functions: "self ll_module",
        _get_jit_decorator: "self",
        **disk.OVERRIDDEN, **structs.OVERRIDDEN, **lowering.OVERRIDDEN, **pipeline.OVERRIDDEN,
    }
    reads = {
        library.finalize: "_linking_libraries _reload_init _final_module link_in _get_module_for_linking _optimize_final_module verify",
        library._get_module_for_linking: "_ensure_finalized _shared_module _final_module clone linkage",
        library._optimize_final_module: "_module_pass_manager _recorded_timings record run _final_module",
        library.add_linking_library: "_ensure_finalized _linking_libraries",
        library._optimize_functions: "data_layout functions _function_pass_manager run", library.add_llvm_module: "_optimize_functions",
        CPUDispatcher.compile: "_cache load_overload save_overload _compiler compile overloads",
        CFunc.compile: "_cache load_overload save_overload",
        library.serialize_using_object_code: "_get_compiled_object _get_module_for_linking as_bitcode",
        library._unserialize.__func__: "_set_compiled_object parse_bitcode _load_defined_symbols",
        _OverloadFunctionTemplate._build_impl: "_get_jit_decorator _jit_options",
        **disk.RELIED_ON, **structs.RELIED_ON, **lowering.RELIED_ON, **pipeline.RELIED_ON,
    }
    codes = {function: getattr(function, "__wrapped__", function).__code__ for function in (*parameters, *reads)}
    return all(
        codes[function].co_varnames[: len(names.split())] == tuple(names.split()) and codes[function].co_argcount <= len(names.split())
        for function, names in parameters.items()
    ) and all(set(names.split()) <= set(codes[function].co_names) for function, names in reads.items())


class Library(codegen.JITCodeLibrary):
    """The code of one root, or of one nested function."""

    def parts(self, seen: set[Any]) -> Iterator[Any]:
        """All libraries that this one needs, each once, after those that it needs itself."""
        for library in self._linking_libraries:
            if library not in seen:
                seen.add(library)
                if isinstance(library, Nested):
                    yield from library.parts(seen)
                yield library

    def _optimize_functions(self, module: Any) -> None:
        """Not yet: where a root is optimised its functions are, together with those that call them."""
        module.data_layout = self._codegen._data_layout

    def link_parts(self, module: Any) -> None:
        for part in reversed(list(self.parts(set()))):  # callers first: LLVM leaves out what nothing asks for yet
            self._reload_init.update(part._reload_init)
            module.link_in(part.own_module() if isinstance(part, Nested) else part._get_module_for_linking(), preserve=True)


class Root(Library):
    """What Python or an address calls."""

    counts_references = False

    @classmethod
    def empty(cls, context: Any, name: str, counts_references: bool) -> Root:
        made = cls(context.codegen(), name)
        made.counts_references = counts_references
        made.enable_object_caching()
        return made

    def finalize(self) -> None:
        require_global_compiler_lock()
        self._codegen._check_llvm_bugs()
        self._raise_if_finalized()
        self.link_parts(self._final_module)
        self._check_linked()
        self._optimize_final_module()
        self._final_module.verify()
        self._finalize_final_module()
        for variable in self._final_module.global_variables:
            environment = lookup_environment(variable.name) if variable.name.startswith("_ZN08NumbaEnv") else None
            if environment is not None:
                self._codegen.set_env(variable.name, environment)

    def _check_linked(self) -> None:
        """All is there, for LLVM would end the process; and what is called by a pointer that is filled in afterwards stays there.

        The function itself is asked for by its wrapper alone.  Where LLVM does not know that, it makes machine code of it twice: within the
        wrapper, and for callers elsewhere.
        """
        later = {v.name[len(UNRESOLVED) :] for v in self._final_module.global_variables if v.name.startswith(UNRESOLVED)}
        for function in self._final_module.functions:
            if function.is_declaration and function.name.startswith("_ZN"):
                raise RuntimeError(f"{self.name} was not linked with {function.name}")
            if function.name in later and not function.is_declaration:
                function.linkage = "weak_odr"
            elif not (function.name.startswith(WRAPPERS) or function.is_declaration) and function.linkage == Linkage.external:
                function.linkage = "internal"

    def _get_module_for_linking(self) -> Any:
        """What numba keeps on disk beside the machine code: names alone, for no other code is linked with a root."""
        self._ensure_finalized()
        outline, final = ir.Module(self.name), self._final_module
        for one in (*final.functions, *final.global_variables):
            if not one.is_declaration and one.linkage != Linkage.internal:
                ir.GlobalVariable(outline, ir.IntType(8), one.name).initializer = ir.IntType(8)(0)
        return parse_assembly(str(outline))

    def _optimize_final_module(self) -> None:
        if self.counts_references:
            super()._optimize_final_module()
            return
        passes, builder = self._codegen._module_pass_manager()  # without the cheap pass before it, which is for counting references
        with self._recorded_timings.record("Module passes (full optimization)", builder):
            passes.run(self._final_module, builder)


class Nested(Library):
    """A function that waits for roots.  It is never finished, for nobody calls it by an address."""

    _whole: Any = None
    _is_linkable = False

    def _ensure_finalized(self) -> None:
        """It can be linked as it is."""

    def get_pointer_to_function(self, name: str) -> int:
        raise RuntimeError(f"{name} has no machine code of its own")

    def own_module(self) -> Any:
        """Of this function alone: no copy, as numba would make, for it is never emitted."""
        if not self._is_linkable:
            for function in self._final_module.functions:
                if not function.is_declaration and function.linkage == Linkage.external:
                    function.linkage = "linkonce_odr"
            self._is_linkable = True
        return self._final_module

    def _get_module_for_linking(self) -> Any:
        """Of this function and all that it calls, as a function asks for it that is compiled in numba's own way."""
        if self._whole is None:
            self._whole = self.own_module().clone()
            self.link_parts(self._whole)
        return self._whole


class EntryCompiler(KernelCompiler):
    """For what has an address, with the code going into a `Root`."""

    def compile_extra(self, func: Callable[..., Any]) -> Any:
        context = self.state.targetctx  # this compilation's own copy
        context.create_cfunc_wrapper = lambda library, fndesc, env, call_helper: structs.wrap_entry(context, library, fndesc)
        self.state.library = Root.empty(context, func.__qualname__, bool(self.state.flags.nrt))
        return super().compile_extra(func)


class NestedCompiler(KernelCompiler):
    """For what other compiled functions call, with the code going into a `Nested`, and nothing made that Python could call."""

    def compile_extra(self, func: Callable[..., Any]) -> Any:
        context = self.state.targetctx  # this compilation's own copy
        context.get_executable = lambda library, fndesc, env: {}.__getitem__  # a key for numba, never called
        self.state.library = Nested(context.codegen(), func.__qualname__)
        return super().compile_extra(func)


class NestedDispatcher(CPUDispatcher):
    """What compiled functions call.  A constant among its arguments is a number like others; numba would compile it once for each."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        return super().get_call_template(tuple(map(types.unliteral, args)), {name: types.unliteral(one) for name, one in kws.items()})


def as_nested(self: _OverloadFunctionTemplate) -> Callable[..., Any]:
    """The decorator for numba's own functions that a kernel calls, such as `max` and `Generator.random`: they wait for roots too."""

    def decorator(**options: Any) -> Callable[..., Any]:
        if options.keys() - OPTIONS.keys() - WITHOUT_WRAPPERS.keys():  # it asks for something
            return _get_jit_decorator(self)(**options)  # type: ignore[no-any-return]
        return lambda function: CPUDispatcher(function, {}, OPTIONS | WITHOUT_WRAPPERS, pipeline_class=NestedCompiler)

    return decorator


_get_jit_decorator = _OverloadFunctionTemplate._get_jit_decorator
pipeline.QUICK.append((_OverloadFunctionTemplate, "_get_jit_decorator", as_nested))


class Kernel(CPUDispatcher):
    """What Python calls; `nested` is what compiled functions call by the same name."""

    def __init__(self, py_func: Any, locals: Any = None, targetoptions: Any = None, pipeline_class: Any = NestedCompiler):
        super().__init__(py_func, locals, targetoptions, pipeline_class)
        self.nested = NestedDispatcher(py_func, locals, (targetoptions or {}) | WITHOUT_WRAPPERS, pipeline_class)
        self._compiler.compile = self._wrapped

    def compile(self, sig: Any) -> Any:
        wait_for(self.py_func)
        return super().compile(sig)

    def is_ready_for(self, types: tuple[Any, ...]) -> bool:
        """Whether it is compiled, or on disk, for arguments of these types."""
        return types in self.overloads or on_disk(self.py_func, types)

    def _wrapped(self, args: tuple[Any, ...], return_type: Any) -> Any:
        """The nested function behind a wrapper for Python."""
        self.nested.compile(args)
        inner = self.nested.overloads[args]
        context, described = inner.target_context, copy(inner.fndesc)
        described.env_name += "root"  # what the wrapper keeps of Python's objects is not in files of roots that call the same function
        environment = Environment.from_fndesc(described)
        library = Root.empty(context, described.qualname, bool(self.targetoptions.get("_nrt", True)))
        library.add_linking_library(inner.library)
        if not library.counts_references:
            context.get_python_api = lambda builder: structs.FromPython(context, builder)
        context.create_cpython_wrapper(library, described, environment, inner.call_helper, bool(self.targetoptions.get("nogil")))
        entry_point = self.targetctx.get_executable(library, described, environment)
        return inner._replace(library=library, entry_point=entry_point, fndesc=described, environment=environment, metadata=None)

    @property
    def _numba_type_(self) -> types.Dispatcher:
        return types.Dispatcher(self.nested)

    @property
    def signatures(self) -> list[Any]:
        """By which it has been compiled, for Python or for other kernels."""
        return list(dict.fromkeys([*self.overloads, *self.nested.overloads]))


def cached(made: Any, function: Callable[..., Any]) -> Any:
    """With a cache on disk, unless the function has no file."""
    try:
        made._cache = Cache(function)
    except RuntimeError:
        pass
    return made


def kernel(function: Callable[..., Any], options: dict[str, Any]) -> Kernel:
    """As `numba.njit(cache=True, **options)(function)`."""
    return cached(Kernel(function, None, OPTIONS | options), function)


def callback(signature: Any, function: Callable[..., Any], options: dict[str, Any]) -> CFunc:
    """As `numba.cfunc(signature, cache=True, **options)(function)`."""
    made = cached(CFunc(function, normalize_signature(signature), {}, options, pipeline_class=EntryCompiler), function)
    made.compile()
    return made
