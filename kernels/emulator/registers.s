# registers.txt as read-only data, and its size in bytes. Declared in registers.cc.
    .section .rodata
    .hidden emulator_registers_begin, emulator_registers_bytes
    .globl emulator_registers_begin, emulator_registers_bytes
emulator_registers_begin:
    .incbin "registers.txt"
emulator_registers_end:
    .balign 8
emulator_registers_bytes:
    .quad emulator_registers_end - emulator_registers_begin
    .section .note.GNU-stack, "", @progbits
