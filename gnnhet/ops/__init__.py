"""Operations on blocks that models share."""

from gnnhet.ops.adjacency import compact_rows, mean_adjacency, with_self_loops
from gnnhet.ops.dropout import keyed_dropout

__all__ = ["compact_rows", "keyed_dropout", "mean_adjacency", "with_self_loops"]
