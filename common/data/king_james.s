# king_james.txt as read-only data, and its size in bytes. Declared in king_james.cc.
    .section .rodata
    .hidden king_james_begin, king_james_bytes
    .globl king_james_begin, king_james_bytes
king_james_begin:
    .incbin "king_james.txt"
king_james_end:
    .balign 8
king_james_bytes:
    .quad king_james_end - king_james_begin
    .section .note.GNU-stack, "", @progbits
