#include "common/train/run/run.h"
#include "lessons/03_zero1/trainer.h"

int main(int argc, char** argv) { return ladder::run<ladder::Zero1Trainer>(argc, argv); }
