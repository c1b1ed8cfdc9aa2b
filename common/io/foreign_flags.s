# foreign_flags.txt as read-only data, and its size in bytes. Declared in unexpected.cc.
    .section .rodata
    .hidden foreign_flags_begin, foreign_flags_bytes
    .globl foreign_flags_begin, foreign_flags_bytes
foreign_flags_begin:
    .incbin "foreign_flags.txt"
foreign_flags_end:
    .balign 8
foreign_flags_bytes:
    .quad foreign_flags_end - foreign_flags_begin
    .section .note.GNU-stack, "", @progbits
