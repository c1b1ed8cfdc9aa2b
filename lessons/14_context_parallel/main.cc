#include "common/train/run/run.h"
#include "lessons/14_context_parallel/trainer.h"

int main(int argc, char** argv) { return ladder::run<ladder::ContextParallelTrainer>(argc, argv); }
