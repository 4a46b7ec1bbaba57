"""How a dataset's page looks: light and dark, on paper and on a telephone, and nothing from anywhere else."""

from __future__ import annotations

from typing import Final

# `default-src 'none'`: were a script or an image to get in, a browser would not take it.
HEAD: Final = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{style}</style></head><body>"""

STYLE: Final = """
:root{color-scheme:light dark;--ink:#1c2330;--soft:#5b6675;--paper:#fdfdfb;--line:#d9dde3;--tile:#f1f4f7;--bar:#2f6f9f}
@media (prefers-color-scheme:dark){:root{--ink:#e6e9ee;--soft:#a3adba;--paper:#14181e;--line:#343c47;--tile:#1d232b;--bar:#6db3e3}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:64rem;padding:1.5rem;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.7rem;margin:0;overflow-wrap:anywhere}h2{font-size:1.2rem;margin:2.2rem 0 .6rem;border-bottom:1px solid var(--line)}
h3{font-size:1rem;margin:1.2rem 0 .3rem;overflow-wrap:anywhere}
header p,figcaption,.more,caption{color:var(--soft);font-size:.9rem;margin:.2rem 0}
code,pre{font:.85em/1.45 ui-monospace,monospace;overflow-wrap:anywhere}
pre{background:var(--tile);padding:.8rem;border-radius:.4rem;white-space:pre-wrap;max-height:24rem;overflow:auto;margin:.4rem 0}
.tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(11rem,1fr));gap:.7rem;padding:0;margin:1.2rem 0;list-style:none}
.tiles li{background:var(--tile);border-radius:.5rem;padding:.7rem .9rem}.tiles b{display:block;font-size:1.25rem;font-variant-numeric:tabular-nums}
.tiles span{color:var(--soft);font-size:.9rem}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.92rem}
th,td{text-align:left;padding:.25rem .7rem .25rem 0;border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:anywhere}
th{color:var(--soft);font-weight:600}.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
dl{margin:.3rem 0}dl div{display:grid;grid-template-columns:minmax(9rem,17rem) 1fr;gap:.2rem 1rem;padding:.2rem 0;border-bottom:1px solid var(--line)}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
figure{margin:0}svg{width:100%;height:auto;display:block}svg rect{fill:var(--bar)}
svg text{fill:var(--soft);font:11px system-ui,sans-serif;text-anchor:middle}
summary{cursor:pointer;color:var(--soft)}
@media (max-width:40rem){dl div{grid-template-columns:1fr}}
@media print{pre{max-height:none}body{max-width:none}}
"""
