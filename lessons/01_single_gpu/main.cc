#include "common/train/run/run.h"
#include "lessons/01_single_gpu/trainer.h"

int main(int argc, char** argv) { return ladder::run<ladder::SingleGpuTrainer>(argc, argv); }
