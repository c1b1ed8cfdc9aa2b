#include "common/train/run/run.h"
#include "lessons/20_muon/trainer.h"

int main(int argc, char** argv) { return ladder::run<ladder::MuonTrainer>(argc, argv); }
