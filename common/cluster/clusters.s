# clusters.json as read-only data, and its size in bytes. Declared in cluster.cc.
    .section .rodata
    .hidden clusters_json_begin, clusters_json_bytes
    .globl clusters_json_begin, clusters_json_bytes
clusters_json_begin:
    .incbin "clusters.json"
clusters_json_end:
    .balign 8
clusters_json_bytes:
    .quad clusters_json_end - clusters_json_begin
    .section .note.GNU-stack, "", @progbits
