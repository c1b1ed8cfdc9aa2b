#include "common/train/run/run.h"
#include "lessons/12_gradient_compression/trainer.h"

int main(int argc, char** argv) { return ladder::run<ladder::CompressionTrainer>(argc, argv); }
