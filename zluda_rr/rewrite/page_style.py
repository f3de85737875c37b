"""Style sheet of the report page: one palette for light and one for dark, no external resources."""

STYLE = """
:root { color-scheme: light dark;
  --bg: #f7f8fa; --card: #ffffff; --ink: #1b2230; --soft: #5b6577; --line: #d9dee7; --track: #eceff4;
  --k-mma: #2f5bd0; --k-softmax: #b3396b; --k-norm: #7b4fc9; --k-activation: #c2610c; --k-pack: #0f8a7e;
  --k-loads: #7c8799; --k-add: #3f8f2f; --k-store: #a88400; --k-exchange: #0b7fb5; --k-stencil: #9a3f2e;
  --k-loose: #d12f2f; --ok: #23803a; --bad: #c42b2b; }
@media (prefers-color-scheme: dark) { :root {
  --bg: #12151b; --card: #1a1f28; --ink: #e6eaf2; --soft: #98a3b5; --line: #2e3644; --track: #252c38;
  --k-mma: #7ea2ff; --k-softmax: #f07aa8; --k-norm: #b795ff; --k-activation: #ff9d4d; --k-pack: #3fcdbd;
  --k-loads: #8f9bb0; --k-add: #86d26f; --k-store: #e3bf3d; --k-exchange: #59c0f0; --k-stencil: #ef8a74;
  --k-loose: #ff6b6b; --ok: #5fd07a; --bad: #ff7b7b; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--bg); color: var(--ink); font: 14px/1.5 system-ui, "Segoe UI", sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 28px 24px 60px; }
h1 { font-size: 22px; margin: 0 0 4px; } h2 { font-size: 16px; margin: 0 0 12px; }
.soft, figcaption { color: var(--soft); } figcaption { font-size: 12.5px; margin-top: 8px; }
code, .mono { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: 12.5px; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 18px 20px;
  margin-top: 18px; overflow-x: auto; }
.entry { margin-top: 40px; border-top: 2px solid var(--line); padding-top: 22px; }
.entry > h1 { overflow-wrap: anywhere; }
.facts { display: flex; flex-wrap: wrap; gap: 10px; margin-top: 14px; }
.fact { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 8px 14px; }
.fact b { display: block; font-size: 19px; line-height: 1.3; font-variant-numeric: tabular-nums; }
.pill { display: inline-block; border-radius: 99px; padding: 1px 10px; font-size: 12.5px; border: 1px solid; }
.ok { color: var(--ok); } .bad { color: var(--bad); } figure { margin: 0; }
svg { display: block; max-width: 100%; height: auto; }
svg text { fill: var(--ink); font: 11px system-ui, sans-serif; } svg .soft { fill: var(--soft); }
svg .on { fill: var(--card); font-weight: 600; } svg .axis { stroke: var(--line); } svg .box { fill: var(--track); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; color: var(--soft); font-weight: 600; font-size: 12.5px; border-bottom: 1px solid var(--line); }
th, td { padding: 4px 10px 4px 0; vertical-align: top; } td { border-bottom: 1px solid var(--track); }
td.n, th.n { text-align: right; } td.mono { white-space: nowrap; }
tr.differs td { background: color-mix(in srgb, var(--bad) 12%, transparent); }
.legend { display: flex; flex-wrap: wrap; gap: 4px 16px; font-size: 12.5px; color: var(--soft); margin-top: 10px; }
.legend i { display: inline-block; width: 10px; height: 10px; border-radius: 3px; margin-right: 6px; }
.op { display: inline-block; margin-right: 10px; } .op i { display: inline-block; width: 8px; height: 8px;
  border-radius: 2px; margin-right: 5px; } details > summary { cursor: pointer; font-weight: 600; }
"""
