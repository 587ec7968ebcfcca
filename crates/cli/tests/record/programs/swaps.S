// Functions at whose first instruction a probe would change what they do. The program ends with 0
// if every call has given what it should.
        .text
        .globl  main
        .type   main, @function
main:
        .cfi_startproc
        push    %rbx
        .cfi_adjust_cfa_offset 8
        mov     $1000, %ebx
1:      mov     $77, %r8d
        xor     %eax, %eax
        call    swaps
        cmp     $77, %eax
        jne     2f
        call    outer
        cmp     $0xc3909090, %eax
        jne     2f
        call    flags
        test    $0x100, %eax
        jne     2f
        call    sizeless
        call    described
        dec     %ebx
        jne     1b
        xor     %eax, %eax
        pop     %rbx
        ret
2:      mov     $3, %eax
        pop     %rbx
        ret
        .cfi_endproc
        .size   main, . - main

// The kernel takes it for `nop`.
        .type   swaps, @function
swaps:
        xchg    %r8, %rax       // 49 90
        ret
        .size   swaps, . - swaps

// The second symbol is in the middle of an instruction.
        .type   outer, @function
outer:
        .byte   0xb8            // mov $0xc3909090, %eax
        .type   inner, @function
inner:
        .byte   0x90, 0x90, 0x90, 0xc3
        ret
        .size   outer, . - outer
        .size   inner, . - inner

// The kernel's own flag would be among these.
        .type   flags, @function
flags:
        pushfq
        pop     %rax
        ret
        .size   flags, . - flags

// Nothing says where it ends.
        .type   sizeless, @function
sizeless:
        nop
        ret

// A table for unwinding says where it ends.
        .type   described, @function
described:
        .cfi_startproc
        nop
        ret
        .cfi_endproc

        .section .note.GNU-stack, "", @progbits
