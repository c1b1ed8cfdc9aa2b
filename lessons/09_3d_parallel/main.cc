#include "common/train/run/run.h"
#include "lessons/09_3d_parallel/trainer.h"

int main(int argc, char** argv) { return ladder::run<ladder::ThreeDTrainer>(argc, argv); }
