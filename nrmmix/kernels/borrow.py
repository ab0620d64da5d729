"""Arrays without an owner.

Counting references costs more than scoring a cluster: each view and each call counts atomically.  Python holds every array of a chain while the
chain runs, so kernels work on copies of the array headers that have nothing to count.
"""

from __future__ import annotations

from numba.core import cgutils
from numba.extending import intrinsic

from nrmmix.kernels.jit import JIT, kernel
from nrmmix.kernels.state import Data, Rows, State

if JIT:

    @intrinsic
    def _unowned(typingctx, array):
        """The same array without its owner."""

        def codegen(context, builder, signature, args):
            header = context.make_array(signature.return_type)(context, builder, value=args[0])
            header.meminfo = cgutils.get_null_value(header.meminfo.type)
            header.parent = cgutils.get_null_value(header.parent.type)
            return header._getvalue()

        return array(array), codegen

else:

    def _unowned(array):
        return array


@kernel
def borrow_rows(r):
    return Rows(_unowned(r.y), _unowned(r.indptr), _unowned(r.indices), _unowned(r.counts), _unowned(r.constant))


@kernel
def borrow_data(d):
    return Data(
        borrow_rows(d.rows), _unowned(d.block), _unowned(d.alone), _unowned(d.group), _unowned(d.group_size),
        _unowned(d.distance), _unowned(d.R0), _unowned(d.hyperprior), _unowned(d.setup),
    )


@kernel
def borrow_state(s):
    return State(
        _unowned(s.labels), _unowned(s.size), _unowned(s.stat), _unowned(s.location), _unowned(s.reach), _unowned(s.where), _unowned(s.log_weight),
        _unowned(s.log_size), _unowned(s.v), _unowned(s.A), _unowned(s.log_new), _unowned(s.log_R0), _unowned(s.log_b), _unowned(s.exposure), _unowned(s.K), _unowned(s.log_K),
        _unowned(s.hyper), _unowned(s.num), _unowned(s.score), _unowned(s.work), _unowned(s.plane), _unowned(s.trial),
        _unowned(s.log_trial), _unowned(s.region), _unowned(s.chosen), _unowned(s.carried),
    )
