// A mark for isa.cc.
extern "C" {
extern const char ladder_v3_alone;
const char ladder_v3_alone = 1;
}
