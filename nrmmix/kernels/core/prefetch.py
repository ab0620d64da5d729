"""Rows of a large matrix that will be read soon, asked for from memory while other work is done."""

from __future__ import annotations

from nrmmix.kernels.core.jit import JIT, inlined

LINE = 8  # numbers in a cache line

if JIT:
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    @intrinsic
    def _ask_for(typingctx, row, p):
        """Ask for the cache line of row[p]."""

        def codegen(context, builder, signature, arguments):
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            number, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
            form = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
            function = cgutils.get_or_insert_function(builder.module, form, "llvm.prefetch.p0")
            place = builder.bitcast(builder.gep(array.data, [arguments[1]]), pointer)
            builder.call(function, [place, number(0), number(3), number(1)])  # to read, into all levels of the cache of data
            return context.get_dummy_value()

        return types.void(row, types.int64), codegen

    @inlined
    def prefetch(row):
        """Begin to load a row, which has no effect on any number: rows that are visited in random order have to be waited for else."""
        for p in range(0, row.shape[0], LINE):
            _ask_for(row, p)

else:

    def prefetch(row):
        """Nothing to be done in plain Python."""
