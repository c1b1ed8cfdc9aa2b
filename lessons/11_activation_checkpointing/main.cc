#include "common/train/run/run.h"
#include "lessons/11_activation_checkpointing/trainer.h"

int main(int argc, char** argv) { return ladder::run<ladder::CheckpointingTrainer>(argc, argv); }
