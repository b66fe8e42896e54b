"""Compile the parts of a kernel, its inner functions, for the kernel alone.

Numba generates machine code for every compiled function and all that it calls, in case Python calls it, and does so
again for each of its callers. Python never calls a part: the part is only simplified and linked into the kernel, which
is optimised once as a whole. Compiling takes little more than half the time.

This subclasses internal classes of numba, which may change: with an untested version of numba, parts are compiled like
any other function.
"""

from __future__ import annotations

import re
from typing import Any

import numba

TESTED = (0, 62), (0, 68)
"""The first and the last version of numba that this was tested with."""


def make_part_compiler() -> type | None:
    """Return the compiler class of parts, or None if the version of numba was not tested."""
    found = re.match(r"(\d+)\.(\d+)", numba.__version__)
    version = tuple(int(number) for number in found.groups()) if found else (0, 0)
    return _define_compiler() if TESTED[0] <= version <= TESTED[1] else None


def _define_compiler() -> type:
    from numba import _dynfunc  # type: ignore[attr-defined]
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import CompilerBase, DefaultPassBuilder
    from numba.core.compiler_machinery import register_pass
    from numba.core.typed_passes import NativeLowering

    class PartLibrary(JITCodeLibrary):  # type: ignore[misc]
        """Code that is only linked into other code."""

        def _optimize_functions(self, ll_module: Any) -> None:
            ll_module.data_layout = self._codegen._data_layout

        def _optimize_final_module(self) -> None:
            passes, builder = self._codegen._module_pass_manager(
                loop_vectorize=False, slp_vectorize=False, opt=1, cost="cheap"
            )
            passes.run(self._final_module, builder)

        def _finalize_final_module(self) -> None:
            self._finalize_dynamic_globals()
            self._verify_declare_only_symbols()
            self._finalized = True

    @register_pass(mutates_CFG=True, analysis_only=False)
    class PartLowering(NativeLowering):  # type: ignore[misc]
        """Lower a part, and register it for its callers under a function that Python cannot call."""

        _name = "part_lowering"

        def run_pass(self, state: Any) -> bool:
            state.library = PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
            state.flags.no_compile = True
            super().run_pass(state)
            lowered = state["cr"]
            name = lowered.fndesc.qualname.split(".")[-1]
            key = _dynfunc.make_function(lowered.fndesc.lookup_module(), name, "", 0, lowered.env, (state.library,))
            state.targetctx.insert_user_function(key, lowered.fndesc, [state.library])
            state["cr"] = lowered._replace(cfunc=key)
            return True

    class PartCompiler(CompilerBase):  # type: ignore[misc]
        """Numba's pipeline with a different last step."""

        def define_pipelines(self) -> list[Any]:
            pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state)
            pipeline.passes = [(PartLowering if step is NativeLowering else step, why) for step, why in pipeline.passes]
            pipeline._finalized = False
            pipeline.finalize()
            return [pipeline]

    return PartCompiler
