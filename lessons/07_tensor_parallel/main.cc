#include "common/train/run/run.h"
#include "lessons/07_tensor_parallel/trainer.h"

int main(int argc, char** argv) { return ladder::run<ladder::TensorParallelTrainer>(argc, argv); }
