"""Parts of compiled loops: lowered once, then optimised and made into machine code only in the loop that they are put
into.

Numba does all of that for each function by itself, and again for what calls it, level by level: half of the time that a
loop took to compile. And in the process that compiled a loop it bound calls to the parts as they were compiled alone,
in others to their copies in the loop, so that results could differ in their last bits.
"""

from __future__ import annotations

from typing import Any

from numba.core import compiler
from numba.core.codegen import CPUCodegen, JITCodeLibrary
from numba.core.compiler_machinery import AnalysisPass, PassManager, register_pass
from numba.core.typed_passes import AnnotateTypes

NOWHERE = 0  # the address of a function that has no machine code of its own


class _WithoutEnvironments:
    """A code generator for which no Python object is kept beside a function: nothing in a part asks for one."""

    def __init__(self, codegen: CPUCodegen):
        self._codegen = codegen

    def __getattr__(self, name: str) -> object:
        return getattr(self._codegen, name)

    def set_env(self, name: str, environment: object) -> None:
        pass


class Part(JITCodeLibrary):
    """The code of a part, which waits for what calls it."""

    _final_module: Any
    _finalized: bool

    @property
    def codegen(self) -> Any:
        return _WithoutEnvironments(self._codegen)

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return NOWHERE


@register_pass(mutates_CFG=False, analysis_only=True)
class _BeginPart(AnalysisPass):
    """The library that a function is lowered into is a `Part`."""

    _name = "begin_part"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> Any:
        state.library = Part(state.targetctx.codegen(), state.func_id.func_qualname)
        return False


class PartCompiler(compiler.CompilerBase):
    """Numba's own way, but for the library."""

    def define_pipelines(self) -> list[PassManager]:
        passes = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_BeginPart, AnnotateTypes)
        passes.finalize()
        return [passes]
