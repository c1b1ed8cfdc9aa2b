#include "common/train/run/run.h"
#include "lessons/18_fine_tuning/trainer.h"

int main(int argc, char** argv) { return ladder::run<ladder::FineTuningTrainer>(argc, argv); }
