#include "common/train/run/run.h"
#include "lessons/06_offload/trainer.h"

int main(int argc, char** argv) { return ladder::run<ladder::OffloadTrainer>(argc, argv); }
