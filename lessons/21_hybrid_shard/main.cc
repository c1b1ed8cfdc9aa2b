#include "common/train/run/run.h"
#include "lessons/21_hybrid_shard/trainer.h"

int main(int argc, char** argv) { return ladder::run<ladder::HybridShardTrainer>(argc, argv); }
