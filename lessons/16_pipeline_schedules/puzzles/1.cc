// 16.1 There and back
//
// A model is cut into virtual stages, and each of `stages` stages holds several: its chunks 0, 1, 2
// ... A micro-batch goes through them in order: through chunk 0 of stage 0, of stage 1, up to the
// last stage. That one goes on itself, with its chunk 1. Then it goes back through the chunks 1 to
// stage 0, which goes on with its chunk 2, and so on.
//
// Returns the number of a chunk of a stage in this order, counted from 0.
// Example: 3 stages: stage 2 holds 2, 3 and 8; stage 0 holds 0, 5 and 6.
int virtual_stage(int stage, int chunk, int stages) {
  throw "not written yet";  // yours
}
