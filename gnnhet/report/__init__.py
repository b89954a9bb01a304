"""What a run leaves behind and shows meanwhile: records, a picture, progress."""

from gnnhet.report.picture import draw
from gnnhet.report.progress import Progress, track
from gnnhet.report.records import RunFolder

__all__ = ["Progress", "RunFolder", "draw", "track"]
