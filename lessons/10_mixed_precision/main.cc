#include "common/train/run/run.h"
#include "lessons/10_mixed_precision/trainer.h"

int main(int argc, char** argv) { return ladder::run<ladder::MixedPrecisionTrainer>(argc, argv); }
