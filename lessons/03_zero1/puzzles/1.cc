// 03.1 Whose is it?
//
// A unit has `elements` parameters, and each of `ranks` ranks owns a shard of it: rank 0 the first,
// rank 1 the next, and so on. All shards have the same length, even if padding has to be put after
// the last element. It is a multiple of 16, so that every shard begins at a cache line of its own,
// and as short as possible.
//
// Returns the rank that owns an element, counted from 0.
// Example: 40 elements, 2 ranks: shards have 32, so element 31 belongs to rank 0, and 32 to rank 1.
int owner(int element, int elements, int ranks) {
  throw "not written yet";  // yours
}
