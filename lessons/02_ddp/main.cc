#include "common/train/run/run.h"
#include "lessons/02_ddp/trainer.h"

int main(int argc, char** argv) { return ladder::run<ladder::DdpTrainer>(argc, argv); }
