"""The style of the report's page."""

STYLE = """
:root { color-scheme: light dark; --ink: #1c2733; --soft: #5b6b7b; --line: #d5dce3; --paper: #ffffff; --panel: #f4f6f8;
  --kept: #2a7f8e; --read: #c3ccd5; --dropped: #b5532d; --warn: #fdf3dc; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e8ed; --soft: #9aa8b5; --line: #36424e; --paper: #14191f;
  --panel: #1d242c; --kept: #4fb3c1; --read: #46525e; --dropped: #e08a63; --warn: #3a2f14; } }
body { margin: 0 auto; max-width: 70rem; padding: 1.5rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1rem 0 .3rem; }
p { margin: .3rem 0; max-width: 50rem; }
.lead { font-size: 1.1rem; }
.soft, figcaption { color: var(--soft); }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 500; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.bar { width: 35%; min-width: 6rem; }
.bar div { height: .8rem; margin-top: .35rem; background: var(--read); print-color-adjust: exact;
  -webkit-print-color-adjust: exact; }
.bar i { display: block; height: 100%; background: var(--kept); print-color-adjust: exact;
  -webkit-print-color-adjust: exact; }
.bar.dropped div { background: none; }
.bar.dropped i { background: var(--dropped); }
.warnings { background: var(--warn); padding: .6rem 1rem; margin: 1rem 0; border-radius: 4px; }
.warnings h2 { margin: 0; }
.warnings ul { margin: .3rem 0; padding-left: 1.2rem; }
.charts, .beside { display: grid; grid-template-columns: repeat(auto-fit, minmax(19rem, 1fr)); gap: 1rem 2rem; }
.beside { grid-template-columns: repeat(auto-fit, minmax(24rem, 1fr)); }
.charts svg { width: 100%; max-width: 26rem; height: auto; }
.charts text { font: 10px system-ui, sans-serif; fill: var(--soft); }
.charts .title { font-weight: 600; fill: var(--ink); }
.charts .read { fill: var(--read); }
.charts .kept { fill: var(--kept); }
.charts .axis { stroke: var(--soft); }
.key { display: inline-block; width: .8rem; height: .8rem; vertical-align: -.1rem; print-color-adjust: exact;
  -webkit-print-color-adjust: exact; }
details { border: 1px solid var(--line); border-radius: 4px; padding: .4rem 1rem; margin: .5rem 0; }
summary { cursor: pointer; font-weight: 600; }
details[open] > summary { margin-bottom: .5rem; }
dl { margin: 0; }
dt { color: var(--soft); margin-top: .5rem; font-size: .85rem; }
dd { margin: 0; padding-left: .6rem; border-left: 3px solid var(--kept); }
dd.dropped { border-color: var(--dropped); }
dd + dd { margin-top: .15rem; }
pre { background: var(--panel); padding: .6rem 1rem; white-space: pre-wrap; border-radius: 4px; }
@media print { body { max-width: none; padding: 0; font-size: 11px; } tr, dl, svg { break-inside: avoid; }
  h1, h2, h3, .legend { break-after: avoid; } .charts { grid-template-columns: repeat(3, 1fr); } }
"""
