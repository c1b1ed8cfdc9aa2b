#include "common/train/run/run.h"
#include "lessons/04_zero2/trainer.h"

int main(int argc, char** argv) { return ladder::run<ladder::Zero2Trainer>(argc, argv); }
