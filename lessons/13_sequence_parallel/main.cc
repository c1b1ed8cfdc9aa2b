#include "common/train/run/run.h"
#include "lessons/13_sequence_parallel/trainer.h"

int main(int argc, char** argv) { return ladder::run<ladder::SequenceParallelTrainer>(argc, argv); }
