"""Fit whether a tool fits a question, on tool_bfcl, and write rag_graph/tools/fitting.json.

python -m bench.tool_fit
"""

import asyncio
import json

from bench.corpus import available, load
from bench.decision import VECTORS
from bench.provenance import ROOT
from rag_graph.evaluation.tools import fitted, fitting
from rag_graph.evaluation.vectors import KeptEmbedder
from store.embedding import LocalEmbedder

FITTING = ROOT / "rag_graph/tools/fitting.json"
SET = "tool_bfcl"


async def fit() -> None:
    embedder = KeptEmbedder(LocalEmbedder(), VECTORS)
    rows = await fitting(load(SET), embedder)
    await embedder.save()
    right = [found for query, best, found in rows if best in query["answer"]]
    none = [found for query, _, found in rows if not query["answer"]]
    model = {"set": SET, "command": "python -m bench.tool_fit", **fitted(right, none)}
    FITTING.write_text(json.dumps(model, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(model, indent=2))


if __name__ == "__main__":
    if available(SET):
        asyncio.run(fit())
    else:
        print(f"not fitted: ../shared/data/{SET} is not there")
