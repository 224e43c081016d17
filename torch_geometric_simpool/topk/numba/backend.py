"""The top k on a CPU: edges are turned into descriptions, and the kernels do the rest."""

from typing import NamedTuple, Optional

import numpy as np
import torch
from torch import Tensor

from torch_geometric_simpool.topk.backend import Cost
from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.measures import SPARSE_MEASURES
from torch_geometric_simpool.topk.numba import csr, plan, threads
from torch_geometric_simpool.topk.numba.best import Options
from torch_geometric_simpool.topk.numba.describe import Description, describe
from torch_geometric_simpool.topk.numba.rows import SHORT, new_scratch, topk_rows
from torch_geometric_simpool.topk.spec import EdgeList, TopKSettings
from torch_geometric_simpool.utils.rounding import smallest_value


class NumbaGraph(NamedTuple):
    """A graph whose rows can be computed."""

    description: Description

    def topk(
        self,
        nodes: Optional[Tensor],
        k: int,
        settings: TopKSettings,
        budget: Budget,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        """Returns values and indices, `[M, k]`, of the rows of `nodes`, or of all."""
        rows = plan.rows_of(self.description, nodes)
        budget.check_products(rows.num_products)
        budget.check_memory(self._memory(k, rows))
        shape = rows.numbers.size, k
        values = np.empty(shape, np.float64 if dtype == torch.float64 else np.float32)
        index = np.empty(shape, np.int64)
        graph, code = self.description, SPARSE_MEASURES[settings.measure].code
        options = Options(k, settings.loop, code, smallest_value(dtype), SHORT)
        threads.run(
            topk_rows,
            threads.blocks(rows.work),
            graph,
            options,
            rows,
            values,
            index,
            new_scratch=lambda: (new_scratch(graph, k),),
        )
        return settings.cut(torch.from_numpy(values).to(dtype), torch.from_numpy(index))

    def cost(self, nodes: Optional[Tensor], k: int, budget: Budget) -> Cost:
        """Returns the cost of :meth:`topk`."""
        rows = plan.rows_of(self.description, nodes)
        return Cost(rows.num_products, self._memory(k, rows))

    def _memory(self, k: int, rows: plan.Rows) -> int:
        scratch = torch.get_num_threads() * csr.num_bytes(new_scratch(self.description, k))
        return max(self.description.building_memory, csr.num_bytes((self, rows)) + scratch)


def prepare(
    edges: EdgeList,
    settings: TopKSettings,
    budget: Budget,
    candidates: Optional[Tensor] = None,
) -> NumbaGraph:
    """Returns the graph, whose rows can be computed."""
    description = describe(edges, settings, budget)
    if settings.max_degree is not None or candidates is not None:
        num_entries = description.sides.first.rows.col.size
        memory = plan.BYTES_TO_SELECT * num_entries + 2 * csr.num_bytes(description)
        budget.check_memory(memory)
        chosen = None if candidates is None else candidates.numpy()
        description = plan.select(description, settings.max_degree, chosen)._replace(
            building_memory=max(memory, description.building_memory)
        )
    return NumbaGraph(description)
