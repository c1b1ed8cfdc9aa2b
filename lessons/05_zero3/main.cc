#include "common/train/run/run.h"
#include "lessons/05_zero3/trainer.h"

int main(int argc, char** argv) { return ladder::run<ladder::Zero3Trainer>(argc, argv); }
