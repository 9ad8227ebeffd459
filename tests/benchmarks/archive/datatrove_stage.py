"""
One stage of datatrove's MinHash pipeline, with its executor and its defaults, by the Python of its
own environment:

    python datatrove_stage.py signatures|buckets|clusters|filter FOLDER TASKS WORKERS

FOLDER/in has the documents, a file for each task. Clusters are written with their numbers, so that
it can be told for which document another one leaves.
"""

import sys
from pathlib import Path

from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.base import PipelineStep
from datatrove.pipeline.dedup import MinhashDedupSignature
from datatrove.pipeline.dedup.minhash import (
    MinhashConfig,
    MinhashDedupBuckets,
    MinhashDedupCluster,
    MinhashDedupFilter,
)
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter


def main(stage: str, folder: Path, tasks: int, workers: int) -> None:
    """Run a stage."""
    config = MinhashConfig()
    signatures, buckets, clusters = (
        str(folder / name) for name in ("signatures", "buckets", "clusters")
    )
    reader = JsonlReader(str(folder / "in"), id_key="doc_id")
    stages: dict[str, tuple[list[PipelineStep], int]] = {
        "signatures": ([reader, MinhashDedupSignature(signatures, config)], tasks),
        "buckets": ([MinhashDedupBuckets(signatures, buckets, config=config)], config.num_buckets),
        "clusters": ([MinhashDedupCluster(buckets, clusters, config, save_cluster_id=True)], 1),
        "filter": (
            [
                reader,
                MinhashDedupFilter(
                    clusters, JsonlWriter(str(folder / "removed"), compression=None)
                ),
                JsonlWriter(str(folder / "kept"), compression=None),
            ],
            tasks,
        ),
    }
    steps, count = stages[stage]
    LocalPipelineExecutor(
        steps, tasks=count, workers=workers, logging_dir=str(folder / "logs" / stage)
    ).run()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
