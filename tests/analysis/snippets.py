"""Small kernels for the analyses."""

from zluda_rr.analysis import Origins, Values
from zluda_rr.ptx import Body, ControlFlow, DefUse, linearise, parse

_HEAD = """.version 9.0
.target sm_89
.address_size 64

.visible .entry kernel(
	.param .align 8 .b8 kernel_param_0[1032]
)
{
	.reg .pred %p<40>;
	.reg .b16 %rs<80>;
	.reg .f32 %f<40>;
	.reg .b32 %r<400>;
	.reg .b64 %rd<80>;
	.shared .align 16 .b8 tile[3200];
	.shared .align 16 .b8 other[800];
"""


class Snippet:
    """A kernel with the given statements (a `ret` is added), and its analyses."""

    def __init__(self, lines: str, block: tuple[int, int, int] | None = (32, 1, 1)) -> None:
        module = parse(_HEAD + lines + "\n\tret;\n}\n")
        self.body: Body = linearise(module.entries[0], module)
        self.flow = ControlFlow(self.body)
        self.uses = DefUse(self.body, self.flow)
        self.values = Values(self.body, self.uses, block)
        self.origins = Origins(self.body, self.values)

    def number(self, text: str, occurrence: int = 0) -> int:
        """Statement number of the n-th statement that contains `text`."""
        return [s.number for s in self.body.statements if s.instruction is not None and text in s.text][occurrence]
