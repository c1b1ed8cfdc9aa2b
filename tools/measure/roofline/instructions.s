# instructions.txt as read-only data, and its size in bytes. Declared in instructions.cc.
    .section .rodata
    .hidden roofline_instructions_begin, roofline_instructions_bytes
    .globl roofline_instructions_begin, roofline_instructions_bytes
roofline_instructions_begin:
    .incbin "instructions.txt"
roofline_instructions_end:
    .balign 8
roofline_instructions_bytes:
    .quad roofline_instructions_end - roofline_instructions_begin
    .section .note.GNU-stack, "", @progbits
