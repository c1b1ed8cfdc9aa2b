#include "common/train/run/run.h"
#include "lessons/15_expert_parallel/trainer.h"

int main(int argc, char** argv) { return ladder::run<ladder::ExpertParallelTrainer>(argc, argv); }
